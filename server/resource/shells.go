// This file holds the resource for what stays connected to a sandbox: shells
// that keep their state from line to line, commands that are carried over a
// WebSocket, and terminals, which can outlive their client.
//
// Every object is found by the sandbox, whose session it belongs to, and by a
// random id; an object of another caller looks as if it did not exist.

package resource

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tenant/token"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// A shellsRunner runs commands; *manager.Manager is one.
type shellsRunner interface {
	Finder
	Run(ctx context.Context, req manager.Request) (manager.Outcome, error)
	Shell(ctx context.Context, req manager.Request) (manager.Outcome, error)
}

// A shellsSupervisor keeps shells and terminals; *running.Supervisor is one.
type shellsSupervisor interface {
	Shells(who config.Who) []running.ShellInfo
	OpenShell(ctx context.Context, req manager.Request, o sandbox.ShellOptions) (running.ShellInfo, error)
	CloseShell(who config.Who, id string) error
	Line(ctx context.Context, req manager.Request, id string, l manager.Line) (manager.Outcome, error)

	Start(ctx context.Context, req manager.Request, o running.StartOptions) (running.Status, error)
	List(who config.Who) []running.Status
	Poll(ctx context.Context, who config.Who, id string, o running.PollOptions) (running.Poll, error)
	Write(ctx context.Context, who config.Who, id string, data []byte, eof bool) error
	Signal(ctx context.Context, who config.Who, id, name string) error
	Resize(ctx context.Context, who config.Who, id string, t sandbox.TTY) error
	Kill(ctx context.Context, who config.Who, id string) (running.Status, error)
	Attach(ctx context.Context, who config.Who, id string, w io.Writer) error
	Find(who config.Who, ref string) (running.Status, error)
	Follow(ctx context.Context, who config.Who, ref string, from int64, fn func(running.Piece) error) (running.Status, error)
}

// A shellsResource has the routes.
type shellsResource struct {
	runner     shellsRunner
	supervisor shellsSupervisor
	o          stream.Options
}

// NewShells returns the resource. o bounds its WebSockets.
func NewShells(r shellsRunner, h shellsSupervisor, o stream.Options) *shellsResource {
	return &shellsResource{r, h, o}
}

const (
	shellsBase = api.Prefix + "/sandboxes/{name}"
	// opening is how long opening a shell may take: its sandbox may have to
	// start.
	opening = 3 * time.Minute
	// shellsMaxBody is the most of a line with its input, in bytes.
	shellsMaxBody = 8 << 20
)

// Routes implements [Resource].
func (x *shellsResource) Routes() []Route {
	return takingSettings(append([]Route{{
		ID: "listShells", Method: http.MethodGet, Path: shellsBase + "/shells", Tag: "shells", Role: token.Session,
		Summary: "List the shells of the session", Response: api.ShellList{}, Errors: []int{404}, Do: x.list,
	}, {
		ID: "openShell", Method: http.MethodPost, Path: shellsBase + "/shells", Tag: "shells", Role: token.Session,
		Summary: "Open a shell that stays", Doc: "It keeps working folder, variables and functions from line to line, and is closed when it is not used for a while.",
		Request: api.OpenShell{}, Response: api.Shell{}, Status: http.StatusCreated, Errors: []int{404, 409, 503, 504}, Timeout: opening, Do: x.open,
	}, {
		ID: "closeShell", Method: http.MethodDelete, Path: shellsBase + "/shells/{id}", Tag: "shells", Role: token.Session,
		Summary: "Close a shell", Doc: "What it has left running ends.", Errors: []int{404, 503}, Do: x.close,
	}, {
		ID: "runLine", Method: http.MethodPost, Path: shellsBase + "/shells/{id}/run", Tag: "shells", Role: token.Session,
		Summary: "Run a line in a shell",
		Doc: "Lines of one shell take turns. The shell main need not be opened. With Accept: text/event-stream the answer is a stream, as that of exec. " +
			"The line ends when the caller goes, and the next one finds the shell as it was before it.",
		Request: api.RunLine{}, Response: api.ExecResult{}, Stream: true, Events: eventsCommands(), Body: shellsMaxBody, Timeout: Endless,
		Errors: []int{404, 409, 501, 504}, Do: x.run,
	}}, append(x.sockets(), x.processRoutes()...)...))
}

