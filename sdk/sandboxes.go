package sdk

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// ask makes a request with a JSON answer.
func ask[T any](ctx context.Context, c *API, q Request) (T, error) {
	var out T
	err := c.Call(ctx, q, &out)
	return out, err
}

// get reads a resource; it may be asked for again.
func get[T any](ctx context.Context, c *API, op, path string, query url.Values) (T, error) {
	return ask[T](ctx, c, Request{Op: op, Method: http.MethodGet, Path: path, Query: query, Again: true})
}

// post changes something; it is not asked for again.
func post[T any](ctx context.Context, c *API, op, path string, body any) (T, error) {
	return ask[T](ctx, c, Request{Op: op, Method: http.MethodPost, Path: path, JSON: body})
}

// one is the path of the sandbox name and what is below it.
func one(name, below string) string { return api.Prefix + "/sandboxes/" + url.PathEscape(name) + below }

// CreateSandbox brings the sandbox of a session up. With an IdempotencyKey it
// may be called again until it has an answer, and is then by itself.
func (c *API) CreateSandbox(ctx context.Context, r api.CreateSandbox) (api.Sandbox, error) {
	return ask[api.Sandbox](ctx, c, Request{
		Op: "create sandbox", Method: http.MethodPost, Path: api.Prefix + "/sandboxes", JSON: r, Again: r.IdempotencyKey != "",
	})
}

// ListOptions select sandboxes; empty fields select everything.
type ListOptions struct {
	Agent, Session string
	Status         sandbox.Status
	Kind           sandbox.Kind
	Labels         map[string]string // that they were created with; all of them
	All            bool              // every tenant's; for admins
	Own            bool              // only that of the client's own session
	Limit          int               // of one page; 0 leaves it to the daemon
	Cursor         string            // api.SandboxPage.Next of the page before
}

// ListSandboxes returns one page.
func (c *API) ListSandboxes(ctx context.Context, o ListOptions) (api.SandboxPage, error) {
	q := values("agent", o.Agent, "session", o.Session, "status", string(o.Status), "kind", string(o.Kind), "cursor", o.Cursor)
	for name, value := range o.Labels {
		q.Add("label", name+"="+value)
	}
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.All {
		q.Set("all", "true")
	}
	if o.Own {
		q.Set("own", "true")
	}
	return get[api.SandboxPage](ctx, c, "list sandboxes", api.Prefix+"/sandboxes", q)
}

// Sandboxes returns all that o selects, page by page. An error is the last.
func (c *API) Sandboxes(ctx context.Context, o ListOptions) iter.Seq2[api.Sandbox, error] {
	return func(yield func(api.Sandbox, error) bool) {
		for {
			page, err := c.ListSandboxes(ctx, o)
			if err != nil {
				yield(api.Sandbox{}, err)
				return
			}
			for _, s := range page.Items {
				if !yield(s, nil) {
					return
				}
			}
			if page.Next != "" && (page.Next == o.Cursor || len(page.Items) == 0) {
				yield(api.Sandbox{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "list sandboxes", Message: "the daemon answers with pages without end"})
				return
			}
			if o.Cursor = page.Next; o.Cursor == "" {
				return
			}
		}
	}
}

