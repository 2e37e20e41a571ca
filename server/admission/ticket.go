package admission

import (
	"context"
	"sync"

	"github.com/bulkhead-dev/sandbox/server/auth"
)

// A ticket goes with a request: the caller, and the turn that the request has
// waited for and that no command has used yet. A nil ticket has no caller.
type ticket struct {
	caller auth.Caller

	mu   sync.Mutex
	turn *turn
}

// A turn is the turn for a command of a tenant.
type turn struct {
	tenant  string
	release func()
}

type ticketKey struct{}

// WithCaller returns a context that carries the caller of one request. What is
// made and run with it counts for the caller's token, too, and without it for
// the tenant alone.
func WithCaller(ctx context.Context, c auth.Caller) context.Context {
	return context.WithValue(ctx, ticketKey{}, &ticket{caller: c})
}

func ticketOf(ctx context.Context) *ticket {
	t, _ := ctx.Value(ticketKey{}).(*ticket)
	return t
}

// callerOf returns the caller that ctx carries.
func callerOf(ctx context.Context) auth.Caller {
	if t := ticketOf(ctx); t != nil {
		return t.caller
	}
	return auth.Caller{}
}

// leave stores a turn in the ticket, unless there is one, and returns a function
// that releases the turn unless a command has taken it.
func (t *ticket) leave(tenant string, release func()) func() {
	if t == nil {
		return release
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn != nil {
		return release
	}
	left := &turn{tenant: tenant, release: release}
	t.turn = left
	return func() {
		t.mu.Lock()
		mine := t.turn == left
		if mine {
			t.turn = nil
		}
		t.mu.Unlock()
		if mine {
			release()
		}
	}
}

// take returns the function that releases the turn that was left for a tenant,
// or nil.
func (t *ticket) take(tenant string) func() {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn == nil || t.turn.tenant != tenant {
		return nil
	}
	release := t.turn.release
	t.turn = nil
	return release
}
