package sdk

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Code is what [Sandbox.RunCode] runs.
type Code struct {
	Text     string
	Language string            // "python" without, "javascript" or "bash"
	Context  string            // the id of a context; the default one of the language without
	Env      map[string]string // for this run alone
	Dir      string            // where the kernel of a default context starts, if this is its first run
	Timeout  time.Duration     // after which the code is interrupted; 0 leaves it to the settings
	Ask      bool              // as in [Command]
	Tool     string            // as in [Command]
}

// A CodeEvent is one thing that code comes to; see [sandbox.CodeEvent].
type CodeEvent = sandbox.CodeEvent

// A CodeContext is a kernel with its variables.
type CodeContext = sandbox.CodeContext

// A CodeEnd says how a run of code ended. Whether the code has failed is in its
// events.
type CodeEnd = api.CodeDone

// RunCode runs code in a kernel of the sandbox, which keeps its variables from
// run to run, and calls fn with what the code comes to as it comes. An error of
// fn, and the end of ctx, interrupts the code. Code that fails is an event and no
// error. The image of the sandbox has to have a kernel host, as
// sandbox-code:bookworm-slim does; CodeUnsupported without.
func (s *Sandbox) RunCode(ctx context.Context, code Code, fn func(CodeEvent) error) (CodeEnd, error) {
	r := api.RunCode{
		Code: code.Text, Language: code.Language, Context: code.Context, Env: code.Env, Dir: code.Dir,
		TimeoutSeconds: code.Timeout.Seconds(), Ask: s.asks(code.Ask), Tool: code.Tool,
	}
	defer s.answering(ctx, r.Ask)()
	return s.api.RunCodeStream(ctx, s.name, r, fn, nil)
}

// CodeContexts lists the contexts of the sandbox.
func (s *Sandbox) CodeContexts(ctx context.Context) ([]CodeContext, error) {
	l, err := s.api.CodeContexts(ctx, s.name)
	return l.Items, err
}

// CreateCodeContext starts a kernel of a language, "python" without, in dir, or
// else in the workspace.
func (s *Sandbox) CreateCodeContext(ctx context.Context, language, dir string) (CodeContext, error) {
	return s.api.CreateCodeContext(ctx, s.name, api.CreateCodeContext{Language: language, Dir: dir})
}

// RestartCodeContext starts the kernel of a context anew. Its variables are lost.
func (s *Sandbox) RestartCodeContext(ctx context.Context, id string) (CodeContext, error) {
	return s.api.RestartCodeContext(ctx, s.name, id)
}

// DeleteCodeContext ends a context.
func (s *Sandbox) DeleteCodeContext(ctx context.Context, id string) error {
	return s.api.DeleteCodeContext(ctx, s.name, id)
}

// RunCode runs code to its end.
func (c *API) RunCode(ctx context.Context, name string, r api.RunCode) (api.CodeRun, error) {
	return post[api.CodeRun](ctx, c, "run code", one(name, "/code"), r)
}

// RunCodeStream runs code and passes on what it comes to; nil discards. again, if
// it is not nil, hears that the run begins anew with a permission: what came
// before is void.
func (c *API) RunCodeStream(ctx context.Context, name string, r api.RunCode, fn func(CodeEvent) error, again func()) (api.CodeDone, error) {
	var done api.CodeDone
	q := Request{Op: "run code", Method: http.MethodPost, Path: one(name, "/code"), JSON: r}
	err := c.follow(ctx, q, func(e event) (last bool, err error) {
		switch e.name {
		case api.EventCode:
			var is sandbox.CodeEvent
			if is, err = reported[sandbox.CodeEvent](q.Op, e); err == nil && fn != nil {
				err = fn(is)
			}
		case api.EventAgain:
			if again != nil {
				again()
			}
		case api.EventDone:
			done, err = reported[api.CodeDone](q.Op, e)
			return true, err
		}
		return false, err
	})
	return done, err
}

// CodeContexts lists the contexts of a session.
func (c *API) CodeContexts(ctx context.Context, name string) (api.CodeContextList, error) {
	return get[api.CodeContextList](ctx, c, "list code contexts", one(name, "/code/contexts"), nil)
}

// CreateCodeContext starts a kernel.
func (c *API) CreateCodeContext(ctx context.Context, name string, r api.CreateCodeContext) (CodeContext, error) {
	return post[CodeContext](ctx, c, "create code context", one(name, "/code/contexts"), r)
}

// RestartCodeContext starts the kernel of a context anew.
func (c *API) RestartCodeContext(ctx context.Context, name, id string) (CodeContext, error) {
	return post[CodeContext](ctx, c, "restart code context", one(name, "/code/contexts/"+url.PathEscape(id)+"/restart"), nil)
}

// DeleteCodeContext ends a context.
func (c *API) DeleteCodeContext(ctx context.Context, name, id string) error {
	return c.Call(ctx, Request{Op: "delete code context", Method: http.MethodDelete, Path: one(name, "/code/contexts/"+url.PathEscape(id))}, nil)
}
