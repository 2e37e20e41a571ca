package admission

import (
	"context"
	"errors"
	"time"

	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/server/auth"
)

// An Inventory tells which sandboxes there are; a [manager.Manager] is one.
type Inventory interface {
	Footprints(ctx context.Context, known func(name string) bool) ([]manager.Footprint, error)
}

// A Recorded inventory also tells whether anything was recorded of it since;
// a [manager.Manager] does.
type Recorded interface {
	Inventory
	RecordStamp() (registry.Stamp, error)
}

// lookAnew is how long what was counted may go without a look at what there is,
// when nothing tells of a change: sandboxes can go without a record of it.
const lookAnew = 10 * time.Minute

// A looked is when it was last looked at what there is.
type looked struct {
	stamp registry.Stamp
	at    time.Time
}

// Round is one of many, which come often, at now: it does what [Admission.Reconcile]
// does when something has been recorded since the last one, when somebody was
// refused a place since, and when the last look is long ago. Otherwise it asks
// nobody, so that sandboxes that do nothing cost nothing. One caller at a time.
func (a *Admission) Round(ctx context.Context, in Recorded, now time.Time) error {
	stamp, err := in.RecordStamp() // before it is looked: what is recorded meanwhile is for the next round
	if err != nil {
		a.last = looked{}
		return errors.Join(err, a.Reconcile(ctx, in))
	}
	age := now.Sub(a.last.at)
	if a.last.stamp.Same(stamp) && age >= 0 && age < lookAnew && !a.refused.Load() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.forgetFolders("") // somebody may have removed workspaces by hand
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

// Reconcile counts the sandboxes that there are and were not counted, and counts
// those no more that are gone. What happens meanwhile counts as it happens.
//
// Where some of what there is cannot be told, an error says so: then what was
// counted stays so, and what was found counts.
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

// adopt counts a sandbox that was found, unless it is counted or has gone since
// before. The mutex is held.
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
		a.log.WithError(err).WithField("sandbox", f.Name).Warn("it cannot be told for which token it counts")
	}
	accounts := append(auth.Caller{}.Accounts(f.Tenant, a.rules(f.Tenant).Limits), tokens...)
	h = &held{Footprint: f, since: a.tick(), made: true}
	if err := h.take(a.keeper.Adopt, accounts); err != nil {
		a.log.WithError(err).WithField("sandbox", f.Name).Error("it cannot be counted")
		return
	}
	a.held[f.Name] = h
}
