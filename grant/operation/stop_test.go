package operation_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/operation"
)

func TestStopped(t *testing.T) {
	revoked := &sandbox.Error{Code: sandbox.CodePermissionDeny, Message: "revoked"}
	failed := &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "gave up"}
	ended := func(cause error) context.Context {
		ctx, end := context.WithCancelCause(t.Context())
		end(cause)
		return ctx
	}
	for _, tt := range []struct {
		name string
		ctx  context.Context
		err  error
		want error
	}{
		{"it runs and succeeded", t.Context(), nil, nil},
		{"it runs and failed", t.Context(), failed, failed},
		{"it was stopped and had succeeded", ended(revoked), nil, nil},
		{"it was stopped and failed", ended(revoked), failed, revoked},
		{"the caller gave up", ended(nil), failed, failed},
		{"a cause of no code", ended(errors.New("why")), failed, failed},
	} {
		if got := operation.Stopped(tt.ctx, tt.err); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
