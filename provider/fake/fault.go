package fake

import (
	"context"
	"errors"
	"slices"

	"github.com/bulkhead-dev/sandbox"
)

// A Step is a point at which a provider call can be made to fail. Most calls
// have one; the longer ones have several, so that they can end half-way.
type Step string

// The steps. Create passes StepCreate, StepStart and StepReady; Open passes
// StepOpen and, as needed, StepStart, StepUnpause and StepOnStart.
const (
	StepProbe   Step = "probe"
	StepInspect Step = "inspect"
	StepList    Step = "list"
	StepCreate  Step = "create" // nothing exists yet
	StepStart   Step = "start"  // it exists and is stopped
	StepReady   Step = "ready"  // it runs and the caller does not know yet
	StepOpen    Step = "open"
	StepOnStart Step = "onstart"
	StepPause   Step = "pause"
	StepUnpause Step = "unpause"
	StepRemove  Step = "remove" // nothing is removed yet
	StepExec    Step = "exec"
	StepUsage   Step = "usage"

	StepOpenShell Step = "open shell"
	StepLine      Step = "line"  // before the line waits for its turn
	StepFile      Step = "file"  // before each operation of Files
	StepFileData  Step = "data"  // before each piece of content that Files read or write
	StepFileDone  Step = "place" // a write has all its content, and the old file is still there
)

// A Fault is asked before each step and fails it by returning an error. It
// may wait to make the step slow; it must then honour ctx, which has a
// deadline. name is the sandbox concerned, empty for lists. Faults run
// without any lock held and may call the engine.
type Fault func(ctx context.Context, s Step, name string) error

// ErrCrash makes the call stop dead when a fault returns it, as if the
// calling process had been killed: nothing that was made is cleaned up.
var ErrCrash = errors.New("the calling process was killed")

// An injection is one fault in force; its address is its identity.
type injection struct{ fault Fault }

// Inject puts f in force until heal is called. With several faults in force
// the first error wins.
func (e *Engine) Inject(f Fault) (heal func()) {
	in := &injection{f}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = append(slices.Clip(e.faults), in)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.faults = slices.DeleteFunc(slices.Clone(e.faults), func(x *injection) bool { return x == in })
	}
}

// step applies the faults in force and turns their errors into *sandbox.Error.
func (e *Engine) step(ctx context.Context, s Step, name string) error {
	e.mu.Lock()
	faults := e.faults
	e.mu.Unlock()
	for _, in := range faults {
		if err := in.fault(ctx, s, name); err != nil {
			return stepError(err, s, name)
		}
	}
	if err := ctx.Err(); err != nil {
		return stepError(err, s, name)
	}
	return nil
}

func stepError(err error, s Step, name string) error {
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		return e
	}
	e := failure(sandbox.CodeUnavailable, string(s), name, "the engine failed")
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		e.Code, e.Message = sandbox.CodeTimeout, "the engine did not answer in time"
	}
	e.Retryable, e.Err = true, err
	return e
}

// FailAt fails one step with err. An err that is no *sandbox.Error becomes
// one with CodeUnavailable.
func FailAt(at Step, err error) Fault {
	return func(_ context.Context, s Step, _ string) error {
		if s == at {
			return err
		}
		return nil
	}
}

// HangAt lets one step wait until its context ends, as an engine does that
// accepts a request and never answers.
func HangAt(at Step) Fault {
	return func(ctx context.Context, s Step, _ string) error {
		if s != at {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

// Hang lets every step wait until its context ends.
func Hang() Fault {
	return func(ctx context.Context, _ Step, _ string) error {
		<-ctx.Done()
		return ctx.Err()
	}
}

// Down fails every step, as an engine does that is not there.
func Down() Fault {
	return func(_ context.Context, s Step, name string) error {
		e := failure(sandbox.CodeUnavailable, string(s), name, "the engine does not answer")
		e.Hint, e.Retryable = "start the engine", true
		return e
	}
}

func failure(code sandbox.Code, op, name, message string) *sandbox.Error {
	return &sandbox.Error{Code: code, Op: op, Resource: name, Message: message}
}
