package server

import (
	"context"
	"net"

	"github.com/bulkhead-dev/sandbox/server/admission"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// identify returns the caller of the request.
func (q *request) identify() (*auth.Caller, error) {
	who, err := q.s.o.Identify(q.r)
	if err != nil {
		return nil, err
	}
	q.who = &who
	if known, ok := q.r.Context().Value(connKey{}).(interface{ Known() }); ok {
		known.Known()
	}
	return &who, nil
}

// port carries out a request for the host name of a port of a sandbox. The name
// and the secret of a share authorize it, in place of the host names of the
// server and of a token.
func (q *request) port(p *resource.Ports) error {
	who, r, err := p.Admit(q.r)
	if err != nil {
		return err
	}
	q.r, q.who, q.m = r, &who, &methods{pattern: "port", mount: &Mount{Handler: p.Handler()}}
	q.r.Header.Del(auth.TenantHeader)
	q.r.Header.Del(auth.AgentHeader)
	q.r.Header.Del(auth.SessionHeader)
	q.r.Header.Del(api.HeaderSettings)
	if known, ok := q.r.Context().Value(connKey{}).(interface{ Known() }); ok {
		known.Known()
	}
	return q.do(&who)
}

// connKey is the context's key of the connection of a request.
type connKey struct{}

// connContext stores the connection in ctx, with the process at its other end.
func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(auth.ConnContext(ctx, c), connKey{}, c)
}

func (s *Server) hosts() []string {
	if s.o.Hosts == nil {
		return nil
	}
	return s.o.Hosts()
}

// A Ticket is what a [Mount] has to know of a request: the caller, the names on
// whose behalf it calls, and the id of the request. It is a [resource.Call]
// without a route.
type Ticket = resource.Call

// TicketOf returns the ticket of a request that arrived at a [Mount], or nil.
func TicketOf(ctx context.Context) *Ticket { return resource.CallOf(ctx) }

// handOn passes the request to the handler of a mount.
func (q *request) handOn(c *resource.Call, who *auth.Caller) error {
	defer c.End()
	ctx, cancel := context.WithCancelCause(admission.WithCaller(q.caused(q.r.Context()), *who))
	defer cancel(nil)
	end := q.s.life
	if follows := q.m.mount.Follows; follows != nil && follows(q.r) {
		end = q.s.drain
	}
	defer context.AfterFunc(end, func() { cancel(context.Cause(end)) })()
	ctx, done := who.Watch(ctx)
	defer done()
	r := q.r.WithContext(resource.WithCall(ctx, c))
	r.Body = q.patient(c, r.Body, q.m.mount.Whole)
	if p, ok := r.Body.(*patient); ok && q.m.mount.Whole {
		p.refuse = q.w.fail // its handler would call everything a bad request
	}
	q.w.cut = cancel
	q.m.mount.Handler.ServeHTTP(q.w, r)
	return nil
}
