package fake_test

import (
	"context"
	"errors"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A telling is a process that tells another use than the true one.
type telling struct {
	sandbox.Process
	tell func(sandbox.Rusage) (sandbox.Rusage, error)
}

func (t telling) Used(ctx context.Context) (sandbox.Rusage, error) {
	u, err := t.Process.(sandbox.Metered).Used(ctx)
	if err != nil {
		return u, err
	}
	return t.tell(u)
}

// useMutants break the report of resource usage.
func useMutants() []mutant {
	const check = "a running command tells what it has used"
	as := func(tell func(sandbox.Rusage) (sandbox.Rusage, error)) broken {
		return broken{start: func(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
			p, err := sb.Start(ctx, c)
			if err != nil {
				return nil, err
			}
			return telling{p, tell}, nil
		}}
	}
	asked := 0
	return []mutant{
		{"nobody tells", check, with(broken{
			start: waiting(func(e sandbox.Exit, err error) (sandbox.Exit, error) { return e, err })})},
		{"use goes down", check, with(as(func(u sandbox.Rusage) (sandbox.Rusage, error) {
			asked++
			return sandbox.Rusage{User: time.Hour - time.Duration(asked), MaxRSS: 1}, nil
		}))},
		{"one pays for all", check, with(as(func(sandbox.Rusage) (sandbox.Rusage, error) {
			return sandbox.Rusage{User: time.Hour, MaxRSS: 1}, nil
		}))},
		{"memory is not told", check, with(as(func(u sandbox.Rusage) (sandbox.Rusage, error) { u.MaxRSS = 0; return u, nil }))},
		{"an error", check, with(as(func(u sandbox.Rusage) (sandbox.Rusage, error) { return u, errors.New("no") }))},
	}
}
