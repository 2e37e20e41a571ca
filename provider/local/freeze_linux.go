package local

import (
	"context"
	"errors"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

var _ sandbox.Pauser = (*Provider)(nil)

// Pause implements [sandbox.Pauser]. It freezes the control group of each instance, of
// every program. Of an instance that has none it stops every process with SIGSTOP, which
// none can catch; those that handle it get SIGCONT when they go on. Programs inside see
// that time has passed. A paused sandbox is left alone.
//
// The end of the program that has an instance ends the instance, paused or not.
func (p *Provider) Pause(ctx context.Context, name string) error {
	release, err := p.turns.Enter(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	defs, err := p.defs()
	if err != nil {
		return err
	}
	_, instances, err := defs.Get(name)
	if err != nil {
		return err
	}
	known, err := defs.Stopped(name)
	if err != nil {
		return err
	}
	if stopped, err := frozen(instances); err != nil || !stopped {
		known = nil // of a time before
		if err != nil {
			return unfrozen("pause", name, err)
		}
	}
	up := false
	for _, w := range instances {
		if w.Process.PID == 0 {
			return &sandbox.Error{Code: sandbox.CodeBusy, Op: "pause", Resource: name, Message: "the sandbox is being put up", Retryable: true}
		}
		up = true
		if has, err := w.Freeze(ctx); has || err != nil {
			if err != nil {
				return unfrozen("pause", name, err)
			}
			continue
		}
		already, err := launch.Freeze(ctx, w.Process, known)
		known = already
		if noted := defs.NoteStopped(name, known); err == nil {
			err = noted
		}
		if err != nil {
			return unfrozen("pause", name, err)
		}
	}
	if !up {
		return &sandbox.Error{Code: sandbox.CodeBusy, Op: "pause", Resource: name, Message: "the sandbox is not running, so there is nothing to freeze", Hint: "its files stay as they are"}
	}
	return nil
}

// Unpause implements [sandbox.Pauser]. It leaves a running sandbox alone.
func (p *Provider) Unpause(ctx context.Context, name string) error {
	release, err := p.turns.Enter(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	return p.thaw(name)
}

// thaw has the sandbox go on. The caller has its turn.
func (p *Provider) thaw(name string) error {
	defs, err := p.defs()
	if err != nil {
		return err
	}
	_, instances, err := defs.Get(name)
	if err != nil {
		return err
	}
	stopped, err := frozen(instances)
	if err != nil {
		return unfrozen("resume", name, err)
	}
	if !stopped {
		return nil
	}
	except, err := defs.Stopped(name)
	if err != nil {
		return err
	}
	for _, w := range instances {
		has, err := w.Thaw()
		if !has && err == nil {
			err = launch.Thaw(w.Process, except)
		}
		if err != nil {
			return unfrozen("resume", name, err)
		}
	}
	return nil
}

// frozen reports whether one of the instances is.
func frozen(instances []launch.Record) (bool, error) {
	for _, w := range instances {
		if stopped, err := w.Paused(); stopped || err != nil {
			return stopped, err
		}
	}
	return false, nil
}

func unfrozen(op, name string, err error) error {
	e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Resource: name, Message: "the processes of the sandbox could not be stopped or continued", Err: err, Retryable: true}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		e.Code, e.Message = sandbox.CodeTimeout, "the processes of the sandbox did not stop in time"
	}
	return e
}
