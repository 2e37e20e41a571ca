package prune

import (
	"context"
	"errors"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/registry"
	"golang.org/x/sync/errgroup"
)

// workers is how many removals run at once. An engine removes about as fast
// with two as with twenty; more would only starve those who wait to start.
const workers = 4

// ErrSpared is the error of a [Remover] that has found, with the locks held, that
// the reason of the plan no longer holds. The sandbox is spared.
var ErrSpared = errors.New("the reason for the removal no longer holds")

// A Remover ends and removes one sandbox with everything that belongs to it.
// Removing what is gone is not an error. A Removal with the reason Missing
// has no container; what remains is what belongs to it on the host. For the reasons
// Missing and Remnant a Remover has to look again and return ErrSpared where the
// container is there: a sandbox is recorded before it is made, so the records and the
// containers of a plan can be from before and from during its creation.
type Remover interface {
	Remove(ctx context.Context, r Removal) error
}

// A RemoverFunc is a function as a Remover.
type RemoverFunc func(ctx context.Context, r Removal) error

// Remove calls f.
func (f RemoverFunc) Remove(ctx context.Context, r Removal) error { return f(ctx, r) }

// A Report is what came of a plan, each part in the plan's order.
type Report struct {
	Removed []Removal
	Spared  []Removal // leased, used or recreated since the plan was made
	Failed  []Failure // their records are kept for the next try
}

// A Failure is a removal that did not succeed.
type Failure struct {
	Removal
	Err error
}

// Apply carries out plan. For each removal it takes the ensure lock and the
// exclusive lease without waiting, reads the record again, removes the
// sandbox and then the record. What is being made, is leased, or is recorded
// differently than when the plan was made, is spared, as is what rm finds to be there
// ([ErrSpared]). When the removal fails the record stays, so that the next sweep tries
// again. The end of ctx fails what has not begun.
func Apply(ctx context.Context, plan []Removal, rm Remover, leases keylock.Locker, records *registry.Store) Report {
	type outcome struct {
		spared bool
		err    error
	}
	outcomes := make([]outcome, len(plan))
	var g errgroup.Group
	g.SetLimit(workers)
	for i, r := range plan {
		g.Go(func() error {
			outcomes[i].spared, outcomes[i].err = apply(ctx, r, rm, leases, records)
			return nil
		})
	}
	_ = g.Wait()
	var report Report
	for i, o := range outcomes {
		switch {
		case o.err != nil:
			report.Failed = append(report.Failed, Failure{plan[i], o.err})
		case o.spared:
			report.Spared = append(report.Spared, plan[i])
		default:
			report.Removed = append(report.Removed, plan[i])
		}
	}
	return report
}

func apply(ctx context.Context, r Removal, rm Remover, leases keylock.Locker, records *registry.Store) (spared bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, sandbox.Errorf(sandbox.CodeTimeout, "prune", "the sweep was ended before %s was reached: %w", r.Name, err)
	}
	for _, take := range []func(string) (*keylock.Lock, error){leases.TryEnsure, leases.TryExclusive} {
		held, err := take(r.Name)
		if sandbox.CodeOf(err) == sandbox.CodeBusy {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		defer held.Release() // closing the file gives the lock up in any case
	}
	same, err := unchanged(r, records)
	if err != nil || !same {
		return err == nil, err
	}
	if err := rm.Remove(ctx, r); err != nil {
		if errors.Is(err, ErrSpared) {
			return true, nil
		}
		return false, err
	}
	return false, records.Delete(r.Kind, r.Name)
}

// unchanged reports whether r is recorded as it was when the plan was made.
// A record that cannot be read is an error: what is not known is not removed.
func unchanged(r Removal, records *registry.Store) (bool, error) {
	now, err := records.Look(r.Kind, r.Name)
	switch {
	case sandbox.IsNotFound(err):
		return r.Record == nil, nil
	case err != nil:
		return false, err
	case r.Record == nil:
		return false, nil
	}
	then := *r.Record
	then.Spec = nil
	return same(now, then), nil
}

// same compares the instants rather than how they are written.
func same(a, b registry.Record) bool {
	times := a.LastUsedAt.Equal(b.LastUsedAt) && a.CreatedAt.Equal(b.CreatedAt) && a.ExpiresAt.Equal(b.ExpiresAt)
	for _, r := range []*registry.Record{&a, &b} {
		r.LastUsedAt, r.CreatedAt, r.ExpiresAt = time.Time{}, time.Time{}, time.Time{}
	}
	return times && a == b
}
