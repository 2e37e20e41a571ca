package daemon

import (
	"cmp"
	"context"
	"net/http"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/daemon/api"
	"github.com/bulkhead-dev/sandbox/daemon/route"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// identify finds out who asks.
func (q *request) identify() (*Identity, error) {
	if q.s.o.Identify == nil {
		who := everybody(q.r)
		q.call = &route.Call{Caller: who.Caller}
		return &who, nil
	}
	who, err := q.s.o.Identify(q.r)
	if err != nil {
		return nil, err
	}
	q.call = &route.Call{Caller: who.Caller}
	return &who, nil
}

// everybody is who asks where nobody is asked who he is.
func everybody(r *http.Request) Identity {
	return Identity{Caller: route.Caller{Claims: token.Claims{Role: token.Admin}}, Who: func() (config.Who, error) {
		h := r.Header
		who := config.Who{Tenant: h.Get(api.HeaderTenant), Agent: cmp.Or(h.Get(api.HeaderAgent), config.DefaultAgent), Session: cmp.Or(h.Get(api.HeaderSession), config.DefaultSession)}
		return who, who.Validate()
	}}
}

type ticketKey struct{}

// A Ticket is what a [Mount] has to know of a request: who asks, on whose
// behalf, and how it is called. It is a [route.Call] without a route.
type Ticket = route.Call

// TicketOf is the ticket of a request that came to a [Mount], or nil.
func TicketOf(ctx context.Context) *Ticket {
	t, _ := ctx.Value(ticketKey{}).(*Ticket)
	return t
}

// handOn gives the request to the handler of a mount.
func (q *request) handOn(c *route.Call, who *Identity) error {
	if q.m.mount.Admin && !c.Caller.Admin() {
		return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "serve", Message: "this is for admins"}
	}
	ctx, cancel := context.WithCancelCause(q.r.Context())
	defer cancel(nil)
	defer context.AfterFunc(q.s.life, func() { cancel(context.Cause(q.s.life)) })()
	if who.Watch != nil {
		var done func()
		ctx, done = who.Watch(ctx)
		defer done()
	}
	q.m.mount.Handler.ServeHTTP(q.w, q.r.WithContext(context.WithValue(ctx, ticketKey{}, c)))
	return nil
}
