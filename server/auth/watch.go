package auth

import (
	"context"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

const (
	// looks is how often a watched token is looked at.
	looks = time.Second
	// blind is how many lookups in a row may fail before the token counts as
	// revoked: a disk that fails for a moment ends no stream, and one that stays
	// away cannot keep a revoked token valid.
	blind = 10
)

// Watch returns a context that ends when the caller's token is not good any
// more, revoked or expired, itself or one that it was made from, or when the
// login has ended; within about a second. Its cause is then a *[sandbox.Error] of [sandbox.CodePermissionDeny].
// It is for requests that last. The stop function has to be called, and waits
// until nothing of the watch is left. For a caller without a token and a login the
// context ends with ctx or by stop alone.
func (c Caller) Watch(ctx context.Context) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	known := c.Token != nil && c.store != nil
	if !known && c.Over == nil {
		return watched, func() { cancel(context.Canceled) }
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.look(watched, cancel)
	}()
	return watched, func() {
		cancel(context.Canceled)
		<-ended
	}
}

// look looks the token up until ctx ends or the token is no longer valid.
func (c Caller) look(ctx context.Context, cancel context.CancelCauseFunc) {
	every := time.NewTicker(looks)
	defer every.Stop()
	for reported := 0; ; {
		var err error
		if c.Token != nil && c.store != nil {
			_, err = c.store.Get(c.Token.ID)
		}
		switch {
		case err == nil:
			reported = 0
		case sandbox.CodeOf(err) != sandbox.CodeUnavailable || reported+1 >= blind:
			cancel(&sandbox.Error{
				Code: sandbox.CodePermissionDeny, Op: op, Field: field, Err: err,
				Message: "the token is not good any more", Hint: "ask who runs the server for a token (sandbox token create)",
			})
			return
		default:
			reported++
		}
		select {
		case <-ctx.Done():
			return
		case <-c.Over:
			cancel(&sandbox.Error{
				Code: sandbox.CodePermissionDeny, Op: op, Field: field,
				Message: "the login has ended", Hint: "log in again: sandbox ui",
			})
			return
		case <-every.C:
		}
	}
}
