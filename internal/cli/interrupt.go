package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// A signalError is the cause of a context that a signal ended.
type signalError struct{ number syscall.Signal }

// Error implements error.
func (e signalError) Error() string {
	return fmt.Sprintf("ended by signal %d (%v)", int(e.number), e.number)
}

// interrupts turns the signals that ask a program to end into the end of a
// context. A second signal ends the program at once; what has to be put
// right even then is registered with atExit.
type interrupts struct {
	cancel context.CancelCauseFunc
	exit   func(status int)
	ch     chan os.Signal
	done   chan struct{}
	ended  sync.WaitGroup

	mu    sync.Mutex
	rites map[int]func()                     // under mu
	next  int                                // under mu
	lent  map[syscall.Signal]chan<- struct{} // under mu
}

// watchInterrupts returns a context that ends with the first signal; its
// cause is a signalError. SIGPIPE is caught so that writing to a closed pipe
// is an error to act on and not the end of the program: a command must be
// ended and a terminal restored first.
func watchInterrupts(parent context.Context, exit func(int)) (context.Context, *interrupts) {
	ctx, cancel := context.WithCancelCause(parent)
	in := &interrupts{cancel: cancel, exit: exit, ch: make(chan os.Signal, 4), done: make(chan struct{}), rites: map[int]func(){}}
	// What the caller has ignored (nohup) stays ignored.
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE} {
		if !signal.Ignored(s) {
			signal.Notify(in.ch, s)
		}
	}
	in.ended.Add(1)
	go in.watch()
	return ctx, in
}

func (in *interrupts) watch() {
	defer in.ended.Done()
	first := true
	for {
		select {
		case <-in.done:
			return
		case s := <-in.ch:
			n, ok := s.(syscall.Signal)
			if !ok || n == syscall.SIGPIPE || in.handOn(n) {
				continue
			}
			if first {
				first = false
				in.cancel(signalError{n})
				continue
			}
			in.lastRites()
			in.exit(statusSignal + int(n))
		}
	}
}

// abort ends the context because of err.
func (in *interrupts) abort(err error) { in.cancel(err) }

// atExit registers fn to run before the program is ended by a second signal.
// The returned function takes it back.
func (in *interrupts) atExit(fn func()) (remove func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	id := in.next
	in.next++
	in.rites[id] = fn
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(in.rites, id)
	}
}

func (in *interrupts) lastRites() {
	in.mu.Lock()
	fns := make([]func(), 0, len(in.rites))
	for _, fn := range in.rites {
		fns = append(fns, fn)
	}
	in.mu.Unlock()
	for _, fn := range fns {
		fn()
	}
}

// stop gives the signals back and ends the context.
func (in *interrupts) stop() {
	signal.Stop(in.ch)
	close(in.done)
	in.ended.Wait()
	in.cancel(context.Canceled)
}

// lend has a signal no longer end anything: who has it hears of it on the
// channel, of several that come at once only once. back gives it back.
func (in *interrupts) lend(s syscall.Signal) (heard <-chan struct{}, back func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	ch := make(chan struct{}, 1)
	in.lent = map[syscall.Signal]chan<- struct{}{s: ch}
	return ch, func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(in.lent, s)
	}
}

// handOn tells who has a signal of it, and whether anybody has.
func (in *interrupts) handOn(s syscall.Signal) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	ch := in.lent[s]
	if ch == nil {
		return false
	}
	select {
	case ch <- struct{}{}:
	default: // it is to be told already
	}
	return true
}
