package admission

import (
	"context"
	"sync"

	"github.com/bulkhead-dev/sandbox/server/auth"
)

// A ticket goes with a request: who asks, and the turn that was waited for and
// that no command has yet. nil is that of nobody.
type ticket struct {
	caller auth.Caller

	mu   sync.Mutex
	turn *turn
}

// A turn is one for a command of a tenant.
type turn struct {
	tenant  string
	release func()
}

type ticketKey struct{}

// WithCaller returns a context that says who asks, for one request. What is
// made and run with it counts for the caller's token, too, and without it for
// the tenant alone.
func WithCaller(ctx context.Context, c auth.Caller) context.Context {
	return context.WithValue(ctx, ticketKey{}, &ticket{caller: c})
}

func ticketOf(ctx context.Context) *ticket {
	t, _ := ctx.Value(ticketKey{}).(*ticket)
	return t
}

// callerOf is who asks, as far as ctx says.
func callerOf(ctx context.Context) auth.Caller {
	if t := ticketOf(ctx); t != nil {
		return t.caller
	}
	return auth.Caller{}
}

// leave leaves a turn with the ticket, unless there is one, and returns what
// gives it back as long as nobody has taken it.
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

// take returns what gives back the turn that was left for a tenant, or nil.
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
