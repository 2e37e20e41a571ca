package resource

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tenant/token"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// shellsGrace is how long a command has to end by itself when its client has
// gone.
const shellsGrace = 2 * time.Second

// The size of a terminal when the client sends none.
const (
	usualRows = 24
	usualCols = 80
)

func (x *shellsResource) sockets() []Route {
	return []Route{{
		ID: "attach", Method: http.MethodGet, Path: shellsBase + "/attach", Tag: "commands", Role: token.Session,
		Summary: "Run a command over a WebSocket", Socket: true, Timeout: Endless,
		Doc: "With input, signals and, where it is asked for, a terminal. The first frame is the request, see package daemon/stream; " +
			`its extra is {"tool":…,"ask":…,"user":…}. The end of the socket ends the command, and an end without an exit frame is none of success.`,
		Errors: []int{404, 429}, Do: x.attach,
	}, {
		ID: "openTerminal", Method: http.MethodGet, Path: shellsBase + "/pty", Tag: "shells", Role: token.Session,
		Summary: "Use a terminal over a WebSocket", Socket: true, Timeout: Endless,
		Doc: "An interactive shell, or the command of the first frame. The end of the socket ends it unless keep was given; then it is found again by its id, " +
			"which the header " + api.HeaderTerminal + " of the answer and the list of terminals tell.",
		Query: []Param{
			{Name: "keep", Type: Boolean, Doc: "The terminal stays when the socket ends. The first frame then says no command"},
			{Name: "id", Length: 64, Doc: "Of a terminal that has stayed"},
			{Name: "rows", Type: Integer, Min: 1, Max: 1000, Doc: "With keep: its size at first"},
			{Name: "cols", Type: Integer, Min: 1, Max: 1000, Doc: "With keep: its size at first"},
		},
		Errors: []int{404, 429}, Do: x.terminal,
	}, {
		ID: "listTerminals", Method: http.MethodGet, Path: shellsBase + "/terminals", Tag: "shells", Role: token.Session,
		Summary: "List the terminals that stay", Response: api.TerminalList{}, Errors: []int{404}, Do: x.terminals,
	}, {
		ID: "endTerminal", Method: http.MethodDelete, Path: shellsBase + "/terminals/{id}", Tag: "shells", Role: token.Session,
		Summary: "End a terminal that stays", Errors: []int{404, 503, 504}, Do: x.end,
	}}
}

// extra holds the fields of the first frame beside the command.
type extra struct {
	Tool string `json:"tool,omitempty" maxlen:"64"`
	Ask  bool   `json:"ask,omitempty"`
	User string `json:"user,omitempty" maxlen:"64"`
}

// asked returns the request to the manager for the command of a first frame.
func asked(c *Call, at lookupSandbox, q stream.Request, cmd sandbox.Command) (manager.Request, error) {
	req := shellsRequest(c, at)
	var more extra
	switch {
	case q.Limits != nil:
		return req, Invalid("limits", "those of the settings hold here")
	case q.Detach:
		return req, Invalid("detach", "a command ends with its socket here")
	case q.Bare:
		return req, Invalid("bare", "the variables of the settings are always there")
	case len(q.Extra) > 0:
		if err := jsonschema.Decode(q.Extra, &more); err != nil {
			return req, err
		}
	}
	if err := sandbox.CheckEnv(cmd.Env); err != nil {
		return req, err
	}
	req.Tool, req.Ask, req.User, req.Command = cmp.Or(req.Tool, more.Tool), more.Ask, more.User, cmd
	req.Timeout = Timeout(q.TimeoutSeconds, at.Usable.Timeout, c.Admin())
	if cmd.Grace == 0 || cmd.Grace > 10*time.Second {
		req.Command.Grace = shellsGrace
	}
	return req, nil
}

func (x *shellsResource) attach(c *Call) (any, error) {
	return x.socket(c, func(ctx context.Context, at lookupSandbox, q stream.Request, cmd sandbox.Command) (sandbox.Process, error) {
		if (len(q.Args) == 0) == (q.Line == "") {
			return nil, Invalid("args", "exactly one of args and line is needed")
		}
		return x.launch(ctx, c, at, q, cmd)
	})
}

// launch starts the command of a first frame.
func (x *shellsResource) launch(ctx context.Context, c *Call, at lookupSandbox, q stream.Request, cmd sandbox.Command) (sandbox.Process, error) {
	req, err := asked(c, at, q, cmd)
	if err != nil {
		return nil, err
	}
	run := x.runner.Run
	switch {
	case q.Line != "":
		run, req.Command.Args = x.runner.Shell, []string{"-c", string(q.Line)}
	case len(q.Args) == 0:
		run = x.runner.Shell
	}
	return launch(ctx, run, req)
}

// socket takes over the connection and serves one command on it. An error before
// that is answered as a problem.
func (x *shellsResource) socket(c *Call, start func(context.Context, lookupSandbox, stream.Request, sandbox.Command) (sandbox.Process, error)) (any, error) {
	at, err := Sandboxed(c, x.runner)
	if err != nil {
		return nil, err
	}
	release, err := c.Admitted(c.Context())
	if err != nil {
		return nil, err
	}
	defer release()
	return x.serve(c, func(ctx context.Context, q stream.Request, cmd sandbox.Command) (sandbox.Process, error) {
		return start(ctx, at, q, cmd)
	})
}

