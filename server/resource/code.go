// This file holds the resource of the code interpreter: kernels in a sandbox
// that keep their variables from run to run.

package resource

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// A codeSupervisor keeps kernels; *running.Supervisor is one.
type codeSupervisor interface {
	RunCode(ctx context.Context, req manager.Request, c running.Code, fn func(sandbox.CodeEvent) error) (manager.Outcome, error)
	CodeContexts(ctx context.Context, req manager.Request) ([]sandbox.CodeContext, error)
	CreateCodeContext(ctx context.Context, req manager.Request, language, dir string) (sandbox.CodeContext, error)
	RestartCodeContext(ctx context.Context, req manager.Request, id string) (sandbox.CodeContext, error)
	DeleteCodeContext(ctx context.Context, req manager.Request, id string) error
}

// toolCode is the tool of an agent that runs of code count as.
const toolCode = "run_code"

// codeMaxBody is the most of a request, in bytes: code of 1 MiB with escapes,
// and variables.
const codeMaxBody = 8 << 20

// A codeResource has the routes.
type codeResource struct {
	finder     Finder
	supervisor codeSupervisor
}

// NewCode returns the resource.
func NewCode(f Finder, h codeSupervisor) codeResource { return codeResource{f, h} }

// Routes implements [Resource].
func (x codeResource) Routes() []Route {
	const base = api.Prefix + "/sandboxes/{name}/code"
	return takingSettings([]Route{{
		ID: "runCode", Method: http.MethodPost, Path: base, Tag: "code", Role: token.Session,
		Summary: "Run code in a kernel",
		Doc: "The kernel keeps variables and functions from run to run. Runs in one context take turns. Code that fails is a result with an error. " +
			"With Accept: text/event-stream the answer is a stream of what the code comes to, and ends with the event done or error. " +
			"The code is interrupted when the caller goes. The image has to have a kernel host, as sandbox-code:bookworm-slim does; 501 without.",
		Request: api.RunCode{}, Response: api.CodeRun{}, Stream: true, Body: codeMaxBody, Timeout: Endless,
		Events: []Event{
			{Name: api.EventCode, Data: sandbox.CodeEvent{}, Doc: "What the code writes, displays and returns, and how it fails"},
			{Name: api.EventAgain, Data: struct{}{}, Doc: "The run begins anew, with a permission: what came before is void"},
			{Name: api.EventDone, Data: api.CodeDone{}, Doc: "The run has ended; the last event"},
			{Name: api.EventError, Data: api.Problem{}, Doc: "Why it is not known how the run ended; the last event"},
		},
		Errors: []int{404, 409, 501, 503, 504}, Do: x.run,
	}, {
		ID: "listCodeContexts", Method: http.MethodGet, Path: base + "/contexts", Tag: "code", Role: token.Session,
		Summary: "List the contexts of the session", Doc: "The kernel host is started if it does not run.",
		Response: api.CodeContextList{}, Errors: []int{404, 409, 501, 503, 504}, Timeout: opening, Do: x.list,
	}, {
		ID: "createCodeContext", Method: http.MethodPost, Path: base + "/contexts", Tag: "code", Role: token.Session,
		Summary: "Start a kernel with variables of its own", Request: api.CreateCodeContext{}, Response: sandbox.CodeContext{}, Status: http.StatusCreated,
		Errors: []int{404, 409, 501, 503, 504}, Timeout: opening, Do: x.create,
	}, {
		ID: "restartCodeContext", Method: http.MethodPost, Path: base + "/contexts/{id}/restart", Tag: "code", Role: token.Session,
		Summary: "Start the kernel of a context anew", Doc: "Its variables are lost, and code that it runs ends.",
		Response: sandbox.CodeContext{}, Errors: []int{404, 409, 501, 503, 504}, Timeout: opening, Do: x.restart,
	}, {
		ID: "deleteCodeContext", Method: http.MethodDelete, Path: base + "/contexts/{id}", Tag: "code", Role: token.Session,
		Summary: "End a context", Doc: "Code that it runs ends.", Errors: []int{404, 409, 501, 503, 504}, Timeout: opening, Do: x.delete,
	}})
}

// call returns the request to the manager for an existing sandbox.
func (x codeResource) call(c *Call) (manager.Request, lookupSandbox, func(), error) {
	at, err := Sandboxed(c, x.finder)
	if err != nil {
		return manager.Request{}, at, nil, err
	}
	release, err := c.Admitted(c.Context())
	return manager.Request{Who: at.Who, Flags: c.Settings, MustExist: true, Tool: c.Tool(toolCode)}, at, release, err
}

