package remote

import (
	"context"
	"net/http"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

func openShell(o *handle, r *http.Request) (any, error) {
	var n stream.NewShell
	if err := body(r, &n); err != nil {
		return nil, err
	}
	options := sandbox.ShellOptions{ID: n.ID, Dir: string(n.Dir)}
	if n.Env != nil {
		options.Env = make(map[string]string, len(n.Env))
	}
	for name, value := range n.Env {
		options.Env[name] = string(value)
	}
	if err := o.oneMoreShell(); err != nil {
		return nil, err
	}
	ticket := random()
	var kept sandbox.Shell
	defer func() { o.openedShell(ticket, kept) }()
	sh, err := o.sb.OpenShell(r.Context(), options)
	if err != nil {
		return nil, err
	}
	if r.Context().Err() != nil { // no client is left to close it
		return nil, sh.Close()
	}
	kept = sh
	return stream.Shell{Ticket: ticket, ID: sh.ID(), Program: sh.Program()}, nil
}

// oneMoreShell reserves a place for a shell, until openedShell is called with
// the result.
func (o *handle) oneMoreShell() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.shells)+o.opening >= maxShells {
		return &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "open shell", Message: "too many shells are open", Hint: "close some"}
	}
	o.opening++
	return nil
}

// openedShell stores a shell; nil means that the open failed.
func (o *handle) openedShell(ticket string, sh sandbox.Shell) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.opening--
	if sh != nil {
		o.shells[ticket] = sh
	}
}

func (o *handle) shell(r *http.Request) (sandbox.Shell, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if sh := o.shells[r.PathValue("ticket")]; sh != nil {
		return sh, nil
	}
	return nil, &sandbox.Error{Code: sandbox.CodeNotFound, Op: "run line", Message: "the shell is closed"}
}

func closeShell(o *handle, r *http.Request) (any, error) {
	sh, err := o.shell(r)
	if err != nil {
		return nil, nil // closed is closed
	}
	o.mu.Lock()
	delete(o.shells, r.PathValue("ticket"))
	o.mu.Unlock()
	return nil, sh.Close()
}

func runLine(o *handle, w http.ResponseWriter, r *http.Request) {
	sh, err := o.shell(r)
	if err != nil {
		api.Write(w, err)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it has answered
	}
	ctx, done := o.bound(r)
	defer done()
	// Serve sends the error to the client; there is no other receiver for it.
	_ = stream.Serve(ctx, conn, o.h.o.Stream, func(ctx context.Context, q stream.Request, c sandbox.Command) (sandbox.Process, error) {
		return sh.Run(ctx, string(q.Line), c)
	})
}
