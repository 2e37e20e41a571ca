package operation

import (
	"context"
	"errors"

	"github.com/bulkhead-dev/sandbox"
)

// Stopped is the error of an operation that failed with err: the cause of the
// end of ctx, where it has ended by a *sandbox.Error (a budget, a revocation),
// because what failed then failed for that; else err. A nil err stays nil.
func Stopped(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	var cause *sandbox.Error
	if errors.As(context.Cause(ctx), &cause) {
		return context.Cause(ctx)
	}
	return err
}
