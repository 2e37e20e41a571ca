package manager

import (
	"context"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
)

// A Cause is the request from outside that a call is made for. What the call
// does without a grant has it on record, so that who asked can be found again.
type Cause struct {
	RequestID   string
	TraceParent string // see https://www.w3.org/TR/trace-context/
}

type causeKey struct{}

// WithCause returns a context for the calls that are made for a request. Who
// makes one bounds its texts.
func WithCause(ctx context.Context, c Cause) context.Context {
	return context.WithValue(ctx, causeKey{}, c)
}

// CauseOf returns the request that ctx was made for by [WithCause].
func CauseOf(ctx context.Context) (c Cause, ok bool) {
	c, ok = ctx.Value(causeKey{}).(Cause)
	return c, ok
}

// caused is b with what its call is made for.
func caused(ctx context.Context, b evidence.Begin) evidence.Begin {
	if c, ok := ctx.Value(causeKey{}).(Cause); ok {
		b.RequestID, b.TraceParent = c.RequestID, c.TraceParent
	}
	return b
}
