package container

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// announce writes the process id of the shell as the first line of the standard
// output and then becomes the program, which keeps that id. The runtime makes
// each exec the leader of a session, so the id is that of a process group, too.
const announce = `echo "$$"; exec "$@"`

// stop sends the signal $1 to the process group $2, or to its leader alone where
// the runtime has made no group.
const stop = `kill -s "$1" -- "-$2" 2>/dev/null || kill -s "$1" "$2"`

const (
	// announceWithin bounds how long a program that has to be ended may take to
	// say which process it is.
	announceWithin = 10 * time.Second
	// endWithin bounds how long the engine may take to notice the end of a
	// program that was killed.
	endWithin = 10 * time.Second
	// maxRefusal bounds what is kept of the reason why no program was started.
	maxRefusal = 4 << 10
)

// Run starts c with an exec of its own, as docker exec does: with the user, the
// environment of the image and the limits of the container. It needs sh and kill
// in the container. The engine has no call that kills an exec, so the end of the
// process's context does it with a second exec, for the process group of c. Bare,
// TTY, Detach and Limits of c are [sandbox.CodeUnsupported].
func (e *Engine) Run(ctx context.Context, name string, c sandbox.Command) (sandbox.Process, error) {
	if c.Bare || c.TTY != nil || c.Detach || c.Limits != (sandbox.Limits{}) {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "exec", Resource: name, Message: "an exec has no environment, terminal, life or limits of its own"}
	}
	if len(c.Args) == 0 {
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "exec", Field: "args", Resource: name, Message: "there is no program to run"}
	}
	begin, done := context.WithTimeout(ctx, e.limit.Start)
	defer done()
	r, err := e.api.ContainerExecCreate(begin, name, execOptions(c))
	if err != nil {
		return nil, e.fail(begin, "exec", name, err)
	}
	h, err := e.api.ContainerExecAttach(begin, r.ID, container.ExecAttachOptions{})
	if err != nil {
		return nil, e.fail(begin, "attach to exec", name, err)
	}
	p := &execution{engine: e, name: name, id: r.ID, started: make(chan struct{}), ended: make(chan struct{}), cut: h.Close}
	go p.feed(h, c.Stdin)
	go p.collect(ctx, h, c)
	go p.guard(ctx, c.Grace)
	return p, nil
}

func execOptions(c sandbox.Command) container.ExecOptions {
	o := container.ExecOptions{
		Cmd:         append([]string{"sh", "-c", announce, "sandbox-exec"}, c.Args...),
		AttachStdin: true, AttachStdout: true, AttachStderr: true, WorkingDir: c.Dir,
	}
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		o.Env = append(o.Env, k+"="+c.Env[k])
	}
	return o
}

// An execution is a running exec.
type execution struct {
	engine *Engine
	name   string // the container
	id     string // the exec
	cut    func() // ends the connection

	fed     atomic.Bool   // all of the input was sent
	started chan struct{} // closed once pid is known, or no program was started
	pid     int           // inside; 0 where no program was started

	stopping sync.Once
	ended    chan struct{} // closed once exit and err are known
	exit     sandbox.Exit
	err      error
}

// feed sends the input. What stops it is the end of the connection, or that of r.
func (p *execution) feed(h types.HijackedResponse, r io.Reader) {
	if r != nil {
		_, err := io.Copy(h.Conn, r) // a program need not read all
		p.fed.Store(err == nil)
	}
	_ = h.CloseWrite()
}

// collect hands the output on until the program has ended, and then asks the
// engine how. A writer that fails ends the program.
func (p *execution) collect(ctx context.Context, h types.HijackedResponse, c sandbox.Command) {
	defer close(p.ended)
	defer h.Close()
	stdout := &announced{p: p, output: output{w: c.Stdout}}
	stderr := &output{w: c.Stderr}
	failed := func() { go p.end() }
	stdout.failed, stderr.failed = failed, failed
	_, copyErr := stdcopy.StdCopy(stdout, stderr, h.Reader)
	if !p.fed.Load() && errors.Is(copyErr, syscall.ECONNRESET) {
		// The program has ended and left input unread: Podman closes the
		// connection then, after the output.
		copyErr = nil
	}
	stdout.settle()
	p.exit, p.err = p.outcome(ctx)
	switch {
	case p.err != nil:
	case p.pid == 0:
		p.err = p.refused(stdout.line.String())
	case copyErr != nil && !stdout.broken() && !stderr.broken():
		p.err = p.engine.fail(ctx, "read the output of exec", p.name, copyErr)
	}
}

// outcome asks how the program has ended. The engine may say for a moment that
// it runs, although its output is over.
func (p *execution) outcome(ctx context.Context) (sandbox.Exit, error) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), p.engine.limit.Query)
	defer done()
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		i, err := p.engine.api.ContainerExecInspect(ctx, p.id)
		if err != nil {
			return sandbox.Exit{}, p.engine.fail(ctx, "see how exec ended", p.name, err)
		}
		if !i.Running {
			return sandbox.Exit{Code: i.ExitCode}, nil
		}
		select {
		case <-ctx.Done():
			return sandbox.Exit{}, p.engine.fail(ctx, "see how exec ended", p.name, ctx.Err())
		case <-time.After(wait):
		}
	}
}

