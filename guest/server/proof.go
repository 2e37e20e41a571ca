//go:build linux

package server

import (
	"errors"
	"runtime"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// A proof is what the checks of a configuration have shown.
type proof struct {
	there  <-chan struct{} // closed once there is the thread that makes them
	done   chan struct{}   // closed once the rest can be read
	misses []wire.Miss
	err    error // it is not known
}

// try has the checks be made on a thread that is held as commands are, and that
// ends with the checks: it is none of those that the process keeps. It has to be
// there before commands are, which could take the room for it.
func try(checks []wire.Check, maker *shimMaker) *proof {
	p := &proof{done: make(chan struct{})}
	if len(checks) == 0 {
		p.err = errors.New("the guest was given nothing to check")
		p.there = p.done
		close(p.done)
		return p
	}
	p.there = onThread(func() {
		defer close(p.done)
		if p.err = maker.Hold(); p.err == nil {
			p.misses = runSelfcheck(checks)
		}
	})
	return p
}

// onThread runs f on a thread that it has for itself and that ends with f. It
// is not the process's first one, which cannot end. The channel is closed once
// there is the thread.
func onThread(f func()) (there <-chan struct{}) {
	locked := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			<-onThread(f) // on another one, because this one is taken
			runtime.UnlockOSThread()
			close(locked)
			return
		}
		close(locked)
		f() // and the thread ends with the goroutine that has it
	}()
	return locked
}

// A proving is a request for the proof.
type proving struct {
	c      *conn
	stream uint32
}

// prove begins to answer a Proof.
func (c *conn) prove(f wire.Frame) error {
	if len(f.Payload) > 0 {
		return wire.Violation("malformed proof request")
	}
	r := proving{c, f.Stream}
	c.begin(f.Stream, r, false)
	go r.answer()
	return nil
}

// answer waits for the end of the checks, and until commands can start. A failed write is the connection's
// end, which its reader sees too.
func (r proving) answer() {
	p := r.c.srv.proof
	<-p.done
	<-r.c.srv.pool.opened
	switch {
	case p.err != nil:
		_ = r.c.refuse(r.stream, wire.KindInternal, "the sandbox could not be tried: "+p.err.Error())
	case len(p.misses) > wire.MaxMisses:
		_ = r.c.refuse(r.stream, wire.KindInternal, "too many rules of the sandbox do not hold to list them all")
	default:
		_ = r.c.w.Write(wire.Frame{Type: wire.TypeProven, Stream: r.stream, Payload: wire.EncodeMisses(p.misses)})
	}
	r.c.finished(r.stream, false)
}

// event implements stream: nothing belongs to such a request.
func (proving) event(wire.Frame) error { return wire.Violation("frame for a proof request") }

// disconnect implements stream. The checks end by themselves.
func (proving) disconnect() {}
