package server

import "bytes"

// An Answer finds the marks in what a shell writes to its standard error, and
// its state in what it writes to its standard output. Any process of the
// shell can write there, so anything may come; what is no mark, and what is
// not between the marks of the state, is dropped.
type protocolAnswer struct {
	token    []byte
	held     []byte // what may be the beginning of a mark
	status   uint8
	ended    bool // the first mark came
	complete bool // and the second
	own      bool // which says that the shell has its own outputs
	astray   bool // the working directory is not there, and the shell has gone elsewhere

	before   []byte // of the state: what may be the beginning of its mark
	within   bool   // that came
	reported bool   // and the end of the state
}

// NewAnswer returns an Answer that waits for the marks of token.
func newAnswer(token string) *protocolAnswer { return &protocolAnswer{token: []byte(token)} }

// Ended reports whether the line has ended, and with which status.
func (a *protocolAnswer) Ended() (status uint8, ok bool) { return a.status, a.ended }

// Complete reports whether the whole state was written.
func (a *protocolAnswer) Complete() bool { return a.complete }

// Own reports whether the shell says that it has its own outputs.
func (a *protocolAnswer) Own() bool { return a.own }

// Astray reports whether the shell says that its working directory is not there.
func (a *protocolAnswer) Astray() bool { return a.astray }

// Reported reports whether the state has come to its end.
func (a *protocolAnswer) Reported() bool { return a.reported }

// State takes the next bytes from the shell's standard output, and returns
// those of the state and what follows its end, which it shares with p. The state
// begins after NUL token LF and ends before the next NUL, which no part of it can
// hold.
func (a *protocolAnswer) State(p []byte) (state, rest []byte) {
	if !a.within {
		p = a.begin(p)
	}
	if !a.within || a.reported {
		return nil, nil
	}
	if end := bytes.IndexByte(p, 0); end >= 0 {
		a.reported = true
		return p[:end], p[end+1:]
	}
	return p, nil
}

// begin looks for the beginning of the state, and returns what follows it.
func (a *protocolAnswer) begin(p []byte) []byte {
	mark := append(append([]byte{0}, a.token...), '\n')
	a.before = append(a.before, p...)
	at := bytes.Index(a.before, mark)
	if at < 0 {
		a.before = a.before[max(0, len(a.before)-len(mark)+1):]
		return nil
	}
	a.within = true
	rest := len(a.before) - at - len(mark)
	a.before = nil
	return p[len(p)-rest:]
}

// Feed takes the next bytes.
func (a *protocolAnswer) Feed(p []byte) {
	if a.complete {
		return
	}
	a.held = append(a.held, p...)
	for !a.complete {
		i := bytes.IndexByte(a.held, 0)
		if i < 0 {
			a.held = a.held[:0]
			return
		}
		a.held = a.held[i:]
		n, verdict := a.parse(a.held)
		switch verdict {
		case unknown:
			return
		case no:
			n = 1
		}
		a.held = a.held[n:]
	}
}

// Verdicts of parse.
const (
	no = iota
	yes
	unknown // there is not enough to tell
)

// parse tells whether b, which begins with NUL, begins with the mark that
// is waited for, how long that is, and takes note of it. The first mark is
// NUL token SPACE status LF, the second NUL token DOT LF, or with PLUS. Before the
// first there may be NUL token BANG LF.
func (a *protocolAnswer) parse(b []byte) (n, verdict int) {
	rest, found := bytes.CutPrefix(b[1:], a.token)
	switch {
	case !found && bytes.HasPrefix(a.token, b[1:]), found && len(rest) == 0:
		return 0, unknown
	case !found:
		return 0, no
	}
	used := 1 + len(a.token)
	if a.ended {
		own := rest[0] == '+'
		switch {
		case rest[0] != '.' && !own:
			return 0, no
		case len(rest) == 1:
			return 0, unknown
		case rest[1] != '\n':
			return 0, no
		}
		a.complete, a.own = true, own
		return used + 2, yes
	}
	if rest[0] == '!' {
		switch {
		case len(rest) == 1:
			return 0, unknown
		case rest[1] != '\n':
			return 0, no
		}
		a.astray = true
		return used + 2, yes
	}
	status, digits, verdict := parseStatus(rest)
	if verdict == yes {
		a.status, a.ended = status, true
	}
	return used + digits, verdict
}

// parseStatus reads SPACE status LF, and how long that is.
func parseStatus(b []byte) (status uint8, n, verdict int) {
	if b[0] != ' ' {
		return 0, 0, no
	}
	v := 0
	for i, c := range b[1:] {
		switch {
		case c == '\n' && i > 0:
			return uint8(v), i + 2, yes
		case c < '0' || c > '9' || i == 3:
			return 0, 0, no
		}
		if v = 10*v + int(c-'0'); v > 255 {
			return 0, 0, no
		}
	}
	return 0, 0, unknown
}
