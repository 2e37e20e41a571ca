package resource

import (
	"context"
	"errors"

	"github.com/bulkhead-dev/sandbox"
)

// Why returns the error of a call that has failed with err: where its context
// has ended, the cause of that, such as a revoked token or the deadline.
func (c *Call) Why(err error) error {
	ctx := c.Context()
	if err == nil || ctx.Err() == nil {
		return err
	}
	var cause *sandbox.Error
	switch why := context.Cause(ctx); {
	case errors.As(why, &cause):
		return cause
	case errors.Is(why, context.DeadlineExceeded) && vague(err):
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: "serve", Message: "the request was not done in the time that there is for it", Retryable: true, Err: err}
	}
	return err
}

// vague reports whether an error says only that a context ended.
func vague(err error) bool {
	var e *sandbox.Error
	return !errors.As(err, &e) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
