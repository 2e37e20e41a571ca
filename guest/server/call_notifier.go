//go:build linux

package server

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

const (
	// maxResolvers bounds the paths that are followed at once: a file system
	// that hangs would take a thread for each.
	maxResolvers = 4
	// patience is how long one of them may take before another one looks after
	// its shim, and how long to wait for a free one.
	patience = 100 * time.Millisecond
	// settleWithin bounds how long the end of a command waits for the last path
	// that it has tried. What is not found by then is not reported, and on a
	// busy machine a resolver stands still for seconds; only a command whose
	// last path hangs in a file system waits for so long.
	settleWithin = 5 * time.Second
)

// callNotifier look at what the commands of a sandbox try. A nil one sees nothing.
type callNotifier struct {
	observer  *notifierObserver
	resolve   func(*notifierSighting) []wire.Attempt // the observer's
	resolvers chan struct{}                          // holds a token for each that is at work
}

func newCallNotifier(c wire.Config) (*callNotifier, error) {
	if !c.Observe {
		return nil, nil
	}
	o, err := newNotifier(c.Writable)
	if err != nil {
		return nil, err
	}
	return &callNotifier{observer: o, resolve: o.Resolve, resolvers: make(chan struct{}, maxResolvers)}, nil
}

// open looks at the listener of a new shim from now on. Where e is nil it is
// asked about new processes alone.
func (e *callNotifier) open(s *shimProc, listener int) error {
	if err := unix.SetNonblock(listener, true); err != nil {
		unix.Close(listener)
		return err
	}
	hastenNotifier(listener)
	go e.watch(s, os.NewFile(uintptr(listener), "listener"))
	return nil
}

// watch answers the calls of a shim's processes until the last one is gone.
func (e *callNotifier) watch(s *shimProc, listener *os.File) {
	conn, err := listener.SyscallConn()
	if err != nil {
		return // it is closed
	}
	var observer *notifierObserver
	if e != nil {
		observer = e.observer
	}
	fork := func(thread int) bool { return s.forks.Load().allow(thread) }
	for {
		var seen *notifierSighting
		var w *outputDigest
		rerr := conn.Read(func(fd uintptr) bool {
			seen, err = observer.Take(int(fd), fork, func() { w = s.outputDigest.Load().begin() })
			return !errors.Is(err, errNone)
		})
		switch {
		case rerr != nil || err == io.EOF:
			listener.Close()
			return
		case err != nil: // no memory to be had; a call that waits is not given up
			time.Sleep(time.Millisecond)
		case w != nil:
			if !e.follow(seen, w, func() { e.watch(s, listener) }) {
				return
			}
		}
	}
}

// follow finds out what a sighting was about, and reports it to w. It returns
// false when that took so long that another resolver has taken over.
func (e *callNotifier) follow(seen *notifierSighting, w *outputDigest, other func()) bool {
	defer w.end()
	if !e.enter() {
		return true
	}
	relief := time.AfterFunc(patience, other)
	found := e.resolve(seen)
	<-e.resolvers
	for _, a := range found {
		w.tell(a)
	}
	return relief.Stop()
}

// enter takes a token of the resolvers, unless all are stuck.
func (e *callNotifier) enter() bool {
	select {
	case e.resolvers <- struct{}{}:
		return true
	default:
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case e.resolvers <- struct{}{}:
		return true
	case <-limit.C:
		return false
	}
}
