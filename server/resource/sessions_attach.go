package resource

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// attach serves a command in the sandbox of the session. It takes over the
// connection: from then on it reports errors over the socket.
func (s *Sessions) attach(c *Call) (any, error) {
	conn, err := websocket.Accept(c.Writer, c.Request, nil)
	if err != nil {
		return Sent{}, nil // it has answered
	}
	// Serve sends the error to the client; the manager has recorded what was
	// run.
	_ = stream.Serve(c.Context(), conn, s.o, func(ctx context.Context, r stream.Request, cmd sandbox.Command) (sandbox.Process, error) {
		req, run, err := s.request(c, c.Who, r, cmd)
		if err != nil {
			return nil, reportedTo(c, err)
		}
		p, err := begin(ctx, c, req, run)
		if err != nil {
			return nil, reportedTo(c, err)
		}
		return p, nil
	})
	return Sent{}, nil
}

// longestGrace is how long a command may go on after it was ended, such as by
// the end of its caller's token.
const longestGrace = 10 * time.Second

// A runner is the method of a manager that runs a request.
type runner func(context.Context, manager.Request) (manager.Outcome, error)

// request returns the request to the manager.
func (s *Sessions) request(c *Call, who config.Who, r stream.Request, cmd sandbox.Command) (manager.Request, runner, error) {
	var u api.Use
	req := manager.Request{Who: who, Command: cmd}
	if len(r.Extra) > 0 {
		d := json.NewDecoder(bytes.NewReader(r.Extra))
		d.DisallowUnknownFields()
		if err := d.Decode(&u); err != nil {
			return req, nil, Invalid("extra", "is not how a sandbox is used")
		}
	}
	var err error
	if req.Flags, err = Layer(c, u.Flags); err != nil {
		return req, nil, err
	}
	inside, err := s.inside(who, req.Flags)
	if err != nil {
		return req, nil, err
	}
	run := s.m.Run
	if req.From, err = fromCheckpoint(c, s.m, who.Tenant, u.From); err != nil {
		return req, nil, err
	}
	switch {
	case u.Remove && !Allowed(c, who.Tenant, who.Agent, who.Session, inside.Scope):
		return req, nil, &sandbox.Error{
			Code: sandbox.CodePermissionDeny, Op: "serve", Field: "remove", Message: "others share this sandbox", Hint: "this needs a token for all who share it",
		}
	case r.Detach:
		return req, nil, Invalid("detach", "commands over this route end with their socket")
	case r.Line != "" && len(r.Args) > 0:
		return req, nil, Invalid("line", "exactly one of args and line is needed")
	case r.Line != "":
		req.Command.Args, run = []string{"-c", string(r.Line)}, s.m.Shell
	case u.Shell:
		run = s.m.Shell
	}
	req.MustExist, req.Remove, req.Subagent, req.Ask, req.Tool, req.User = u.MustExist, u.Remove, u.Subagent, u.Ask, cmp.Or(c.Tool("exec"), u.Tool), u.User
	if !c.Admin() {
		req.Command.Grace = min(req.Command.Grace, longestGrace)
	}
	req.Timeout = Timeout(r.TimeoutSeconds, inside.Timeout, c.Admin())
	return req, run, nil
}

// inside returns an error for sessions without a sandbox.
func (s *Sessions) inside(who config.Who, flags *config.SandboxSettings) (manager.Usable, error) {
	u, err := s.m.Usable(who, flags)
	if err == nil && u.Place != manager.Sandboxed {
		err = &sandbox.Error{
			Code: sandbox.CodeCapabilityBlocked, Op: "serve", Message: "this session has no sandbox: " + u.Reason,
			Hint: "nothing runs outside of sandboxes over HTTP",
		}
	}
	return u, err
}

// begin starts a request and returns as soon as its command runs, or cannot.
func begin(ctx context.Context, c *Call, req manager.Request, run runner) (sandbox.Process, error) {
	release, err := c.Admitted(ctx)
	if err != nil {
		return nil, err
	}
	p := &process{admin: c.Admin(), started: make(chan struct{}), ended: make(chan struct{})}
	req.Started = p.start
	go func() {
		defer close(p.ended)
		defer release()
		p.out, p.err = run(ctx, req)
		p.err = reportedTo(c, p.err)
	}()
	select {
	case <-p.started:
	case <-p.ended:
		if p.err != nil {
			return nil, p.err
		}
	}
	return p, nil
}

// A process is a running request.
type process struct {
	admin   bool
	started chan struct{} // closed when the command runs
	ended   chan struct{} // closed when the request has ended
	out     manager.Outcome
	err     error

	mu   sync.Mutex
	proc sandbox.Process // the command that runs now; nil when it never ran
}

// start stores the running command; it is called again for a command that is run
// again.
func (p *process) start(proc sandbox.Process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc == nil {
		close(p.started)
	}
	p.proc = proc
}

func (p *process) now() sandbox.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proc
}

// Wait implements sandbox.Process.
func (p *process) Wait() (sandbox.Exit, error) {
	<-p.ended
	return p.out.Exit, p.err
}

// PID implements sandbox.Identified.
func (p *process) PID() int { return pidNow(p.now(), nil) }

// Outcome implements stream.Outcomer.
func (p *process) Outcome() any { return api.OutcomeOf(p.out, p.admin) }

// Signal implements sandbox.Process.
func (p *process) Signal(ctx context.Context, name string) error {
	if proc := p.now(); proc != nil {
		return proc.Signal(ctx, name)
	}
	return nil
}

// Resize implements sandbox.Process.
func (p *process) Resize(ctx context.Context, t sandbox.TTY) error {
	if proc := p.now(); proc != nil {
		return proc.Resize(ctx, t)
	}
	return nil
}

// Kill implements sandbox.Process.
func (p *process) Kill(ctx context.Context) error {
	if proc := p.now(); proc != nil {
		return proc.Kill(ctx)
	}
	return nil
}
