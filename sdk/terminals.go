package sdk

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// AttachOptions are what there is to say of a command beside itself.
type AttachOptions struct {
	User    string        // the account inside that it runs as, see [Command]
	Tool    string        // the tool of an agent that this is, which then has to be allowed
	Ask     bool          // ask an approver where a permission would open what a rule stops, see Approvals
	Timeout time.Duration // how long it may run; 0 leaves it to the settings, which are the most there is
}

// AttachWith is Attach with options.
func (c *API) AttachWith(ctx context.Context, name string, cmd sandbox.Command, o AttachOptions) (*stream.Process, error) {
	p, _, err := c.connect(ctx, "attach", one(name, "/attach"), nil, cmd, o)
	return p, err
}

// connect runs a command over the WebSocket at path.
func (c *API) connect(ctx context.Context, op, path string, query url.Values, cmd sandbox.Command, o AttachOptions) (*stream.Process, http.Header, error) {
	return c.connectLine(ctx, op, path, query, cmd, "", o)
}

// connectLine is connect for a line of the shell, where it is not empty, in
// place of the arguments of cmd.
func (c *API) connectLine(ctx context.Context, op, path string, query url.Values, cmd sandbox.Command, line string, o AttachOptions) (*stream.Process, http.Header, error) {
	r, err := stream.RequestOf(cmd)
	if err != nil {
		return nil, nil, err
	}
	r.Line = stream.Text(line)
	r.TimeoutSeconds = max(o.Timeout, 0).Seconds()
	if o.Tool != "" || o.Ask || o.User != "" {
		r.Extra, err = json.Marshal(struct {
			Tool string `json:"tool,omitempty"`
			Ask  bool   `json:"ask,omitempty"`
			User string `json:"user,omitempty"`
		}{o.Tool, o.Ask, o.User})
		if err != nil {
			return nil, nil, sandbox.Errorf(sandbox.CodeInternal, op, "the request cannot be written: %w", err)
		}
	}
	conn, a, err := c.Socket(ctx, op, path, query)
	if err != nil {
		return nil, nil, err
	}
	p, err := stream.Open(ctx, conn, c.o.Stream, r, cmd)
	return p, a.Header, err
}

// OpenTerminal runs a command on a terminal, an interactive shell when cmd has
// no arguments. Its size is cmd.TTY, 24 by 80 without. The end of the connection
// or of ctx ends it.
func (c *API) OpenTerminal(ctx context.Context, name string, cmd sandbox.Command) (*stream.Process, error) {
	if cmd.TTY == nil {
		cmd.TTY = &sandbox.TTY{Rows: 24, Cols: 80}
	}
	p, _, err := c.connect(ctx, "open terminal", one(name, "/pty"), nil, cmd, AttachOptions{})
	return p, err
}

// KeepTerminal starts an interactive shell on a terminal that stays when the
// connection ends, and connects the streams and the size of cmd to it, of which
// nothing else is used. With the id that it returns [API.JoinTerminal] finds
// it again. It has no end of its own but the shell's; see [API.EndTerminal].
func (c *API) KeepTerminal(ctx context.Context, name string, cmd sandbox.Command) (p *stream.Process, id string, err error) {
	q := url.Values{"keep": {"true"}}
	if cmd.TTY != nil {
		q.Set("rows", strconv.Itoa(int(cmd.TTY.Rows)))
		q.Set("cols", strconv.Itoa(int(cmd.TTY.Cols)))
	}
	p, h, err := c.connect(ctx, "keep terminal", one(name, "/pty"), q, streamsOf(cmd), AttachOptions{})
	if err != nil {
		return nil, "", err
	}
	return p, h.Get(api.HeaderTerminal), nil
}

// JoinTerminal connects the streams and the size of cmd to a terminal that has
// stayed. Its last output comes first.
func (c *API) JoinTerminal(ctx context.Context, name, id string, cmd sandbox.Command) (*stream.Process, error) {
	p, _, err := c.connect(ctx, "join terminal", one(name, "/pty"), url.Values{"id": {id}}, streamsOf(cmd), AttachOptions{})
	return p, err
}

// streamsOf is of cmd what is not settled when its terminal is there.
func streamsOf(cmd sandbox.Command) sandbox.Command {
	return sandbox.Command{Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr, TTY: cmd.TTY, Grace: cmd.Grace}
}

// Terminals lists the terminals that stay.
func (c *API) Terminals(ctx context.Context, name string) (api.TerminalList, error) {
	return get[api.TerminalList](ctx, c, "list terminals", one(name, "/terminals"), nil)
}

// EndTerminal ends a terminal that stays.
func (c *API) EndTerminal(ctx context.Context, name, id string) error {
	return c.Call(ctx, Request{Op: "end terminal", Method: http.MethodDelete, Path: one(name, "/terminals/"+url.PathEscape(id))}, nil)
}
