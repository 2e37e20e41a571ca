//go:build linux

package server

import (
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// keepAfter is how long a shell may take to write its state, after a line that
// is followed by no other, before the guest looks for it.
const keepAfter = 300 * time.Microsecond

// A telling is the state that a shell has not written to its end yet. The shell
// writes it while the client receives the end of the line and sends the next
// one, and reads that line when it has written everything: the guest need not
// wait, or be woken up, for the end. When a line has ended, the state after the
// one before is kept.
type telling struct {
	rest *protocolAnswer // nil: there is none
	by   time.Time       // until when
	line uint32          // the line after which it is written
}

// over reports whether there is none.
func (t *telling) over() bool { return t.rest == nil }

// inTime is an error when it takes too long, or is more than a state can be.
func (t *telling) inTime(state *shellState) error {
	if t.rest != nil && (state.size > maxAnswer || time.Now().After(t.by)) {
		return errSlow
	}
	return nil
}

// keepState reads the state of the shell to its end. A usual one fits into its
// pipe and is read at once when it is there; for a larger one, the shell waits
// until the guest has read a part.
func (p *shellProc) keepState(a *protocolAnswer, state *shellState) error {
	deadline := time.Now().Add(stateWithin)
	err := p.hear(a, state, a.Complete, stateLook, func() error {
		for {
			if time.Now().After(deadline) || state.size > maxAnswer {
				return errSlow
			}
			before := state.size
			if err := p.take(a, state); err != nil || state.size == before {
				return err
			}
			time.Sleep(stateLook / 10)
		}
	})
	if err == nil {
		err = p.take(a, state)
	}
	switch {
	case err != nil:
		return err
	case !a.Reported():
		return errWedged
	}
	state.commit()
	return nil
}

// keepLater leaves the state to be taken while the shell has its next line, or
// has none.
func (p *shellProc) keepLater(a *protocolAnswer, state *shellState) {
	if a.Reported() {
		state.commit()
		return
	}
	p.telling.rest, p.telling.by = a, time.Now().Add(stateWithin)
}

// keepNow waits for the end of a state of which the shell does not say when it
// is whole.
func (p *shellProc) keepNow(a *protocolAnswer, state *shellState) error {
	p.keepLater(a, state)
	for {
		gone := p.isGone() // what it has written by then is all
		err := p.takeNow(state)
		if err == nil {
			err = p.telling.inTime(state)
		}
		if err == nil && gone && !p.telling.over() {
			err = io.EOF
		}
		if err != nil || p.telling.over() {
			return err
		}
		time.Sleep(stateLook / 10)
	}
}

// expect is called before the shell is given a line.
func (p *shellProc) expect(line uint32, state *shellState) {
	if p.telling.line = line; p.telling.over() {
		state.begin(line)
	}
}

// takeNow takes what there is of the rest while the shell has no other line. A
// shell that has read all of its script has written everything that it will
// ever write.
func (p *shellProc) takeNow(state *shellState) error {
	if p.telling.over() {
		return nil
	}
	left, err := pending(p.script)
	if err == nil {
		err = p.take(p.telling.rest, state)
	}
	if err == nil && left == 0 && !p.telling.over() {
		err = errWedged
	}
	return err
}

// finish takes the rest once the shell has answered another line.
func (p *shellProc) finish(a *protocolAnswer, state *shellState) error {
	if p.telling.over() {
		return nil
	}
	err := p.take(a, state)
	if err == nil && !p.telling.over() {
		err = errWedged
	}
	return err
}

// take reads what has been written of the state by now, at most what fits
// into a pipe of any size. The rest of that of the line before comes first.
func (p *shellProc) take(a *protocolAnswer, state *shellState) error {
	for range maxPipe / len(p.buf) {
		n, err := unix.Read(p.reported, p.buf)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN || n == 0:
			return nil
		case err != nil:
			return err
		default:
			b := p.buf[:n]
			if !p.telling.over() {
				b = p.takeRest(b, state)
			}
			b, _ = a.State(b)
			state.write(b)
		}
	}
	return nil
}

// takeRest takes the next bytes for the line before, and returns what follows
// its state.
func (p *shellProc) takeRest(b []byte, state *shellState) (left []byte) {
	t := &p.telling
	b, left = t.rest.State(b)
	state.write(b)
	if !t.rest.Reported() {
		return nil
	}
	t.rest = nil
	state.commit()
	state.over(state.line)
	state.begin(t.line)
	return left
}

// lastWords takes what the shell, whose processes are gone, has written of its
// state.
func (p *shellProc) lastWords(state *shellState) {
	if p.telling.over() {
		return
	}
	_ = p.take(p.telling.rest, state) // what is missing is not kept
	if !p.telling.over() {
		p.telling.rest = nil
		state.over(state.line)
	}
}

// keepRest looks for the state of the last line while there is no other. It
// returns after how long to look again, or 0.
func (s *shell) keepRest() time.Duration {
	p, before := s.proc, s.state.size
	err := p.takeNow(s.state)
	if err == nil {
		err = p.telling.inTime(s.state)
	}
	switch {
	case err != nil, p.isGone():
		s.abandon()
		s.lost = true
		return 0
	case p.telling.over():
		return 0
	case s.state.size > before:
		return stateLook / 10
	}
	return stateLook
}
