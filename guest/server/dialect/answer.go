package dialect

import "bytes"

// An Answer finds the marks in what a shell writes to its control slot. Any
// process of the shell can write there, so anything may come.
type Answer struct {
	token    []byte
	held     []byte // not yet told to be, or not to be, part of a mark
	status   uint8
	ended    bool // the first mark came
	complete bool // and the second
}

// NewAnswer returns an Answer that waits for the marks of token.
func NewAnswer(token string) *Answer { return &Answer{token: []byte(token)} }

// Ended reports whether the line has ended, and its status.
func (a *Answer) Ended() (status uint8, ok bool) { return a.status, a.ended }

// Complete reports whether the state that followed came to its end.
func (a *Answer) Complete() bool { return a.complete }

// Feed takes the next bytes and returns those that belong to the state of
// the shell. The result is valid until the next call.
func (a *Answer) Feed(p []byte) []byte {
	if a.complete {
		return nil
	}
	a.held = append(a.held, p...)
	if !a.ended && !a.findEnd() {
		return nil
	}
	return a.takeState()
}

// findEnd looks for the first mark: NUL token SPACE status LF. What comes
// before it is dropped.
func (a *Answer) findEnd() bool {
	for {
		i := bytes.IndexByte(a.held, 0)
		if i < 0 {
			a.held = a.held[:0]
			return false
		}
		a.held = a.held[i:]
		status, n, verdict := a.parse(a.held)
		switch verdict {
		case yes:
			a.status, a.ended = status, true
			a.held = a.held[n:]
			return true
		case unknown:
			return false
		}
		a.held = a.held[1:]
	}
}

// Verdicts of parse.
const (
	no = iota
	yes
	unknown // there is not enough to tell
)

// parse tells whether b, which begins with NUL, begins with the first mark,
// and how long that is.
func (a *Answer) parse(b []byte) (status uint8, n, verdict int) {
	head := append(append([]byte{0}, a.token...), ' ')
	if len(b) < len(head) {
		if bytes.HasPrefix(head, b) {
			return 0, 0, unknown
		}
		return 0, 0, no
	}
	if !bytes.HasPrefix(b, head) {
		return 0, 0, no
	}
	v := 0
	for i := len(head); i < len(b); i++ {
		c := b[i]
		switch {
		case c == '\n' && i > len(head):
			return uint8(v), i + 1, yes
		case c < '0' || c > '9' || i == len(head)+3:
			return 0, 0, no
		}
		if v = 10*v + int(c-'0'); v > 255 {
			return 0, 0, no
		}
	}
	return 0, 0, unknown
}

// takeState returns what is surely state: everything before the second mark
// (NUL token DOT LF), or before what may be its beginning.
func (a *Answer) takeState() []byte {
	mark := append(append([]byte{0}, a.token...), '.', '\n')
	if i := bytes.Index(a.held, mark); i >= 0 {
		state := a.held[:i]
		a.held, a.complete = nil, true
		return state
	}
	keep := 0
	for n := min(len(mark)-1, len(a.held)); n > 0; n-- {
		if bytes.HasSuffix(a.held, mark[:n]) {
			keep = n
			break
		}
	}
	state := a.held[:len(a.held)-keep]
	a.held = append([]byte(nil), a.held[len(a.held)-keep:]...)
	return state
}
