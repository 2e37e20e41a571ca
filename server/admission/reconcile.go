package admission

import (
	"context"
	"errors"
	"time"

	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/server/auth"
)

// An Inventory lists the sandboxes that exist; a [manager.Manager] is one.
type Inventory interface {
	Footprints(ctx context.Context, known func(name string) bool) ([]manager.Footprint, error)
}

// A Recorded inventory also reports whether anything was recorded of it since a
// time; a [manager.Manager] does.
type Recorded interface {
	Inventory
	RecordStamp() (registry.Stamp, error)
}

// lookAnew is the longest time between two inspections of the inventory when
// nothing was recorded: sandboxes can disappear without a record of it.
const lookAnew = 10 * time.Minute

// A looked is the time and state of the last inspection of the inventory.
type looked struct {
	stamp registry.Stamp
	at    time.Time
}

// Round is called often, with the current time: it does what
// [Admission.Reconcile] does when something has been recorded since the last
// round, when a caller was refused for lack of room since, and when the last
// inspection is long ago. Otherwise it does not ask the inventory, so that idle
// sandboxes cost nothing. Calls must not overlap.
func (a *Admission) Round(ctx context.Context, in Recorded, now time.Time) error {
	stamp, err := in.RecordStamp() // before the inspection: what is recorded meanwhile is for the next round
	if err != nil {
		a.last = looked{}
		return errors.Join(err, a.Reconcile(ctx, in))
	}
	age := now.Sub(a.last.at)
	if a.last.stamp.Same(stamp) && age >= 0 && age < lookAnew && !a.refused.Load() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.forgetFolders("") // a workspace may have been removed by hand
		return nil
	}
	a.refused.Store(false)
	a.last = looked{}
	if err := a.Reconcile(ctx, in); err != nil {
		return err
	}
	a.last = looked{stamp: stamp, at: now}
	return nil
}

// Reconcile counts the existing sandboxes that were not counted, and stops
// counting those that are gone. Changes during the call are counted as they
// happen.
//
// Where a part of the inventory cannot be read it returns an error: then what
// was counted stays counted, and what was found counts.
func (a *Admission) Reconcile(ctx context.Context, in Inventory) error {
	a.found.Lock()
	defer a.found.Unlock()
	a.mu.Lock()
	before := a.tick()
	a.mu.Unlock()
	all, err := in.Footprints(ctx, a.counts)
	a.mu.Lock()
	defer a.mu.Unlock()
	present := make(map[string]bool, len(all))
	for _, f := range all {
		present[f.Name] = true
		a.adopt(f, before)
	}
	if err != nil {
		return err
	}
	for name, h := range a.held {
		if !present[name] && h.made && h.rest != nil && h.since < before {
			a.log.WithField("sandbox", name).Info("it is gone and counts no more")
			a.leave(h)
		}
	}
	a.forgetFolders("")
	for name, when := range a.gone {
		if when < before {
			delete(a.gone, name)
		}
	}
	return a.marks.keep(a.held)
}

// counts reports whether a sandbox is counted.
func (a *Admission) counts(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.held[name]
	return h != nil && h.rest != nil
}

// adopt counts a sandbox that was found, unless it is counted or was removed
// after before. The mutex is held.
func (a *Admission) adopt(f manager.Footprint, before uint64) {
	h := a.held[f.Name]
	if h != nil && h.rest != nil || a.gone[f.Name] > before {
		return
	}
	if h != nil {
		a.drop(h)
	}
	tokens, err := a.marks.get(f.Name)
	if err != nil {
		a.log.WithError(err).WithField("sandbox", f.Name).Warn("it is not known for which token it counts")
	}
	accounts := append(auth.Caller{}.Accounts(f.Tenant, a.rules(f.Tenant).Limits), tokens...)
	h = &held{Footprint: f, since: a.tick(), made: true}
	if err := h.take(a.keeper.Adopt, accounts); err != nil {
		a.log.WithError(err).WithField("sandbox", f.Name).Error("it cannot be counted")
		return
	}
	a.held[f.Name] = h
}
