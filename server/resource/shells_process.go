package resource

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// A launched command is a process that the manager runs. When it is run again,
// with a permission, the process is the last one.
type launched struct {
	up   chan struct{} // closed when it runs for the first time
	done chan struct{}
	once sync.Once

	stdout, stderr shellsCounter

	mu    sync.Mutex
	inner sandbox.Process

	out manager.Outcome // of done
	err error           // of done
}

// launch runs req and returns when it runs, or with the error that prevents it.
func launch(ctx context.Context, run func(context.Context, manager.Request) (manager.Outcome, error), req manager.Request) (sandbox.Process, error) {
	p := &launched{up: make(chan struct{}), done: make(chan struct{})}
	p.stdout.w, p.stderr.w = req.Command.Stdout, req.Command.Stderr
	req.Command.Stdout, req.Command.Stderr = &p.stdout, &p.stderr
	req.Started = p.started
	go func() {
		defer close(p.done)
		p.out, p.err = run(ctx, req)
		if exit, message, ok := manager.Unstarted(p.err); ok {
			p.out.Exit = exit
			_, p.err = io.WriteString(&p.stderr, message)
		}
	}()
	select {
	case <-p.up:
		return p, nil
	case <-p.done:
		if p.err != nil {
			return nil, p.err
		}
		return p, nil
	}
}

func (p *launched) started(inner sandbox.Process) {
	p.mu.Lock()
	p.inner = inner
	p.mu.Unlock()
	p.once.Do(func() { close(p.up) })
}

func (p *launched) now() (sandbox.Process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inner == nil {
		return nil, &sandbox.Error{Code: sandbox.CodeExecution, Op: "run", Message: "the command has ended"}
	}
	return p.inner, nil
}

// Wait implements sandbox.Process.
func (p *launched) Wait() (sandbox.Exit, error) {
	<-p.done
	return p.out.Exit, p.err
}

// Signal implements sandbox.Process.
func (p *launched) Signal(ctx context.Context, name string) error {
	inner, err := p.now()
	if err != nil {
		return err
	}
	return inner.Signal(ctx, name)
}

// Resize implements sandbox.Process.
func (p *launched) Resize(ctx context.Context, t sandbox.TTY) error {
	inner, err := p.now()
	if err != nil {
		return err
	}
	return inner.Resize(ctx, t)
}

// Kill implements sandbox.Process.
func (p *launched) Kill(ctx context.Context) error {
	inner, err := p.now()
	if err != nil {
		return nil // the command has ended
	}
	return inner.Kill(ctx)
}

// PID implements sandbox.Identified: that of the last process.
func (p *launched) PID() int { return pidNow(p.now()) }

// pidNow returns the number of a process inside of its sandbox, or 0.
func pidNow(p sandbox.Process, err error) int {
	if i, ok := p.(sandbox.Identified); ok && err == nil {
		return i.PID()
	}
	return 0
}

// Used implements sandbox.Metered.
func (p *launched) Used(ctx context.Context) (sandbox.Rusage, error) {
	inner, err := p.now()
	if err != nil {
		return sandbox.Rusage{}, err
	}
	if m, ok := inner.(sandbox.Metered); ok {
		return m.Used(ctx)
	}
	return sandbox.Rusage{}, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "measure", Message: "what it has used is not known"}
}

// Outcome implements stream.Outcomer.
func (p *launched) Outcome() any { return Exit(p.out, p.stdout.count(), p.stderr.count()) }

// A shellsCounter counts the bytes that it passes on.
type shellsCounter struct {
	w  io.Writer // nil discards
	mu sync.Mutex
	n  int64
}

// Write implements io.Writer.
func (c *shellsCounter) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.n += int64(len(p))
	c.mu.Unlock()
	if c.w == nil {
		return len(p), nil
	}
	return c.w.Write(p)
}

func (c *shellsCounter) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// discard drops all output.
type discard struct{}

// Write implements io.Writer.
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// errLeft says that the client has disconnected from a terminal whose end is
// still unknown.
var errLeft = errors.New("the client has left")

// A staying process is a kept terminal to which a client is connected. The end
// of the connection does not end the terminal.
type staying struct {
	supervisor shellsSupervisor
	who        config.Who
	id         string
	done       chan struct{}
	exit       sandbox.Exit
	err        error
	out        manager.Outcome
	bytes      int64
}

// stay connects the streams of cmd to the terminal until ctx ends.
func (x *shellsResource) stay(ctx context.Context, who config.Who, id string, cmd sandbox.Command) (sandbox.Process, error) {
	p := &staying{supervisor: x.supervisor, who: who, id: id, done: make(chan struct{})}
	if cmd.TTY != nil {
		// A terminal that has ended has no size, and its output can still be
		// read.
		_ = x.supervisor.Resize(ctx, who, id, *cmd.TTY)
	}
	w := cmd.Stdout
	if w == nil {
		w = discard{}
	}
	go p.input(ctx, cmd.Stdin)
	go func() {
		defer close(p.done)
		p.exit, p.err = p.wait(ctx, w)
	}()
	return p, nil
}

// input passes on what the client types until it disconnects. The end of the
// connection is not the end of the terminal's input: for that a person presses a
// key.
func (p *staying) input(ctx context.Context, from io.Reader) {
	if from == nil {
		return
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.supervisor.Write(ctx, p.who, p.id, buf[:n], false) != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

func (p *staying) wait(ctx context.Context, w io.Writer) (sandbox.Exit, error) {
	if err := p.supervisor.Attach(ctx, p.who, p.id, w); err != nil {
		if ctx.Err() != nil {
			err = errLeft
		}
		return sandbox.Exit{}, err
	}
	last, err := p.supervisor.Poll(ctx, p.who, p.id, running.PollOptions{Max: 1})
	s := last.Status
	switch {
	case err != nil:
		return sandbox.Exit{}, err
	case s.Err != nil:
		return sandbox.Exit{}, s.Err
	case s.Outcome == nil:
		return sandbox.Exit{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "run", Message: "it is not known how the terminal ended"}
	}
	p.out, p.bytes = *s.Outcome, s.Bytes
	return s.Outcome.Exit, nil
}

// Wait implements sandbox.Process.
func (p *staying) Wait() (sandbox.Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Signal implements sandbox.Process.
func (p *staying) Signal(ctx context.Context, name string) error {
	return p.supervisor.Signal(ctx, p.who, p.id, name)
}

// Resize implements sandbox.Process.
func (p *staying) Resize(ctx context.Context, t sandbox.TTY) error {
	return p.supervisor.Resize(ctx, p.who, p.id, t)
}

// Kill implements sandbox.Process.
func (p *staying) Kill(ctx context.Context) error {
	_, err := p.supervisor.Kill(ctx, p.who, p.id)
	return err
}

// Outcome implements stream.Outcomer.
func (p *staying) Outcome() any { return Exit(p.out, p.bytes, 0) }
