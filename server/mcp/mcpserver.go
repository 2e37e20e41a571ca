// Package mcp serves sandboxes to agents over the Model Context Protocol: the
// tools of a session, tools that make and remove sandboxes, and the files of the
// workspace as resources.
//
// A session of the protocol is bound to one sandbox session when it is opened,
// and cannot leave it. Over HTTP it belongs to the caller that opened it: for
// every other caller its id does not exist.
//
// A failed tool call is a result of the tool, with a stable code, so that the
// agent reads it; only an unknown tool is an error of the protocol. This package
// decides on no permission: tools and manager do.
package mcp

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/tools"
)

// A Manager has the methods of a [manager.Manager] that the server uses.
type Manager interface {
	Usable(who config.Who, flags *config.SandboxSettings) (manager.Usable, error)
	Files(ctx context.Context, req manager.Request, fn func(manager.Share) error) error
	Ready(ctx context.Context, req manager.Request) (manager.Prepared, error)
	Name(who config.Who, flags *config.SandboxSettings) (string, error)
	List(ctx context.Context, o manager.ListOptions) (manager.Listing, error)
	Find(ctx context.Context, tenant, name, provider string) (manager.Row, error)
	Recreate(ctx context.Context, rows []manager.Row) manager.Recreated
}

var _ Manager = (*manager.Manager)(nil)

// Options are the parts and bounds of a [Server]. A zero bound is the default.
type Options struct {
	Manager Manager      // needed
	Tools   *tools.Tools // needed
	Asker   *Asker       // is given the clients that can be asked about permissions; or nil
	Version string       // of the program
	Log     logrus.FieldLogger

	// Trace begins the span of a call that no HTTP request carries, see
	// server.Tracer.Root; nil records none.
	Trace func(name, traceparent, tracestate string) (*sandbox.Span, string)

	// Private are texts, such as paths of the state folder, that no error
	// contains; where there are any, errors contain no causes either. Leave it
	// empty for clients that run as the same user as the server.
	Private []string

	Calls      int           // of one session, at a time; usually 32
	Sessions   int           // over HTTP, of all callers; usually 4096
	PerTenant  int           // over HTTP, of one tenant, which may make further tokens; usually a quarter of Sessions
	PerSession int           // over HTTP, for one session of a tenant, whose agent may make further tokens; usually a quarter of PerTenant
	PerCaller  int           // over HTTP, of one caller; usually 64
	Idle       time.Duration // a session over HTTP without requests ends; usually 30 minutes
	Heartbeat  time.Duration // between two progress notes while the call makes no progress; usually 5 s
	Refresh    time.Duration // between two looks at whether a session's tools are others now; usually 30 s
}

// A Binding says which caller and session a session of the protocol belongs to.
type Binding struct {
	tools.Session

	// Caller identifies the sender, such as the id of a token. Every request of
	// a session has to come from the caller that opened it.
	Caller string
	// Tenant lets sandbox_create, _list, _recreate and _remove reach every
	// sandbox of the tenant; otherwise they reach the session's own.
	Tenant bool
	// Owns reports whether the client may remove or recreate a sandbox that it
	// can reach, instead of only using it with others. With a nil Owns it may:
	// with Tenant all of them, otherwise those that no other session shares.
	Owns func(manager.Row) bool
	// Answers is what the person behind this client may allow.
	Answers Answers
	// Watch returns a context that ends soon after the caller loses its rights,
	// with the reason as its cause; stop has to be called. The session and its
	// calls end with that context. A nil Watch is for a caller that never loses
	// its rights.
	Watch func(context.Context) (watched context.Context, stop func())
}

// watch calls Watch, or returns ctx where that is nil.
func (b Binding) watch(ctx context.Context) (watched context.Context, stop func()) {
	if b.Watch == nil {
		return ctx, func() {}
	}
	return b.Watch(ctx)
}

// A Server serves any number of clients. It is safe for concurrent use.
type Server struct {
	o        Options
	requests sync.Map // contexts of HTTP requests that are being served, by requestHeader
}

// New returns a server.
func New(o Options) *Server {
	usual := func(n *int, value int) {
		if *n <= 0 {
			*n = value
		}
	}
	usual(&o.Calls, 32)
	usual(&o.Sessions, 4096)
	usual(&o.PerTenant, max(o.Sessions/4, 1))
	usual(&o.PerSession, max(o.PerTenant/4, 1))
	usual(&o.PerCaller, 64)
	for d, value := range map[*time.Duration]time.Duration{&o.Idle: 30 * time.Minute, &o.Heartbeat: 5 * time.Second, &o.Refresh: 30 * time.Second} {
		if *d <= 0 {
			*d = value
		}
	}
	if o.Log == nil {
		silent := logrus.New()
		silent.SetOutput(io.Discard)
		o.Log = silent
	}
	return &Server{o: o}
}

// versions returns the supported versions of the protocol, which are those with
// sessions: asking for a permission while a call waits, and cancelling a call,
// need one.
func versions() []string {
	return []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
}

// Serve serves one client over t until it disconnects or ctx ends, and ends what
// its calls have begun. It returns no error when the client disconnects.
func (s *Server) Serve(ctx context.Context, t mcp.Transport, b Binding) error {
	x, err := s.session(b, nil)
	if err != nil {
		return err
	}
	defer x.end()
	ss, err := x.server.Connect(ctx, t, nil)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { ss.Close() })()
	defer context.AfterFunc(x.open, func() { ss.Close() })()
	err = ss.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// quiet returns the logger for the SDK, which discards everything: the SDK warns
// of clients that disconnect, which is no problem.
func (s *Server) quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