// serve upgrades the connection. It sends errors as the caller may see them.
func (x *shellsResource) serve(c *Call, start stream.Start) (any, error) {
	conn, err := websocket.Accept(c.Writer, c.Request, nil)
	if err != nil {
		return Sent{}, nil // it has answered
	}
	// Serve sends the error to the client; there is no other receiver for it.
	_ = stream.Serve(c.Context(), conn, x.o, func(ctx context.Context, q stream.Request, cmd sandbox.Command) (sandbox.Process, error) {
		p, err := start(ctx, q, cmd)
		if err != nil {
			return nil, c.Problem(err).Err("run")
		}
		return problemProcess{p, c}, nil
	})
	return Sent{}, nil
}

// problemProcess is a process that returns errors as the caller may see them.
type problemProcess struct {
	sandbox.Process
	c *Call
}

// Wait implements sandbox.Process.
func (t problemProcess) Wait() (sandbox.Exit, error) {
	e, err := t.Process.Wait()
	if err != nil {
		return e, t.c.Problem(err).Err("run")
	}
	return e, nil
}

// PID implements sandbox.Identified.
func (t problemProcess) PID() int { return pidNow(t.Process, nil) }

// Used implements sandbox.Metered.
func (t problemProcess) Used(ctx context.Context) (sandbox.Rusage, error) {
	if m, ok := t.Process.(sandbox.Metered); ok {
		return m.Used(ctx)
	}
	return sandbox.Rusage{}, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "measure", Message: "what it has used is not known"}
}

// Outcome implements stream.Outcomer.
func (t problemProcess) Outcome() any {
	if o, ok := t.Process.(stream.Outcomer); ok {
		return o.Outcome()
	}
	return nil
}

func (x *shellsResource) terminal(c *Call) (any, error) {
	keep, id := c.True("keep"), c.Text("id")
	switch {
	case id != "" && keep:
		return nil, Invalid("id", "a terminal that has an id stays already")
	case id != "":
		return x.back(c, id)
	case keep:
		return x.keep(c)
	}
	return x.socket(c, func(ctx context.Context, at lookupSandbox, q stream.Request, cmd sandbox.Command) (sandbox.Process, error) {
		if cmd.TTY == nil {
			cmd.TTY = &sandbox.TTY{Rows: usualRows, Cols: usualCols}
		}
		return x.launch(ctx, c, at, q, cmd)
	})
}

// keep starts a kept terminal and connects to it.
func (x *shellsResource) keep(c *Call) (any, error) {
	at, err := Sandboxed(c, x.runner)
	if err != nil {
		return nil, err
	}
	release, err := c.Admitted(c.Context())
	if err != nil {
		return nil, err
	}
	req := shellsRequest(c, at)
	req.Command.TTY = &sandbox.TTY{Rows: uint16(c.Number("rows", usualRows)), Cols: uint16(c.Number("cols", usualCols))}
	s, err := x.supervisor.Start(c.Context(), req, running.StartOptions{Text: "terminal", Shell: true})
	if err != nil {
		release()
		return nil, err
	}
	go func() {
		defer release() // it takes the place of a command until it ends
		_ = x.supervisor.Attach(context.WithoutCancel(c.Context()), at.Who, s.ID, discard{})
	}()
	return x.connect(c, at.Who, s.ID)
}

// back connects to a kept terminal.
func (x *shellsResource) back(c *Call, id string) (any, error) {
	at, err := Sandboxed(c, x.runner)
	if err != nil {
		return nil, err
	}
	for _, s := range x.supervisor.List(at.Who) {
		if s.ID == id && s.TTY {
			return x.connect(c, at.Who, id)
		}
	}
	return nil, Hide("terminal", id)
}

func (x *shellsResource) connect(c *Call, who config.Who, id string) (any, error) {
	c.Writer.Header().Set(api.HeaderTerminal, id)
	return x.serve(c, func(ctx context.Context, q stream.Request, cmd sandbox.Command) (sandbox.Process, error) {
		if len(q.Args) > 0 || q.Line != "" || q.Limits != nil || q.Detach || q.Bare || len(q.Env) > 0 || q.Dir != "" || len(q.Extra) > 0 {
			return nil, Invalid("args", "a terminal that stays has its command already")
		}
		return x.stay(ctx, who, id, cmd)
	})
}

func (x *shellsResource) terminals(c *Call) (any, error) {
	at, err := Find(c, x.runner)
	if err != nil {
		return nil, err
	}
	out := api.TerminalList{Items: []api.Terminal{}}
	for _, s := range x.supervisor.List(at.Who) {
		if s.TTY {
			out.Items = append(out.Items, api.Terminal{ID: s.ID, State: string(s.State), StartedAt: s.Started.UTC(), EndedAt: s.Ended, Bytes: s.Bytes})
		}
	}
	return out, nil
}

func (x *shellsResource) end(c *Call) (any, error) {
	at, err := Find(c, x.runner)
	if err != nil {
		return nil, err
	}
	id := c.Path("id")
	for _, s := range x.supervisor.List(at.Who) {
		if s.ID == id && s.TTY {
			_, err := x.supervisor.Kill(c.Context(), at.Who, id)
			return nil, err
		}
	}
	return nil, Hide("terminal", id)
}
