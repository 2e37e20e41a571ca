//go:build linux

package server

import (
	"errors"
	"os"
	"strconv"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// play runs one line to its end and makes the shell ready for the next. A
// process that ends before it has read the line was not the line's to end,
// and the line gets another one.
func (s *shell) play(l *shellLine) {
	defer s.played(l)
	s.conn.srv.files.gate.pass(s.stop)
	if s.kept.part {
		s.kept.part = false
		l.fail(failure(wire.KindInternal, errors.New(partText+": "+errPart.Error())))
		return
	}
	var ended *shellProc // without having read the line
	for {
		p, a, refused := s.hand(l)
		switch {
		case refused != nil && ended != nil:
			s.bury(l, ended, newAnswer(l.token))
			return
		case refused != nil:
			l.fail(refused)
			return
		}
		err := l.hear(p, a)
		if err == nil && s.ends(l) {
			s.conclude(l, p, a)
			return
		}
		s.forget()
		p.kill(0)
		<-p.prog.gone
		l.carry(p)
		l.finish()
		unread := ended == nil && p.unread() && s.takeBack(l)
		p.lastWords(s.state)
		p.release()
		if !unread {
			s.bury(l, p, a)
			return
		}
		ended, s.lost = p, true
	}
}

// played says that no state will be kept of a line that has ended, unless that
// is left for later.
func (s *shell) played(l *shellLine) {
	if p := s.proc; p == nil || p.telling.over() {
		s.state.over(l.cmd.id)
	}
}

// conclude answers a line that has come to its end and keeps the state.
func (s *shell) conclude(l *shellLine, p *shellProc, a *protocolAnswer) {
	if !l.deliver(p) {
		l.carry(p)
		l.settle()
	}
	s.conn.srv.auditor.release(p.prog)
	p.prog.unasked()
	lost := p.finish(a, s.state) // first: who hears of a line's end knows that the state before it is kept
	status, _ := a.Ended()
	exit := l.ended(wire.Exit{Code: status, Restarted: s.lost, LostDir: l.lostDir(a)})
	s.lost = false
	l.conclude(wire.TypeExit, exit.Encode())
	if lost != nil || p.settle(l, a, s.state) != nil {
		s.abandon()
		s.lost = true
	}
}

// bury answers a line with which its process has ended.
func (s *shell) bury(l *shellLine, p *shellProc, a *protocolAnswer) {
	l.endInput()
	s.lost = false
	if p.exitErr != nil {
		s.lost = true // an error does not tell that
		l.conclude(wire.TypeFailed, failure(wire.KindInternal, errors.New("the stage of the shell was killed")).Encode())
		return
	}
	exit := wire.Exit{Code: p.exit.Code, Signal: p.exit.Signal, Restarted: true, LostDir: l.lostDir(a)}
	if status, ok := a.Ended(); ok { // within the time that it had to end by itself
		exit.Code, exit.Signal = status, 0
	}
	l.conclude(wire.TypeExit, l.ended(exit).Encode())
}

// ended returns e with the limit that the line has reached.
func (l *shellLine) ended(e wire.Exit) wire.Exit {
	e = l.cmd.audit.ended(e)
	if e.Limit == nil {
		e.Limit = l.cmd.conn.srv.short(l.cmd.before, e, l.shell.req.Env, l.shell.req.Dir)
	}
	return e
}

// lostDir returns the folder of which the shell says that it is not there.
func (l *shellLine) lostDir(a *protocolAnswer) string {
	if l.enter == nil || !a.Astray() {
		return ""
	}
	return l.enter.dir
}

// unread reports whether a shell whose processes are gone has ended before
// it had read the line to its end, and so before it began to run it.
func (p *shellProc) unread() bool {
	left, err := leftIn(p.script, len(p.buf))
	return err == nil && p.given.Unread(left+p.unsent)
}

// leftIn returns what lies in the pipe of which f is the write end, at most
// n bytes and a little more.
func leftIn(f *os.File, n int) (left string, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return "", err
	}
	var fd int
	cerr := conn.Control(func(ours uintptr) {
		fd, err = unix.Open("/proc/self/fd/"+strconv.Itoa(int(ours)), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if cerr != nil || err != nil {
		return "", errors.Join(cerr, err)
	}
	defer unix.Close(fd)
	b := make([]byte, n)
	for len(left) < n {
		got, err := unix.Read(fd, b)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN || got == 0:
			return left, nil
		case err != nil:
			return "", err
		default:
			left += string(b[:got])
		}
	}
	return left, nil
}
