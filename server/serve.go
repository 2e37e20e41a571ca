package server

import (
	"context"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/admission"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// A request is the state of one request in the server.
type request struct {
	s     *Server
	w     *writer
	r     *http.Request
	id    string
	trace string        // the header traceparent of the answer
	span  *sandbox.Span // nil where no trace is recorded
	m     *methods
	route *resource.Route
	who   *auth.Caller // once it is known
	began time.Time
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.draining.Load() { // a drain does not wait for refused requests
		s.busy.enter()
		defer s.busy.leave()
	}
	q := &request{s: s, w: newWriter(w, r, s.o), r: r, id: requestID(r), began: time.Now()}
	if q.span, q.trace = s.startSpan(r); q.span != nil {
		q.r = r.WithContext(sandbox.WithSpan(r.Context(), q.span))
		r = q.r
		defer q.traced()
	}
	q.header()
	defer q.observe()
	defer q.recover()
	err := headRefused(r)
	switch translator := s.translatorOf(r); {
	case err != nil:
	case translator != nil:
		q.pass(translator)
	default:
		err = q.serve()
	}
	if q.w.instead != nil {
		err = q.w.instead // whatever was made of it
	}
	if err != nil {
		q.problem(err)
	}
	q.settle()
}

// header sets the headers that every answer has.
func (q *request) header() {
	h := q.w.Header()
	h.Set(api.HeaderRequestID, q.id)
	h.Set(api.HeaderTraceparent, q.trace)
	h.Set("X-Content-Type-Options", "nosniff")
	if last(q.r) {
		h.Set("Connection", "close")
	}
}

// recover answers for a handler that has panicked. Where the answer has begun it
// cuts the connection, so that the client does not take the answer for a whole
// one.
func (q *request) recover() {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	q.log().WithField("panic", v).Errorf("a handler has panicked\n%s", debug.Stack())
	if q.s.o.Observer != nil {
		q.s.o.Observer.Panicked()
	}
	if q.w.begun() {
		panic(http.ErrAbortHandler)
	}
	q.problem(&sandbox.Error{Code: sandbox.CodeInternal, Op: "serve", Message: "a handler has panicked"})
	q.settle()
}

// settle sets the deadlines for what happens after the handler: the server
// writes the rest of the answer, and reads the rest of the body, which may never
// arrive.
func (q *request) settle() {
	if q.w.taken {
		return
	}
	q.w.renew()
	q.w.rest.settle()
}

func (q *request) log() *logrus.Entry {
	e := q.s.o.Log.WithFields(logrus.Fields{"request": q.id, "method": q.r.Method})
	if q.span != nil {
		e = e.WithContext(q.r.Context())
	}
	if q.route != nil {
		e = e.WithField("route", q.route.ID)
	}
	return e
}

// serve runs the steps of a request.
func (q *request) serve() error {
	if p := q.s.o.Ports; p != nil {
		if _, _, ok := p.Named(q.r.Host); ok {
			return q.port(p)
		}
	}
	if err := auth.Admit(q.r, q.s.hosts()); err != nil {
		return err
	}
	var missing error
	q.m, q.route, missing = q.s.find(q.r)
	if q.route != nil && q.route.Role == "" {
		return q.do(nil)
	}
	who, err := q.identify() // before the answer reveals which routes exist
	if err != nil {
		return err
	}
	if missing != nil {
		return missing
	}
	return q.do(who)
}

// do carries a request out for the caller; nil is an anonymous caller.
func (q *request) do(who *auth.Caller) error {
	exempt := q.route != nil && q.route.Exempt
	if q.s.draining.Load() && !exempt {
		q.w.Header().Set("Connection", "close")
		return errDraining
	}
	c := &resource.Call{Writer: q.w, Request: q.r, Route: q.route}
	if who != nil {
		c.Caller = *who
		if who.ReadOnly && !q.reads() {
			return readOnly()
		}
		var err error
		if c.Who, err = who.Who(q.r); err != nil {
			return err
		}
		q.span.String("sandbox.tenant", c.Who.Tenant)
		if c.Settings, err = resource.SettingsOf(q.r, c.Caller, q.route); err != nil {
			return err
		}
		q.w.hold = func(n int64) (func(), error) { return q.s.holdAnswer(account(c), n) }
		a := q.s.o.Admission
		if a == nil && len(who.Budgeted()) > 0 {
			return auth.Uncharged()
		}
		if !c.Admin() && !exempt {
			leave, err := q.s.present.enter(c.Who.Tenant)
			if err != nil {
				return err
			}
			defer leave()
		}
		if a != nil && !exempt {
			if err := a.Request(c.Caller, c.Who.Tenant); err != nil {
				return err
			}
			c.Admit = func(ctx context.Context) (func(), error) { return a.Command(ctx, c.Caller, c.Who.Tenant) }
		}
	}
	c.RequestID, c.TraceParent, c.Problem = q.id, q.trace, q.reported
	if q.m.mount != nil {
		return q.handOn(c, who)
	}
	return q.answer(c, who)
}

// reads reports whether a request changes nothing, as far as the table says so.
func (q *request) reads() bool {
	if q.route == nil || q.route.Socket {
		return false
	}
	return q.route.Safe || q.r.Method == http.MethodGet || q.r.Method == http.MethodHead
}

func readOnly() error {
	return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "serve", Field: "readOnly", Message: "this login may change nothing", Hint: "log in without --read-only: sandbox ui"}
}

