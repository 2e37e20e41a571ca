//go:build linux

package server

import (
	"errors"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// maxFailures is how often in a row a process may fail to take up a state
// before the state is given up. The first failure may be the fault of the
// moment: no processes or memory to be had.
const maxFailures = 2

// errPart means that a shell has not taken up all of its state.
var errPart = errors.New("a part of the state is lost")

const partText = "the state of the shell could be restored in part only, the next line finds that"

// start starts a process that takes up the state that was kept. When a
// working directory is gone, a shell with a state starts at the root.
func (s *shell) start() *wire.Failed {
	restore, err := s.state.copy()
	if err != nil {
		return failure(wire.KindResource, err)
	}
	if restore != nil {
		defer restore.Close()
	}
	req := s.req
	s.turn = s.conn.srv.files.gate.now() // before it enters its folder
	p, refused := startShell(s.conn, req, restore, s.kept.posix)
	if refused != nil && refused.Kind == wire.KindBadDir && restore != nil {
		req.Dir = "/"
		p, refused = startShell(s.conn, req, restore, s.kept.posix)
	}
	if refused != nil {
		return refused
	}
	if s.foreign(p) {
		p.end()
		return failure(wire.KindInvalid, errors.New("the state is that of another shell than "+p.program))
	}
	if !s.adopt(p) {
		p.end()
		return failure(wire.KindInternal, errKilled)
	}
	err = s.prepare(p, restore != nil)
	if s.started() {
		// The client that has killed the line may be about to kill p.
		s.abandon()
		return failure(wire.KindInternal, errKilled)
	}
	if err != nil {
		return s.unprepared(err)
	}
	s.failures = 0
	return nil
}

// adopt makes p the process of the shell, unless the shell is to end or no line
// waits for p any more.
func (s *shell) adopt(p *shellProc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.current != nil && s.current.killed {
		return false
	}
	s.proc, s.starting = p, true
	return true
}

// started ends what adopt began, and reports whether the line for which it
// was has been killed meanwhile.
func (s *shell) started() (killed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting = false
	return s.current != nil && s.current.killed
}

// unprepared returns the failure for a state that was not taken up as a whole.
// No line runs on less than the kept state unless that was reported before.
func (s *shell) unprepared(err error) *wire.Failed {
	text := "the shell does not start"
	switch {
	case err == errPart:
		text = partText
	case s.state.good != nil:
		text = "the state of the shell could not be restored, the next line tries again"
		if s.failures++; s.failures == maxFailures {
			s.failures = 0
			s.state.drop()
			text = "the state of the shell could not be restored, the next line finds a new one"
		}
	}
	if err != errPart {
		s.abandon()
	}
	return failure(wire.KindInternal, errors.New(text+": "+err.Error()))
}

// prepare has the new process read the prelude and tell its state.
func (s *shell) prepare(p *shellProc, restoring bool) error {
	if err := p.hold.settle(); err != nil {
		return err
	}
	token := randomHex(tokenLen / 2)
	a := newAnswer(token)
	if err := p.say(p.shellProtocol.Begin(token, restoring && s.state.hasTraps())); err != nil {
		return err
	}
	s.state.again()
	if err := p.keepState(a, s.state); err != nil || !restoring {
		return err
	}
	if err := p.hold.put(put{slotRestore, s.conn.srv.nullFD}); err != nil {
		return err
	}
	if err := p.hold.settle(); err != nil {
		return err
	}
	if status, _ := a.Ended(); status != 0 {
		return errPart
	}
	return nil
}
