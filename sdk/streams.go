package sdk

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Sinks are where the output of a command goes as it comes. Writers that are
// nil want nothing; while one blocks the command waits. They are not called
// side by side.
type Sinks struct {
	Stdout, Stderr io.Writer

	// Again, if it is not nil, hears that the command begins anew with a
	// permission: what came before is void.
	Again func()
}

// ExecStream runs a command and passes on what it writes as it comes. The end
// of ctx ends the command, and so does a writer that fails, which is
// CodeExecution. A stream that is cut off is CodeUnavailable: it is not known then
// how the command ended.
func (c *API) ExecStream(ctx context.Context, name string, r api.Exec, to Sinks) (api.Exit, error) {
	return c.watched(ctx, Request{Op: "exec", Method: http.MethodPost, Path: one(name, "/exec"), JSON: r}, to)
}

// RunLineStream runs a line in a shell as ExecStream runs a command.
func (c *API) RunLineStream(ctx context.Context, name, shell string, r api.RunLine, to Sinks) (api.Exit, error) {
	return c.watched(ctx, Request{Op: "run line", Method: http.MethodPost, Path: one(name, "/shells/"+url.PathEscape(shell)+"/run"), JSON: r}, to)
}

// watched makes a request that runs something.
func (c *API) watched(ctx context.Context, q Request, to Sinks) (api.Exit, error) {
	var exit api.Exit
	err := c.follow(ctx, q, func(e event) (last bool, err error) {
		switch e.name {
		case api.EventStdout:
			err = pass(q.Op, e, to.Stdout)
		case api.EventStderr:
			err = pass(q.Op, e, to.Stderr)
		case api.EventAgain:
			if to.Again != nil {
				to.Again()
			}
		case api.EventExit:
			exit, err = reported[api.Exit](q.Op, e)
			return true, err
		}
		return false, err
	})
	return exit, err
}

// pass passes on a piece of output.
func pass(op string, e event, to io.Writer) error {
	o, err := reported[api.Output](op, e)
	if err != nil || to == nil {
		return err
	}
	b := o.Base64
	if b == nil {
		b = []byte(o.Text)
	}
	if _, err := to.Write(b); err != nil {
		return &sandbox.Error{Code: sandbox.CodeExecution, Op: op, Message: "what the command writes cannot be passed on", Err: err}
	}
	return nil
}

// A ToolCall is one call of a tool.
type ToolCall struct {
	Tool     string
	Input    any  // what the inputSchema of the tool says; nil is an empty object
	Ask      bool // ask an approver where a permission would open what a rule stops, see Approvals
	Subagent bool // a sub-agent calls, for which there is a stricter list

	// Progress, if it is not nil, hears how far the tool is.
	Progress func(api.ToolProgress)
}

// UseTool calls a tool. The end of ctx ends the call; it has no other bound.
func (c *API) UseTool(ctx context.Context, name string, t ToolCall) (api.ToolAnswer, error) {
	q := Request{Op: "call tool", Method: http.MethodPost, Path: one(name, "/tools/"+url.PathEscape(t.Tool)), Query: url.Values{}, JSON: t.Input}
	if t.Input == nil {
		q.JSON = struct{}{}
	}
	for name, is := range map[string]bool{"ask": t.Ask, "subagent": t.Subagent} {
		if is {
			q.Query.Set(name, strconv.FormatBool(is))
		}
	}
	var answer api.ToolAnswer
	err := c.follow(ctx, q, func(e event) (last bool, err error) {
		switch e.name {
		case api.EventProgress:
			var p api.ToolProgress
			if p, err = reported[api.ToolProgress](q.Op, e); err == nil && t.Progress != nil {
				t.Progress(p)
			}
		case api.EventAnswer:
			answer, err = reported[api.ToolAnswer](q.Op, e)
			return true, err
		}
		return false, err
	})
	return answer, err
}
