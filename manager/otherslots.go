package manager

import (
	"context"
	"errors"

	"github.com/bulkhead-dev/sandbox"
)

// recordedSlots opens, one after the other, slots that another program keeps.
func (k *poolKeeper) recordedSlots(ctx context.Context, w *want, shape string) func() (*slot, error) {
	var names []string
	listed := false
	return func() (*slot, error) {
		if !listed {
			listed = true
			records, _, err := k.m.records.List(sandbox.KindPool)
			if err != nil {
				return nil, err
			}
			for _, r := range records {
				if r.Provider == w.provider.Name() && r.Shape == shape {
					names = append(names, r.Name)
				}
			}
		}
		for len(names) > 0 {
			name := names[0]
			names = names[1:]
			n, err := k.openSlot(ctx, w.provider, name)
			if err == nil {
				return n, nil
			}
			k.m.log.WithField("slot", name).Debugf("not to be had: %v", err)
			if ctx.Err() != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}

// openSlot opens a slot that runs and has no claim. It does not start one that
// is stopped: that slot may belong to a session whose claim was lost.
func (k *poolKeeper) openSlot(ctx context.Context, p sandbox.Provider, name string) (*slot, error) {
	turn, err := k.m.locksOf(p.Name()).TryEnsure(name) // held by the process that makes it
	if err != nil {
		return nil, err
	}
	defer turn.Release()
	records := k.m.records.Of(p.Name())
	rec, err := records.Get(sandbox.KindPool, name)
	if err != nil {
		return nil, err
	}
	if _, claimed, err := records.ClaimOn(name); claimed || err != nil || rec.Spec == nil {
		return nil, errors.Join(errSlotLost, err)
	}
	info, err := p.Inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	if info.Kind != sandbox.KindPool || info.Status != sandbox.StatusRunning || info.ConfigHash != rec.ConfigHash {
		return nil, errSlotLost
	}
	sb, err := p.Open(ctx, *rec.Spec)
	if err != nil {
		return nil, err
	}
	return &slot{sb, rec}, nil
}
