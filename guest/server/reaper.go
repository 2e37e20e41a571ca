//go:build linux

package server

import (
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// politeEnd is how long processes have between SIGTERM and SIGKILL when
	// the whole guest ends.
	politeEnd = 2 * time.Second
	// sweepDelay collects the strays of a moment into one sweep.
	sweepDelay = 100 * time.Millisecond
)

// watchChildren reaps every child that ends, for ever.
func (s *Server) watchChildren() {
	// Not a signalfd: the Go runtime keeps SIGCHLD unblocked in its
	// threads, whatever mask the program was started with.
	ended := make(chan os.Signal, 1) // one is enough: reap takes all there are
	signal.Notify(ended, unix.SIGCHLD)
	strays := time.AfterFunc(time.Hour, s.sweep)
	for range ended {
		if s.reap() && s.keepsTrees {
			strays.Reset(sweepDelay)
		}
	}
}

// awaitStop returns when a process outside asks the guest to stop.
//
// As process 1 it listens to sigs.Stop, and only to a sender that our namespace
// does not know, whose number is 0: user code cannot be that. To SIGTERM and
// SIGINT, whose sender cannot be determined, it listens only if open is set: as
// an ordinary process, and where Landlock keeps commands from signalling us.
func awaitStop(fd *os.File, open bool) error {
	plain := make(chan os.Signal, 1)
	if open {
		signal.Notify(plain, stopSignals()...)
	}
	asked := make(chan error, 1)
	go func() { asked <- awaitOutside(fd) }()
	select {
	case <-plain:
		return nil
	case err := <-asked:
		return err
	}
}

func stopSignals() []os.Signal { return []os.Signal{unix.SIGTERM, unix.SIGINT} }

func awaitOutside(fd *os.File) error {
	var b [eventSize]byte
	for {
		if _, err := io.ReadFull(fd, b[:]); err != nil {
			return err
		}
		if decodeSigs(&b).Sender == 0 || os.Getpid() != 1 {
			return nil
		}
	}
}

// reap collects every child that has ended. It reports whether one of them
// was not a shim: where one stray was, there may be more.
func (s *Server) reap() (strays bool) {
	for {
		n := s.nursery
		n.mu.Lock()
		pid, err := unix.Wait4(-1, nil, unix.WALL|unix.WNOHANG, nil)
		reaped := n.live[pid]
		delete(n.live, pid)
		n.mu.Unlock()
		switch {
		case err == unix.EINTR:
		case err != nil || pid <= 0:
			return strays
		case reaped != nil:
			close(reaped)
			s.counted.drop(pid)
			s.pool.forget(pid)
		default:
			strays = true
		}
	}
}

// end tells the clients, and ends everything that runs: SIGTERM to all, SIGKILL to what is left
// after the grace period. Process 1 need not find its victims one by one.
func (s *Server) end() {
	s.drainAndClose()
	s.gate.close()
	s.pool.close()
	s.counted.close()
	send := func(sig unix.Signal) {
		if os.Getpid() == 1 {
			_ = unix.Kill(-1, sig) // that no process is left is fine
			return
		}
		_ = signalProctree(proctreeTree{Root: os.Getpid()}, sig)
	}
	send(unix.SIGTERM)
	for deadline := time.Now().Add(politeEnd); time.Now().Before(deadline) && s.busy(); {
		time.Sleep(10 * time.Millisecond)
	}
	send(unix.SIGKILL)
	if os.Getpid() != 1 {
		_ = killProctree(proctreeTree{Root: os.Getpid()}, killWithin)
	}
}

// busy reports whether anything but shims runs below us. Shims whose
// commands have ended go by themselves.
func (s *Server) busy() bool {
	s.reap()
	all, err := snapshotProctree()
	if err != nil {
		return false
	}
	for _, p := range descendantsProctree(all, os.Getpid(), nil) {
		if !s.nursery.is(p.PID) {
			return true
		}
	}
	return false
}