// refused is the error for a program that was not started: the engine then says
// why in the place of its output.
func (p *execution) refused(text string) error {
	err := &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "exec", Resource: p.name, Message: "the engine could not start the program",
		Hint: "see whether the sandbox runs, its image has sh, and its limit of processes is not reached",
	}
	if text != "" {
		err.Err = errors.New(termsafe.Line(text))
	}
	return err
}

// guard ends the program when ctx ends: with grace it is asked to first.
func (p *execution) guard(ctx context.Context, grace time.Duration) {
	select {
	case <-p.ended:
		return
	case <-ctx.Done():
	}
	if grace > 0 {
		_ = p.send(context.WithoutCancel(ctx), "TERM")
		select {
		case <-p.ended:
			return
		case <-time.After(grace):
		}
	}
	p.end()
}

// end kills the program, and cuts the connection where that does not end it. The
// engine may be unable to start the kill for a moment: the container may have as
// many processes as it is allowed.
func (p *execution) end() {
	p.stopping.Do(func() {
		ctx, done := context.WithTimeout(context.Background(), endWithin)
		defer done()
		for {
			_ = p.send(ctx, "KILL")
			select {
			case <-p.ended:
				return
			case <-ctx.Done():
				p.cut()
				return
			case <-time.After(endWithin / 10):
			}
		}
	})
}

// send sends a signal, as far as the program has a process to send it to.
func (p *execution) send(ctx context.Context, signal string) error {
	select {
	case <-p.started:
	case <-p.ended:
	case <-time.After(announceWithin):
	}
	select {
	case <-p.ended:
		return nil
	case <-p.started:
	default:
		return p.refused("")
	}
	if p.pid == 0 {
		return nil
	}
	return p.engine.complete(ctx, p.name, []string{"sh", "-c", stop, "sandbox-exec", signal, strconv.Itoa(p.pid)})
}

// complete runs argv to its end and drops what it says.
func (e *Engine) complete(ctx context.Context, name string, argv []string) error {
	s, err := e.Exec(ctx, name, argv)
	if err != nil {
		return err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { s.Close() })()
	defer time.AfterFunc(e.limit.Query, func() { s.Close() }).Stop()
	_, err = io.Copy(io.Discard, s)
	return err
}

// Wait implements [sandbox.Process].
func (p *execution) Wait() (sandbox.Exit, error) {
	<-p.ended
	return p.exit, p.err
}

// Signal implements [sandbox.Process].
func (p *execution) Signal(ctx context.Context, name string) error { return p.send(ctx, name) }

// Kill implements [sandbox.Process].
func (p *execution) Kill(ctx context.Context) error { return p.send(ctx, "KILL") }

// Resize implements [sandbox.Process].
func (p *execution) Resize(context.Context, sandbox.TTY) error {
	return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "resize", Resource: p.name, Message: "an exec has no terminal"}
}

// output hands bytes on until the writer fails, and drops the rest, so that the
// engine is not kept from saying that the program has ended.
type output struct {
	w      io.Writer // nil drops everything
	failed func()

	mu   sync.Mutex
	over bool
}

func (o *output) Write(b []byte) (int, error) {
	if o.w == nil || len(b) == 0 || o.broken() {
		return len(b), nil
	}
	if _, err := o.w.Write(b); err != nil {
		o.mu.Lock()
		o.over = true
		o.mu.Unlock()
		o.failed()
	}
	return len(b), nil
}

func (o *output) broken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.over
}

// announced is the standard output, which begins with a process id.
type announced struct {
	output
	p    *execution
	line bytes.Buffer // until the id is known
	know bool
}

func (a *announced) Write(b []byte) (int, error) {
	if a.know {
		return a.output.Write(b)
	}
	end := bytes.IndexByte(b, '\n')
	if end < 0 || a.line.Len() > maxRefusal {
		a.line.Write(b[:min(len(b), max(0, maxRefusal-a.line.Len()))])
		return len(b), nil
	}
	// 1 is the guest, and -1 would be every process.
	pid, err := strconv.ParseUint(a.line.String()+string(b[:end]), 10, 31)
	if err != nil || pid < 2 {
		a.line.Write(b[:min(len(b), max(0, maxRefusal-a.line.Len()))])
		return len(b), nil // words of the engine
	}
	a.know, a.p.pid = true, int(pid)
	close(a.p.started)
	_, err = a.output.Write(b[end+1:])
	return len(b), err
}

// settle says that no process id will come any more.
func (a *announced) settle() {
	if !a.know {
		close(a.p.started)
	}
}
