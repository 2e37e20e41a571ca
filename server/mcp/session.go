package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tools"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// instructions describe the server as a whole to a client.
const instructions = "The tools work inside a sandbox of this session: commands, files and the browser see nothing of the machine outside of it, " +
	"and reach hosts only as far as rules let them. The workspace is /workspace; the shell of exec stays from call to call. " +
	"A result with isError says by a code what went wrong, and what can be done."

// A session is a session of the protocol.
type session struct {
	*Server
	bound  Binding
	kit    *tools.Kit
	server *mcp.Server
	calls  chan struct{} // holds a token for each call that runs

	open   context.Context // until the session ends
	end    func()
	life   context.Context // of its running calls: ends with the session, or when the caller loses its rights
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	listed []string // tools that were announced to the client
}

// session makes a session; id makes its id over HTTP, or is nil.
func (s *Server) session(b Binding, id func() string) (*session, error) {
	kit, err := s.o.Tools.For(context.Background(), b.Session)
	if err != nil {
		return nil, err
	}
	x := &session{Server: s, bound: b, kit: kit, calls: make(chan struct{}, s.o.Calls)}
	open, end := context.WithCancelCause(context.Background())
	x.open = open
	x.end = func() {
		end(errEnded)
		s.o.Asker.leave(x)
	}
	x.life, x.cancel = context.WithCancelCause(open)
	x.server = mcp.NewServer(&mcp.Implementation{Name: "sandbox", Title: "Sandbox", Version: s.o.Version}, &mcp.ServerOptions{
		Instructions: instructions, Logger: s.quiet(), SupportedProtocolVersions: versions(), GetSessionID: id,
		Capabilities: &mcp.ServerCapabilities{
			Tools:     &mcp.ToolCapabilities{ListChanged: true},
			Resources: &mcp.ResourceCapabilities{},
		},
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
			c.CacheScope = "private" // the tools depend on the session
		},
		InitializedHandler: func(_ context.Context, r *mcp.InitializedRequest) { s.o.Asker.join(x, r.Session) },
	})
	x.server.AddReceivingMiddleware(x.between)
	x.server.AddResourceTemplate(x.template(), x.readResource)
	x.sync()
	go x.attend()
	return x, nil
}

// between wraps the SDK's handling of a method.
func (x *session) between(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (res mcp.Result, err error) {
		// Requests run in goroutines of the SDK, which do not recover from
		// panics.
		defer func() {
			if v := recover(); v != nil {
				x.o.Log.WithField("method", method).WithField("stack", string(debug.Stack())).Errorf("a request has panicked: %v", v)
				res, err = nil, x.protocolError(errPanicked)
			}
		}()
		switch method {
		case "tools/list":
			x.sync()
		case "resources/list":
			return x.listResources(ctx)
		case "tools/call":
			// The error for a tool that exists, but that this session may not
			// use, says why.
			if call, ok := r.(*mcp.CallToolRequest); ok && x.known(call.Params.Name) {
				return x.call(ctx, call)
			}
		}
		return next(ctx, method, r)
	}
}

// known reports whether a tool of that name exists for any session.
func (x *session) known(name string) bool {
	_, ok := schema.Find(name)
	return ok || slices.ContainsFunc(managing(), func(t schema.Tool) bool { return t.Name == name })
}

// usable returns the tools that the session may use now.
func (x *session) usable() []schema.Tool {
	return append(x.kit.Tools(), x.manages()...)
}

// sync registers the tools that exist now with the SDK, which notifies the
// client of changes.
func (x *session) sync() {
	x.mu.Lock()
	defer x.mu.Unlock()
	var names []string
	for _, t := range x.usable() {
		names = append(names, t.Name)
		if !slices.Contains(x.listed, t.Name) {
			x.server.AddTool(described(t), x.call)
		}
	}
	if gone := slices.DeleteFunc(slices.Clone(x.listed), func(n string) bool { return slices.Contains(names, n) }); len(gone) > 0 {
		x.server.RemoveTools(gone...)
	}
	x.listed = names
}

