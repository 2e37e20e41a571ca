//go:build linux

package server

import "golang.org/x/sys/unix"

// Where there are no subreapers (some versions of gVisor) a process whose
// parent ends becomes a child of process 1, and its command can be determined
// by its session alone. When a command ends, every process is ended that is
// neither below a shim nor in the session of a command that still runs. One
// that left its parent and its session both is thus ended with the next command
// that ends, whichever that is: no command may leave anything behind, and a
// daemon of another one is the price. Hello says so.

// joinSession notes that the session of a program belongs to a command.
func (s *Server) joinSession(program int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[program] = true
}

func (s *Server) leaveSession(program int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, program)
}

// claimed reports whether pid is a shim or belongs to a running command.
func (s *Server) claimed(pid int) bool {
	if s.nursery.is(pid) {
		return true
	}
	session, err := unix.Getsid(pid)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[session]
}

// sweepStrays ends what belongs to no command that runs. With subreapers
// there is no such process. It looks twice: one look at /proc can miss a
// process that changes its parent at that moment.
func (s *Server) sweepStrays() {
	if s.keepsTrees {
		return
	}
	s.sweep()
	s.sweep()
}