// answer calls the route's function and writes what it returns. Then it releases
// what the function holds.
func (q *request) answer(c *resource.Call, who *auth.Caller) error {
	if who != nil && !c.Caller.Reaches(q.route.Role) {
		return tooLittle(q.route)
	}
	query, err := queryOf(q.r, q.route)
	if err != nil {
		return err
	}
	if err := q.s.setPath(q.r, q.route.Path); err != nil {
		return err
	}
	if err := contentOf(q.r, q.route); err != nil {
		return err
	}
	bounds := q.s.bounds()
	ctx, done := q.life(who, bounds.Timeout)
	defer done()
	r := q.r.WithContext(ctx)
	c = c.With(r, query)
	defer c.End()
	r.Body = q.body(c, bounds.Body)
	if q.w.plain = q.route.Socket; q.w.plain && who != nil && who.Protocol != "" {
		q.w.Header().Set("Sec-Websocket-Protocol", who.Protocol)
	}
	out, err := q.route.Do(c)
	if q.w.plain = false; q.w.refused != 0 {
		q.w.Header().Del("Sec-Websocket-Protocol")
		return noHandshake(q.w.Header())
	}
	if err != nil {
		return c.Why(err)
	}
	return q.reply(out)
}

// life returns the context of a request: it ends with the connection, when the
// server shuts down (for a route that follows others as soon as a drain begins),
// with the token of a stream, and at the deadline, which is limit where the route
// has no other.
func (q *request) life(who *auth.Caller, limit time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(q.caused(q.r.Context()))
	if who != nil {
		ctx = admission.WithCaller(ctx, *who)
	}
	end := q.s.life
	if q.route.Follows {
		end = q.s.drain
	}
	stop := context.AfterFunc(end, func() { cancel(context.Cause(end)) })
	ends := []func(){func() { cancel(nil) }, func() { stop() }}
	if q.route.Timeout != 0 {
		limit = q.route.Timeout
	}
	if limit > 0 {
		var done func()
		ctx, done = context.WithTimeout(ctx, limit)
		ends = append(ends, done)
	}
	if (q.route.Stream || q.route.Socket || limit > time.Minute || limit < 0) && who != nil {
		var done func()
		ctx, done = who.Watch(ctx)
		ends = append(ends, done)
	}
	return ctx, func() {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i]()
		}
	}
}

// caused returns a context that connects work with the request that caused it.
func (q *request) caused(ctx context.Context) context.Context {
	return manager.WithCause(ctx, manager.Cause{RequestID: q.id, TraceParent: q.trace})
}

func tooLittle(r *resource.Route) error {
	return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "serve", Message: "this needs a token of the role " + string(r.Role) + " or above", Hint: "ask who runs the server for one (sandbox token create --role " + string(r.Role) + ")"}
}

// observe reports to the observer how the request ended.
func (q *request) observe() {
	if q.s.o.Observer != nil {
		q.s.o.Observer.Served(q.r.Method, q.pattern(), q.w.status, time.Since(q.began))
	}
}

// pattern returns the pattern of the request's route, or "".
func (q *request) pattern() string {
	switch {
	case q.route != nil:
		return q.route.Path
	case q.m != nil:
		return q.m.pattern
	}
	return ""
}
