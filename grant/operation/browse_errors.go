package operation

import (
	"context"
	"errors"

	"github.com/bulkhead-dev/sandbox"
)

// op is what errors say was being done.
const browseOp = "browse"

// browseLate is an operation that took longer than it asked to be given.
func browseLate() error {
	return &sandbox.Error{Code: sandbox.CodeTimeout, Op: browseOp, Field: "op.timeout", Message: "the page took longer than it was given", Hint: "allow more time", Retryable: true}
}

// browseEnded says why a context did.
func browseEnded(ctx context.Context) error {
	cause := context.Cause(ctx)
	var e *sandbox.Error
	switch {
	case errors.As(cause, &e):
		return cause
	case errors.Is(cause, context.DeadlineExceeded):
		return &sandbox.Error{
			Code: sandbox.CodeTimeout, Op: browseOp, Field: "profile.limits.timeout", Message: "the page took longer than it may",
			Hint: "try again, or allow more time", Retryable: true,
		}
	}
	return &sandbox.Error{Code: sandbox.CodeTimeout, Op: browseOp, Message: "the caller gave up", Retryable: true, Err: cause}
}

// explain makes an error of a session one of the table. Where the operation was
// stopped, that is why it failed; with its grant the session ends too, which may
// be seen before ctx does.
func (e *browseExecutor) explain(ctx context.Context, err error) error {
	for _, ctx := range []context.Context{ctx, e.life} {
		if ctx.Err() != nil {
			return browseEnded(ctx)
		}
	}
	var known *sandbox.Error
	if errors.As(err, &known) {
		return err
	}
	return &sandbox.Error{Code: sandbox.CodeExecution, Op: browseOp, Message: "the browser could not do it", Err: err}
}