func (x codeResource) run(c *Call) (any, error) {
	in, err := Body[api.RunCode](c)
	if err != nil {
		return nil, err
	}
	req, at, release, err := x.call(c)
	if err != nil {
		return nil, err
	}
	defer release()
	req.Tool, req.Ask = cmp.Or(req.Tool, in.Tool), in.Ask
	limit := Timeout(in.TimeoutSeconds, at.Usable.Timeout, c.Admin())
	code := running.Code{
		Text: in.Code, Language: in.Language, Context: in.Context, Env: in.Env, Dir: in.Dir,
		Timeout: cmp.Or(limit, at.Usable.Timeout), Output: at.Usable.Output,
	}
	if c.Accepts(api.ContentEvents) {
		return x.stream(c, req, at.Name, code)
	}
	kept := &CodeKept{}
	req.Again = kept.Reset
	out, err := x.supervisor.RunCode(c.Context(), req, code, kept.Add)
	if err != nil {
		return nil, err
	}
	return kept.Run(out, at.Name), nil
}

// A CodeKept collects what code comes to. RunCode bounds it.
type CodeKept struct {
	stdout, stderr strings.Builder
	run            api.CodeRun
}

// Add takes one event. It returns no error.
func (k *CodeKept) Add(e sandbox.CodeEvent) error {
	switch e.Type {
	case sandbox.CodeEventStdout:
		k.stdout.WriteString(e.Text)
	case sandbox.CodeEventStderr:
		k.stderr.WriteString(e.Text)
	case sandbox.CodeEventResult:
		k.run.Results = append(k.run.Results, *e.Result)
	case sandbox.CodeEventError:
		if k.run.Error == nil || e.Error.Name == "KernelDied" {
			k.run.Error = e.Error
		}
	case sandbox.CodeEventCount:
		k.run.ExecutionCount = e.ExecutionCount
	case sandbox.CodeEventTruncated:
		k.run.Dropped = e.Dropped
	}
	return nil
}

// Reset forgets what was collected.
func (k *CodeKept) Reset() {
	k.stdout.Reset()
	k.stderr.Reset()
	k.run = api.CodeRun{}
}

// Run returns what was collected of a run that has ended.
func (k *CodeKept) Run(o manager.Outcome, name string) api.CodeRun {
	out := k.run
	out.Stdout, out.Stderr, out.TimedOut, out.Sandbox, out.DurationMillis = k.stdout.String(), k.stderr.String(), o.TimedOut, cmp.Or(o.Name, name), o.Duration.Milliseconds()
	if out.Results == nil {
		out.Results = []sandbox.CodeDisplay{}
	}
	return out
}

// stream answers with events while the code runs.
func (x codeResource) stream(c *Call, req manager.Request, name string, code running.Code) (any, error) {
	t := &commandsTeller{call: c}
	req.Again = func() { _ = t.begin().Send(api.EventAgain, struct{}{}) }
	began := time.Now()
	out, err := x.supervisor.RunCode(c.Context(), req, code, func(e sandbox.CodeEvent) error { return t.begin().Send(api.EventCode, e) })
	if err != nil && !t.begun() {
		return nil, err
	}
	e := t.begin()
	defer e.Close()
	if err != nil {
		_ = e.Send(api.EventError, c.Problem(c.Why(err))) // or the caller has gone
		return Sent{}, nil
	}
	_ = e.Send(api.EventDone, api.CodeDone{TimedOut: out.TimedOut, Sandbox: cmp.Or(out.Name, name), DurationMillis: time.Since(began).Milliseconds()})
	return Sent{}, nil
}

func (x codeResource) list(c *Call) (any, error) {
	req, _, release, err := x.call(c)
	if err != nil {
		return nil, err
	}
	defer release()
	items, err := x.supervisor.CodeContexts(c.Context(), req)
	if err != nil {
		return nil, err
	}
	return api.CodeContextList{Items: items}, nil
}

func (x codeResource) create(c *Call) (any, error) {
	in, err := Body[api.CreateCodeContext](c)
	if err != nil {
		return nil, err
	}
	req, _, release, err := x.call(c)
	if err != nil {
		return nil, err
	}
	defer release()
	return answerOr(x.supervisor.CreateCodeContext(c.Context(), req, in.Language, in.Dir))
}

func (x codeResource) restart(c *Call) (any, error) {
	req, _, release, err := x.call(c)
	if err != nil {
		return nil, err
	}
	defer release()
	return answerOr(x.supervisor.RestartCodeContext(c.Context(), req, c.Path("id")))
}

// answerOr is the answer of a route, nil where there is an error.
func answerOr[T any](answer T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return answer, nil
}

func (x codeResource) delete(c *Call) (any, error) {
	req, _, release, err := x.call(c)
	if err != nil {
		return nil, err
	}
	defer release()
	return nil, x.supervisor.DeleteCodeContext(c.Context(), req, c.Path("id"))
}