// The SDK sends nothing when it closes. So the session of a caller that has lost
// its rights ends when its running calls have ended, at the latest after
// endsWithin; answering is the time for the rest of their answers.
const (
	endsWithin = time.Minute
	answering  = time.Second
)

// attend watches the session until it ends: it checks at intervals whether the
// tools have changed, and all the time whether its caller still has its rights.
// If not, it ends the running calls at once, and when they are answered, the
// session.
func (x *session) attend() {
	watched, stop := x.bound.watch(x.life)
	defer stop()
	ticks := time.NewTicker(x.o.Refresh)
	defer ticks.Stop()
	for {
		select {
		case <-watched.Done():
			x.cancel(context.Cause(watched)) // a context that has ended before keeps its own cause
			x.awaitCalls()
			select {
			case <-x.open.Done():
			case <-time.After(answering):
			}
			x.end()
			return
		case <-ticks.C:
			x.sync()
		}
	}
}

// awaitCalls waits until no call runs, for at most endsWithin, or until the
// session has ended. From then on no call is admitted.
func (x *session) awaitCalls() {
	late := time.After(endsWithin)
	for range cap(x.calls) {
		select {
		case x.calls <- struct{}{}:
		case <-x.open.Done():
			return
		case <-late:
			return
		}
	}
}

// described returns a tool in the form of the protocol. Besides its own result,
// a tool may answer with an error.
func described(t schema.Tool) *mcp.Tool {
	return &mcp.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description,
		InputSchema: json.RawMessage(t.Schema()), OutputSchema: answers(t),
		Annotations: &mcp.ToolAnnotations{
			Title: t.Title, ReadOnlyHint: t.ReadOnly, DestructiveHint: &t.Destructive, IdempotentHint: t.Idempotent, OpenWorldHint: &t.OpenWorld,
		},
	}
}

// admit admits one request that works in the sandbox, of those that may run at a
// time, as long as the caller keeps its rights. The caller of admit has to call
// done.
func (x *session) admit(ctx context.Context) (_ context.Context, done func(), err error) {
	if x.life.Err() != nil {
		return nil, nil, context.Cause(x.life)
	}
	select {
	case x.calls <- struct{}{}:
	default:
		return nil, nil, &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "call", Retryable: true, Message: "too many calls of this session run at one time", Hint: "wait for some of them"}
	}
	ctx, stop := context.WithCancelCause(ctx)
	undo := context.AfterFunc(x.life, func() { stop(context.Cause(x.life)) })
	return ctx, func() {
		undo()
		stop(nil)
		<-x.calls
	}, nil
}

// call carries a call of a tool out.
func (x *session) call(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	ctx, span := x.causedBy(ctx, r)
	defer span.End()
	ctx, leave, err := x.admit(ctx)
	if err != nil {
		span.Fail(err)
		return x.failed(err), nil
	}
	defer leave()
	tell, done := x.progress(ctx, r)
	defer done()
	a, err := x.carryOut(asking(ctx, x, r.Session), r.Params.Name, r.Params.Arguments, tell)
	if err != nil {
		err = ended(ctx, err)
		span.Fail(err)
		return x.failed(err), nil
	}
	return answered(a), nil
}

// ended returns err, or in its place why the call was ended.
func ended(ctx context.Context, err error) error {
	var e *sandbox.Error
	if ctx.Err() != nil && errors.As(context.Cause(ctx), &e) {
		return e
	}
	return err
}

var errPanicked = errors.New("a request has panicked")

func (x *session) carryOut(ctx context.Context, name string, input json.RawMessage, tell func(tools.Progress)) (tools.Answer, error) {
	if _, ours := schema.Find(name); ours {
		return x.kit.Call(ctx, name, input, tell)
	}
	return x.manage(ctx, name, input)
}
