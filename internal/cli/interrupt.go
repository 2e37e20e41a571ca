package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A signalError is the cause of a context that a signal ended.
type signalError struct{ number syscall.Signal }

// Error implements error.
func (e signalError) Error() string {
	return fmt.Sprintf("ended by signal %d (%v)", int(e.number), e.number)
}

// interruptGrace is the time that a command has between a signal that was
// passed on to it and SIGTERM.
const interruptGrace = 3 * time.Second

// startWindow is how long a signal waits for a command that is being started: its
// first output may have been read before passTo is called, and a signal that
// answers this output is meant for the command.
const startWindow = 200 * time.Millisecond

// signalWithin bounds the passing on of one signal.
const signalWithin = 2 * time.Second

// interrupts turns the signals that ask a program to end into the end of a
// context. A second signal ends the program at once; what has to be put
// right even then is registered with atExit.
//
// While a command runs (see passTo), SIGINT, SIGHUP and SIGQUIT go to the
// command first, as they are. The context ends, which means SIGTERM and then
// SIGKILL for the command, with the next signal or after interruptGrace.
type interrupts struct {
	cancel context.CancelCauseFunc
	exit   func(status int)
	ch     chan os.Signal
	done   chan struct{}
	ended  sync.WaitGroup

	mu       sync.Mutex
	rites    map[int]func()                     // under mu
	next     int                                // under mu
	diverted map[syscall.Signal]chan<- struct{} // under mu
	to       *receiver                          // under mu; nil when no command runs
	soon     chan struct{}                      // under mu; not nil while a command is being started, closed by passTo
	gave     bool                               // under mu; a command got a signal
}

// A receiver is a command that gets signals before the context ends.
type receiver struct {
	proc  sandbox.Process
	ended chan struct{}
}

// watchInterrupts returns a context that ends with the first signal; its
// cause is a signalError. SIGPIPE is caught so that writing to a closed pipe
// is an error to act on and not the end of the program: a command must be
// ended and a terminal restored first.
func watchInterrupts(parent context.Context, exit func(int)) (context.Context, *interrupts) {
	ctx, cancel := context.WithCancelCause(parent)
	in := newInterrupts(cancel, exit)
	// What the caller has ignored (nohup) stays ignored.
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE} {
		if !signal.Ignored(s) {
			signal.Notify(in.ch, s)
		}
	}
	return ctx, in
}

// newInterrupts returns interrupts that watch their channel, to which no signal is
// connected yet.
func newInterrupts(cancel context.CancelCauseFunc, exit func(int)) *interrupts {
	in := &interrupts{cancel: cancel, exit: exit, ch: make(chan os.Signal, 4), done: make(chan struct{}), rites: map[int]func(){}}
	in.ended.Add(1)
	go in.watch()
	return in
}

func (in *interrupts) watch() {
	defer in.ended.Done()
	first := true
	var passed *receiver // the last command that got a signal
	for {
		select {
		case <-in.done:
			return
		case s := <-in.ch:
			n, ok := s.(syscall.Signal)
			if !ok || n == syscall.SIGPIPE || in.handOn(n) {
				continue
			}
			if first && signalName(n) != "" {
				in.awaitStart()
			}
			if r := in.receiver(n); first && r != nil && r != passed {
				passed = r
				go in.pass(r, n)
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

// expect says that passTo will be called once a command has started.
func (in *interrupts) expect() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.soon = make(chan struct{})
}

// awaitStart waits for the command that expect has announced, if there is one, at
// most for startWindow.
func (in *interrupts) awaitStart() {
	in.mu.Lock()
	soon := in.soon
	in.mu.Unlock()
	if soon == nil {
		return
	}
	timer := time.NewTimer(startWindow)
	defer timer.Stop()
	select {
	case <-soon:
	case <-in.done:
	case <-timer.C:
	}
}

// passTo has signals go to p until p has ended.
func (in *interrupts) passTo(p sandbox.Process) {
	r := &receiver{proc: p, ended: make(chan struct{})}
	in.mu.Lock()
	if in.soon != nil {
		close(in.soon)
		in.soon = nil
	}
	in.to = r
	in.mu.Unlock()
	go func() {
		_, _ = p.Wait() // its caller gets the result
		close(r.ended)
		in.mu.Lock()
		defer in.mu.Unlock()
		if in.to == r {
			in.to = nil
		}
	}()
}

// receiver returns the command that gets the signal before the context ends,
// or nil. SIGTERM is not passed on: the end of the context sends it, and to
// the whole tree.
func (in *interrupts) receiver(s syscall.Signal) *receiver {
	in.mu.Lock()
	defer in.mu.Unlock()
	if signalName(s) == "" {
		return nil
	}
	in.gave = in.gave || in.to != nil
	return in.to
}

// passedOn reports whether a command got a signal.
func (in *interrupts) passedOn() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.gave
}

// pass sends the signal to the command, and ends the context when the command
// cannot be reached or does not end in time.
func (in *interrupts) pass(r *receiver, s syscall.Signal) {
	ctx, done := context.WithTimeout(context.Background(), signalWithin)
	defer done()
	if err := r.proc.Signal(ctx, signalName(s)); err != nil {
		in.cancel(signalError{s})
		return
	}
	timer := time.NewTimer(interruptGrace)
	defer timer.Stop()
	select {
	case <-r.ended:
	case <-in.done:
	case <-timer.C:
		in.cancel(signalError{s})
	}
}

// signalName is the name of a signal that is passed on, and empty for others.
func signalName(s syscall.Signal) string {
	switch s {
	case syscall.SIGINT:
		return "INT"
	case syscall.SIGHUP:
		return "HUP"
	case syscall.SIGQUIT:
		return "QUIT"
	}
	return ""
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

// divert keeps a signal from ending anything: it arrives on the channel instead,
// and several at once arrive only once. back undoes that.
func (in *interrupts) divert(s syscall.Signal) (heard <-chan struct{}, back func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	ch := make(chan struct{}, 1)
	in.diverted = map[syscall.Signal]chan<- struct{}{s: ch}
	return ch, func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(in.diverted, s)
	}
}

// handOn passes a signal to the channel it is diverted to, and reports whether there is one.
func (in *interrupts) handOn(s syscall.Signal) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	ch := in.diverted[s]
	if ch == nil {
		return false
	}
	select {
	case ch <- struct{}{}:
	default: // an interrupt is pending already
	}
	return true
}
