package fake_test

import (
	"context"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

// limitMutants break the report of exceeded limits.
func limitMutants() []mutant {
	telling := func(change func(*sandbox.Exit)) func(*providertest.Harness) {
		return with(broken{
			start: func(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
				p, err := sb.Start(ctx, c)
				if err != nil {
					return nil, err
				}
				return process{p, func() (sandbox.Exit, error) {
					exit, err := p.Wait()
					change(&exit)
					return exit, err
				}}, nil
			},
			line: resulting(func(exit sandbox.Exit, err error) (sandbox.Exit, error) {
				change(&exit)
				return exit, err
			}),
		})
	}
	var list []mutant
	for _, check := range []string{
		"a command beyond its memory is ended and told so", "memory is counted over all processes of a command",
		"a command beyond its processor time is ended and told so", "a command with too many processes is ended and told so",
		"a fork bomb is ended and told so", "a file beyond its size is not written and that is told",
		"a command that failed with all files open is told so", "a line of a shell beyond its memory is ended and told so",
		"limits of a handle hold for its commands",
	} {
		list = append(list, mutant{"limits are not told: " + check, check, telling(func(e *sandbox.Exit) { e.Limit = nil })})
	}
	return append(list,
		mutant{"every failure is blamed on a limit", "limits that were not reached are not told", telling(func(e *sandbox.Exit) {
			if e.Code != 0 {
				e.Limit = &sandbox.LimitHit{Limit: sandbox.LimitMemory, Unit: sandbox.UnitBytes}
			}
		})},
		mutant{"less than the bound was used", "a command beyond its memory is ended and told so", telling(func(e *sandbox.Exit) {
			if e.Limit != nil {
				e.Limit.Current = e.Limit.Bound - 1
			}
		})},
		mutant{"another limit is named", "a fork bomb is ended and told so", telling(func(e *sandbox.Exit) {
			if e.Limit != nil {
				e.Limit.Limit = sandbox.LimitCPUSeconds
			}
		})},
		mutant{"the handle's limits are forgotten", "limits of a handle hold for its commands", with(broken{
			open: func(p *fake.Provider, ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
				s.Limits.Processes = 64 // the tree ends by itself then, at the end of the check
				return p.Open(ctx, s)
			},
			start: func(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				p, err := sb.Start(ctx, c)
				if err != nil {
					cancel()
					return nil, err
				}
				return process{p, func() (sandbox.Exit, error) { defer cancel(); return p.Wait() }}, nil
			},
		})},
	)
}
