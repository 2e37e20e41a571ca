package operation_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// blind is a sandbox whose processes report no usage, as if it had not been
// measured yet. Cap is the processor time limit of the sandbox itself, 0
// without one.
type blind struct {
	sandbox.Sandbox
	cap int64
}

type unseen struct{ sandbox.Process }

func (unseen) Used(context.Context) (sandbox.Rusage, error) { return sandbox.Rusage{}, nil }

func (b blind) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	if b.cap > 0 {
		c.Limits.CPUSeconds = min(c.Limits.CPUSeconds, b.cap)
	}
	p, err := b.Sandbox.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return unseen{p}, nil
}

// TestSecondLine checks that a program which the guest ends beyond its budget has
// used that up, and that one which ends at a limit of its sandbox has not.
func TestSecondLine(t *testing.T) {
	for limit, over := range map[int64]bool{0: true, 1: false} {
		r := programNewRig(blind{memory(t, programs()), limit})
		r.budget = bound(budget.CPUMs, 1500)
		d := r.do(t, t.Context(), run("burn"))
		if want := map[bool]int64{true: 3, false: 1}[over]; d.out.Exit == nil || d.out.Exit.Limit == nil || d.out.Exit.Limit.Bound != want {
			t.Errorf("with a limit of %d: exit %+v", limit, d.out.Exit)
		}
		if !over {
			programMust(t, d.err)
			continue
		}
		var e *sandbox.Error
		if !errors.As(d.err, &e) || e.Code != sandbox.CodeBudgetExceeded || e.Field != "budget.cpuMs" {
			t.Errorf("%v", d.err)
		}
	}
}
