// Package server serves sandboxes over HTTP: it checks and accounts each request
// of each tenant.
//
// It serves resources, each of which is a table of routes in package resource.
// Every request goes through these steps, in this order:
//
//	request id and trace → caller → quota → route → query → deadline → Do
//
// and the server writes the result: JSON, or a problem with a stable code. No
// handler decides what a caller may do: the manager does, in one place.
package server

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// Options configure a [Server]. Log is required.
type Options struct {
	Log         logrus.FieldLogger
	Resources   []resource.Resource
	Mounts      []Mount
	Translators []Translator // of other protocols

	// Identify returns the caller of a request, or an error that says why there
	// is none; see [auth.Identify]. It is required: there is no default.
	Identify func(*http.Request) (auth.Caller, error)

	// Hosts returns the names by which the server may be called over TCP beside
	// those of this machine; see [auth.Admit]. Nil is none.
	Hosts func() []string

	// Admission counts requests and commands; nil counts nothing.
	Admission Admission

	// Ports carries out requests for host names of ports of sandboxes; nil has
	// no such host names.
	Ports *resource.Ports

	Observer Observer     // nil observes nothing
	Tracer   *Tracer      // nil records no trace
	Metrics  http.Handler // the handler of /metrics; nil has none
	Checks   []Check      // checks of /readyz, beside whether the server drains

	// Private are texts, such as paths of the state folder, that problems
	// contain only for admins.
	Private []string

	// Bounds returns the bounds of routes without their own; it is called for
	// each request. Nil returns the default bounds.
	Bounds func() Bounds

	// AtOnce is how many requests of one tenant, with streams and sockets, may
	// run at a time; 0 is 4096. It is no quota: it leaves connections to others,
	// because every request has a connection, and the number of descriptors of a
	// process is limited. Admins are not counted.
	AtOnce int

	// Held is how many bytes of bodies the requests of one tenant may hold in
	// memory at a time, and how many bytes of answers that are not read yet
	// beside them; 0 is 256 MiB. The requests of all admins together may hold as
	// much.
	Held int64

	SlowWrite time.Duration // how long a piece of an answer may take to be read; 0 is 30 s
	SlowRead  time.Duration // how long a piece of a request may be in coming, and bodies that are read whole beside their pace; 0 is 30 s
}

// Bounds are the time limits of a request.
type Bounds struct {
	Timeout time.Duration // 0 is one minute
	Body    int64         // bytes; 0 is 1 MiB
}

// bounds returns the bounds for a request that arrives now.
func (s *Server) bounds() Bounds {
	var b Bounds
	if s.o.Bounds != nil {
		b = s.o.Bounds()
	}
	if b.Timeout <= 0 {
		b.Timeout = time.Minute
	}
	if b.Body <= 0 {
		b.Body = 1 << 20
	}
	return b
}

// Admission counts the requests and commands of callers against their quotas.
type Admission interface {
	// Request counts one request.
	Request(c auth.Caller, tenant string) error
	// Command waits for the caller's turn to run one.
	Command(ctx context.Context, c auth.Caller, tenant string) (release func(), err error)
}

// An Observer is called for every request that has been answered. Route is the
// pattern of its route, or empty.
type Observer interface {
	Served(method, route string, status int, took time.Duration)
	Panicked()
}

// A Mount is a handler below a path. Its requests pass the identification of the
// caller and the quota, but have no deadline other than that of each piece that
// they read or write. The handler reads the [Ticket] of a request with
// [TicketOf].
type Mount struct {
	Pattern string // a pattern of [http.ServeMux]
	Whole   bool   // bodies are read whole, so the bounds and the rate of routes with JSON apply to them
	Handler http.Handler
	// Follows reports whether a request only follows what others do, as routes
	// with [resource.Route].Follows; nil is none.
	Follows func(*http.Request) bool
}

// A Server answers requests. It is an [http.Handler] and safe for concurrent
// use.
type Server struct {
	o        Options
	mux      *http.ServeMux
	routes   []resource.Route
	draining atomic.Bool
	life     context.Context // of all requests; ends when they are cut off
	cut      context.CancelCauseFunc
	drain    context.Context // context of requests whose result no client waits for; ends when a drain begins
	turn     context.CancelCauseFunc
	busy     inFlight
	present  present
	bodies   held // that are read whole
	answers  held

	mu       sync.Mutex
	servers  []*http.Server // that serve with this one
	document func() ([]byte, error)
}

// New returns a Server. It returns an error for two routes with the same method
// and path or the same ID, and for an invalid route.
func New(o Options) (*Server, error) {
	if o.Identify == nil {
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "serve", Field: "Identify", Message: "no caller is set", Hint: "use caller.Identify"}
	}
	s := &Server{o: o, mux: http.NewServeMux()}
	s.life, s.cut = context.WithCancelCause(context.Background())
	s.drain, s.turn = context.WithCancelCause(s.life)
	if s.present.most = s.o.AtOnce; s.present.most <= 0 {
		s.present.most = 4096
	}
	if s.o.Held <= 0 {
		s.o.Held = 256 << 20
	}
	s.bodies.most, s.answers.most = s.o.Held, s.o.Held
	if s.o.SlowWrite <= 0 {
		s.o.SlowWrite = 30 * time.Second
	}
	if s.o.SlowRead <= 0 {
		s.o.SlowRead = 30 * time.Second
	}
	for _, r := range append([]resource.Resource{health{s}}, o.Resources...) {
		s.routes = append(s.routes, r.Routes()...)
	}
	s.document = sync.OnceValues(documentOf(s.routes))
	return s, s.mount()
}

// Routes returns all routes. The caller must not change them.
func (s *Server) Routes() []resource.Route { return s.routes }

// errDraining is the cause of the end of requests that outlast a drain.
var errDraining = &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "serve", Message: "the server is going down", Retryable: true}
