package running

import (
	"context"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// killing is how long a command has to end when its processes were ended;
// afterwards it is given up.
const killing = 10 * time.Second

// Write gives a command something to read, as a whole, and with eof says that
// this was all. It waits until ctx ends while the command reads too little.
func (h *Supervisor) Write(ctx context.Context, who config.Who, id string, data []byte, eof bool) error {
	c, err := h.find("write", who, id)
	if err != nil {
		return err
	}
	return c.in.write(ctx, data, eof)
}

// Signal sends a signal, named as in signal(7) without SIG, to the program.
func (h *Supervisor) Signal(ctx context.Context, who config.Who, id, name string) error {
	p, err := h.process("signal", who, id)
	if err != nil {
		return err
	}
	return p.Signal(ctx, name)
}

// Resize changes the size of a command's terminal.
func (h *Supervisor) Resize(ctx context.Context, who config.Who, id string, t sandbox.TTY) error {
	p, err := h.process("resize", who, id)
	if err != nil {
		return err
	}
	return p.Resize(ctx, t)
}

// process returns that of a command which runs.
func (h *Supervisor) process(op string, who config.Who, id string) (sandbox.Process, error) {
	c, err := h.find(op, who, id)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case c.over():
		return nil, ended(op)
	case c.process == nil:
		return nil, &sandbox.Error{Code: sandbox.CodeBusy, Op: op, Resource: id, Retryable: true, Message: "the command does not run yet"}
	}
	return c.process, nil
}

// Kill ends a command with all that it has started, and waits for that until
// ctx ends. A command that has ended already is no error.
func (h *Supervisor) Kill(ctx context.Context, who config.Who, id string) (Status, error) {
	c, err := h.find("kill", who, id)
	if err != nil {
		return Status{}, err
	}
	h.mu.Lock()
	p, over := c.process, c.over()
	if !over {
		c.killed = true
	}
	h.mu.Unlock()
	if over {
		return c.now(), nil
	}
	// By its processes, so that we hear how it ended; else by giving it up,
	// which ends them as well.
	if p == nil || p.Kill(ctx) != nil {
		c.cancel(errKilled)
	}
	late := time.NewTimer(killing)
	defer late.Stop()
	select {
	case <-c.done:
		return c.now(), nil
	case <-late.C:
		c.cancel(errKilled)
	case <-ctx.Done():
		c.cancel(errKilled)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		return c.now(), &sandbox.Error{Code: sandbox.CodeTimeout, Op: "kill", Resource: id, Retryable: true, Message: "the command has not ended yet", Err: context.Cause(ctx)}
	}
	return c.now(), nil
}
