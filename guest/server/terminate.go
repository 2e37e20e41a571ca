//go:build linux

package server

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// killWithin bounds one attempt to end a tree.
const killWithin = 5 * time.Second

// kill ends every process of the command; with grace, politely first. It
// returns when they are gone or could not be ended within its bound.
func (m *command) kill(grace time.Duration) {
	if m.conn.srv.gate.withdraw(&m.pass) {
		m.run(calledOff())
		return
	}
	<-m.launched
	if grace > 0 {
		m.terminate(grace)
	}
	m.killing.Lock()
	defer m.killing.Unlock()
	if m.isGone() {
		return
	}
	m.signalGroup(unix.SIGKILL)
	select {
	case <-m.gone:
		return
	case <-time.After(2 * time.Millisecond):
	}
	if err := m.conn.srv.killTree(m.shim, m.gone, killWithin); err != nil {
		// What is left becomes ours to sweep when its shim ends.
		m.forced.Store(true)
		m.conn.srv.nursery.kill(m.shim.pid)
	}
}

func (m *command) isGone() bool {
	select {
	case <-m.gone:
		return true
	default:
		return false
	}
}

// signalGroup signals the program's process group. The shim has not reaped the
// program as long as pid is set, so no other process has the number.
func (m *command) signalGroup(sig unix.Signal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pid > 0 {
		_ = unix.Kill(-m.pid, sig) // may have ended just now
	}
}

// terminate sends SIGTERM to every process of the command and waits until
// they are gone, at most for the grace period.
func (m *command) terminate(grace time.Duration) {
	m.killing.Lock()
	if !m.isGone() {
		m.conn.srv.walk(func() {
			_ = signalProctree(proctreeTree{Root: m.shim.pid}, unix.SIGTERM) // SIGKILL follows anyway
		})
	}
	m.killing.Unlock()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-m.gone:
	case <-timer.C:
	}
}

// walk runs f with the right to walk over /proc, which few may do at once:
// a walk keeps a thread busy, and there may be no more threads to be had.
func (s *Server) walk(f func()) {
	s.walkers <- struct{}{}
	defer func() { <-s.walkers }()
	f()
}

// lastLook is the auditor's last. Commands without an audit have none.
func (s *Server) lastLook(m *command) {
	if m.audit != nil {
		s.walk(func() { s.auditor.last(m) })
	}
}

// killTree ends everything below a shim. It returns an error when processes are
// left after the limit.
func (s *Server) killTree(proc *shimProc, gone <-chan struct{}, limit time.Duration) (err error) {
	proc.wake()
	s.walk(func() {
		select {
		case <-gone: // while we waited
		default:
			err = killProctree(proctreeTree{Root: proc.pid, Gone: gone}, limit)
		}
	})
	return err
}

// sweep ends all our descendants that do not belong to a living shim:
// leftovers of a shim that was killed, and of engine execs.
func (s *Server) sweep() {
	except := s.nursery.is
	if !s.keepsTrees {
		except = s.claimed
	}
	s.walk(func() {
		// What is left after the limit is met by the next sweep.
		_ = killProctree(proctreeTree{Root: os.Getpid(), Except: except}, killWithin)
	})
}