// shellsRequest returns the request to the manager for an existing sandbox.
func shellsRequest(c *Call, at lookupSandbox) manager.Request {
	return manager.Request{Who: at.Who, Flags: c.Settings, MustExist: true, Tool: c.Tool("exec")}
}

func (x *shellsResource) list(c *Call) (any, error) {
	at, err := Find(c, x.runner)
	if err != nil {
		return nil, err
	}
	out := api.ShellList{Items: []api.Shell{}}
	for _, s := range x.supervisor.Shells(at.Who) {
		out.Items = append(out.Items, shellOf(s))
	}
	return out, nil
}

func shellOf(s running.ShellInfo) api.Shell {
	return api.Shell{ID: s.ID, Sandbox: s.Sandbox, Program: s.Program, OpenedAt: s.Opened.UTC(), LastUsedAt: s.Used.UTC()}
}

func (x *shellsResource) open(c *Call) (any, error) {
	in, err := Body[api.OpenShell](c)
	if err != nil {
		return nil, err
	}
	at, err := Sandboxed(c, x.runner)
	if err != nil {
		return nil, err
	}
	if err := sandbox.CheckEnv(in.Env); err != nil {
		return nil, err
	}
	release, err := c.Admitted(c.Context())
	if err != nil {
		return nil, err
	}
	defer release()
	s, err := x.supervisor.OpenShell(c.Context(), shellsRequest(c, at), sandbox.ShellOptions{Env: in.Env, Dir: in.Dir})
	var e *sandbox.Error
	if _, _, ok := manager.Unstarted(err); ok && errors.As(err, &e) && e.Field == "dir" {
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: e.Op, Field: e.Field, Resource: termsafe.Line(in.Dir), Message: "cannot enter the working directory " + strconv.Quote(in.Dir), Hint: "name a folder that is there", Err: e.Err}
	}
	if err != nil {
		return nil, err
	}
	return shellOf(s), nil
}

func (x *shellsResource) close(c *Call) (any, error) {
	at, err := Find(c, x.runner)
	if err != nil {
		return nil, err
	}
	return nil, x.supervisor.CloseShell(at.Who, c.Path("id"))
}

func (x *shellsResource) run(c *Call) (any, error) {
	in, err := Body[api.RunLine](c)
	if err != nil {
		return nil, err
	}
	at, err := Sandboxed(c, x.runner)
	if err != nil {
		return nil, err
	}
	if in.Stdin != "" && in.StdinBase64 != nil {
		return nil, Invalid("stdin", "only one of stdin and stdinBase64 is taken")
	}
	release, err := c.Admitted(c.Context())
	if err != nil {
		return nil, err
	}
	defer release()
	req := shellsRequest(c, at)
	req.Tool = cmp.Or(req.Tool, in.Tool)
	line := manager.Line{
		Text: in.Line, Stdin: inputCommands(in.Stdin, in.StdinBase64), Ask: in.Ask,
		Timeout: Timeout(in.TimeoutSeconds, at.Usable.Timeout, c.Admin()),
	}
	id := c.Path("id")
	if c.Accepts(api.ContentEvents) {
		return streamCommands(c, at.Name, func(ctx context.Context, t *commandsTeller) (manager.Outcome, error) {
			line.Stdout, line.Stderr, line.Again, line.Started = t.Stdout, t.Stderr, t.Again, t.Started
			return x.supervisor.Line(ctx, req, id, line)
		})
	}
	stdout, stderr := NewKept(at.Usable.Output), NewKept(at.Usable.Output)
	line.Stdout, line.Stderr = stdout, stderr
	line.Again = func() {
		stdout.Reset()
		stderr.Reset()
	}
	out, err := x.supervisor.Line(c.Context(), req, id, line)
	if exit, message, ok := manager.Unstarted(err); ok {
		out.Exit = exit
		_, err = io.WriteString(stderr, message)
	}
	if err != nil {
		return nil, err
	}
	return Captured(out, at.Name, stdout, stderr), nil
}