// values are those of names and values by turns that are not empty.
func values(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

// Sandbox tells of one.
func (c *API) Sandbox(ctx context.Context, name string) (api.Sandbox, error) {
	return get[api.Sandbox](ctx, c, "get sandbox", one(name, ""), nil)
}

// DeleteSandbox removes a sandbox, with workspace also its files; with force it
// ends what runs in it.
func (c *API) DeleteSandbox(ctx context.Context, name string, workspace, force bool) error {
	q := url.Values{"workspace": {strconv.FormatBool(workspace)}, "force": {strconv.FormatBool(force)}}
	return c.Call(ctx, Request{Op: "delete sandbox", Method: http.MethodDelete, Path: one(name, ""), Query: q}, nil)
}

// RecreateSandbox removes a sandbox and makes it anew; its workspace stays.
func (c *API) RecreateSandbox(ctx context.Context, name string, r api.Recreate) (api.Sandbox, error) {
	return post[api.Sandbox](ctx, c, "recreate sandbox", one(name, "/recreate"), r)
}

// PauseSandbox freezes a sandbox until its next use.
func (c *API) PauseSandbox(ctx context.Context, name string) (api.Sandbox, error) {
	return post[api.Sandbox](ctx, c, "pause sandbox", one(name, "/pause"), nil)
}

// ResumeSandbox thaws a sandbox.
func (c *API) ResumeSandbox(ctx context.Context, name string) (api.Sandbox, error) {
	return post[api.Sandbox](ctx, c, "resume sandbox", one(name, "/resume"), nil)
}

// ExtendSandbox says how long a sandbox is kept from now on.
func (c *API) ExtendSandbox(ctx context.Context, name string, seconds int64) (api.Sandbox, error) {
	return post[api.Sandbox](ctx, c, "extend sandbox", one(name, "/extend"), api.Extend{TTLSeconds: seconds})
}

// HoldSandbox freezes a sandbox with what runs in it.
func (c *API) HoldSandbox(ctx context.Context, name string) (api.Sandbox, error) {
	return ask[api.Sandbox](ctx, c, Request{Op: "pause sandbox", Method: http.MethodPost, Path: one(name, "/pause"), Query: url.Values{"force": {"true"}}})
}

// SetSandboxTimeout lets a sandbox end so many seconds from now, whatever runs in it.
func (c *API) SetSandboxTimeout(ctx context.Context, name string, seconds int64) (api.Sandbox, error) {
	return post[api.Sandbox](ctx, c, "set timeout", one(name, "/timeout"), api.SetTimeout{Timeout: seconds})
}

// SetSandboxNetwork replaces the network rules that a sandbox was created with.
func (c *API) SetSandboxNetwork(ctx context.Context, name string, rules config.NetworkRules) (api.Sandbox, error) {
	return ask[api.Sandbox](ctx, c, Request{Op: "set network", Method: http.MethodPut, Path: one(name, "/network"), JSON: rules})
}

// Usage tells what a sandbox costs.
func (c *API) Usage(ctx context.Context, name string) (api.Usage, error) {
	return get[api.Usage](ctx, c, "usage", one(name, "/usage"), nil)
}

// Usages tells what all sandboxes of the caller cost.
func (c *API) Usages(ctx context.Context) (api.UsageList, error) {
	return get[api.UsageList](ctx, c, "usage", api.Prefix+"/usage", nil)
}

// Exec runs a command to its end and returns its output, as much as the
// settings keep. The Timeout of the client's options bounds it too: use Attach
// for commands that last.
func (c *API) Exec(ctx context.Context, name string, r api.Exec) (api.ExecResult, error) {
	return post[api.ExecResult](ctx, c, "exec", one(name, "/exec"), r)
}

// Attach starts a command with its streams, which may be signalled, resized and
// waited for. The end of ctx ends it. Its time limit and what it may use is for
// the settings.
func (c *API) Attach(ctx context.Context, name string, cmd sandbox.Command) (*stream.Process, error) {
	return c.AttachWith(ctx, name, cmd, AttachOptions{})
}

// Tools lists the tools of a session.
func (c *API) Tools(ctx context.Context, name string) (api.ToolList, error) {
	return get[api.ToolList](ctx, c, "list tools", one(name, "/tools"), nil)
}

// CallTool calls a tool; input is what its inputSchema says. The Timeout of the
// client's options bounds it: use UseTool for calls that last.
func (c *API) CallTool(ctx context.Context, name, tool string, input any) (api.ToolAnswer, error) {
	return post[api.ToolAnswer](ctx, c, "call tool", one(name, "/tools/"+url.PathEscape(tool)), input)
}

// Shells lists the shells of a session.
func (c *API) Shells(ctx context.Context, name string) (api.ShellList, error) {
	return get[api.ShellList](ctx, c, "list shells", one(name, "/shells"), nil)
}

// OpenShell opens a shell that stays.
func (c *API) OpenShell(ctx context.Context, name string, r api.OpenShell) (api.Shell, error) {
	return post[api.Shell](ctx, c, "open shell", one(name, "/shells"), r)
}

// RunLine runs a line in a shell to its end.
func (c *API) RunLine(ctx context.Context, name, shell string, r api.RunLine) (api.ExecResult, error) {
	return post[api.ExecResult](ctx, c, "run line", one(name, "/shells/"+url.PathEscape(shell)+"/run"), r)
}

// CloseShell closes a shell and ends what it has left running.
func (c *API) CloseShell(ctx context.Context, name, shell string) error {
	return c.Call(ctx, Request{Op: "close shell", Method: http.MethodDelete, Path: one(name, "/shells/"+url.PathEscape(shell))}, nil)
}
