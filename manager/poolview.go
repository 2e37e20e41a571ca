package manager

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// poolView finds out what slots there are: the input of a plan. It opens slots
// that run and have no claim. It returns an error when an engine does not
// answer, because no answer is not the same as no slots.
func (k *poolKeeper) poolView(ctx context.Context, records []registry.Record, wants map[string]poolWant) (pool.View, error) {
	k.mu.Lock()
	v := pool.View{Now: k.m.now(), Rate: refillRate(), Started: slices.Clone(k.started), StartLimit: slotReady}
	k.mu.Unlock()
	v.Hold = map[string]bool{}
	var err error
	if v.Wants, err = k.demanded(wants); err != nil {
		return v, err
	}
	for _, w := range v.Wants {
		v.Hold[w.Shape] = k.holds(w.Shape, v.Now)
	}
	known := map[string]registry.Record{}
	providers := map[string]bool{}
	for _, r := range records {
		if r.Kind == sandbox.KindPool {
			known[r.Name], providers[r.Provider] = r, true
		}
	}
	for _, w := range wants {
		providers[w.provider.Name()] = true
	}
	for name := range providers {
		p, err := k.m.providers.Get(name)
		if err != nil {
			return v, err
		}
		infos, err := p.List(ctx, sandbox.Filter{Instance: k.m.instanceOf(name), Kind: sandbox.KindPool})
		if err != nil {
			return v, err
		}
		for _, i := range infos {
			rec, ok := known[i.Name]
			delete(known, i.Name)
			v.Slots = append(v.Slots, pool.Slot{Name: i.Name, Shape: rec.Shape, Since: i.CreatedAt, State: k.slotState(ctx, p, i, ok, wants)})
		}
	}
	for _, r := range known { // made just now, claimed, or gone
		v.Slots = append(v.Slots, pool.Slot{Name: r.Name, Shape: r.Shape, Since: r.CreatedAt, State: k.absentState(r)})
	}
	v.Slots = slices.DeleteFunc(v.Slots, func(s pool.Slot) bool { return s.State == pool.Claimed })
	for _, name := range k.names() {
		// One that is being claimed looks as if it were starting, and may have
		// been given back since.
		there := func(s pool.Slot) bool { return s.Name == name && (s.State == pool.Ready || s.State == pool.Starting) }
		if !slices.ContainsFunc(v.Slots, there) {
			k.drop(name)
		}
	}
	return v, nil
}

// slotState is that of a slot which exists.
func (k *poolKeeper) slotState(ctx context.Context, p sandbox.Provider, i sandbox.Info, recorded bool, wants map[string]poolWant) pool.State {
	switch {
	case k.busySlot(p.Name(), i.Name):
		return pool.Starting
	case k.lostClaim(p.Name(), i.Name):
		return pool.Claimed
	case !recorded || i.Status != sandbox.StatusRunning:
		return pool.Broken
	case k.has(i.Name):
		return pool.Ready
	}
	n, err := k.openSlot(ctx, p, i.Name)
	switch {
	case err == nil:
		if from, wanted := wants[n.rec.Shape]; wanted {
			k.standBy(ctx, from, n, nil)
		}
		k.put(n)
		return pool.Ready
	case sandbox.CodeOf(err) == sandbox.CodeBusy, ctx.Err() != nil:
		return pool.Starting
	}
	k.m.log.WithError(err).WithField("slot", i.Name).Debug("a slot cannot be opened")
	return pool.Broken
}

// lostClaim reports whether the claim on the slot is damaged, so that the
// session which made it is unknown. The slot is left alone, and the log says so
// once.
func (k *poolKeeper) lostClaim(provider, name string) bool {
	_, _, err := k.m.records.Of(provider).ClaimOn(name)
	if err == nil {
		return false
	}
	k.report(k.m.log, "slot "+name, err, "a slot of the pool is left alone")
	return true
}

// absentState is that of a recorded slot which the engine does not show as one.
// The record of one that is claimed has had its time.
func (k *poolKeeper) absentState(r registry.Record) pool.State {
	busy, records := k.busySlot(r.Provider, r.Name), k.m.records.Of(r.Provider)
	c, claimed, err := records.ClaimOn(r.Name)
	if err != nil {
		return pool.Claimed
	}
	whole := false
	if claimed {
		_, whole, err = records.ClaimOf(c.Name)
	}
	switch {
	case busy && whole && err == nil: // it is being bound, and another one is missing from now on
		return pool.Claimed
	case busy:
		return pool.Starting
	case !whole || err != nil:
		return pool.Broken
	}
	if err := records.Delete(sandbox.KindPool, r.Name); err != nil {
		k.m.log.WithError(err).WithField("slot", r.Name).Warn("cannot forget a slot that is claimed")
	}
	return pool.Claimed
}

// busySlot reports whether the slot is being made, claimed or removed now.
func (k *poolKeeper) busySlot(provider, name string) bool {
	turn, err := k.m.locksOf(provider).TryEnsure(name)
	if err != nil {
		return true
	}
	turn.Release()
	return false
}

// retire removes a slot by plan. One that was claimed since is left alone; what
// a process has left that died while it claimed one goes with the slot.
func (k *poolKeeper) retire(ctx context.Context, a pool.Action) (gone bool, err error) {
	p, err := k.slotProvider(ctx, a.Slot)
	if err != nil || p == nil {
		return false, err
	}
	records := k.m.records.Of(p.Name())
	turn, err := k.m.locksOf(p.Name()).TryEnsure(a.Slot)
	if sandbox.CodeOf(err) == sandbox.CodeBusy {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer turn.Release()
	c, claimed, err := records.ClaimOn(a.Slot)
	if err != nil {
		return false, err
	}
	if claimed {
		// Nothing has run in a slot whose claim is incomplete: commands run
		// later, and a caller that completes the claim needs the lock held here.
		if of, whole, err := records.ClaimOf(c.Name); err != nil || whole && of.Slot == a.Slot {
			return false, err
		}
	}
	k.m.log.WithField("slot", a.Slot).Infof("removed: %s", a.Why)
	if err := k.clearSlot(ctx, p, a.Slot); err != nil || !claimed {
		return err == nil, err
	}
	return true, records.UnclaimSlot(a.Slot)
}

// slotProvider returns the provider of a slot, nil where it is unknown.
func (k *poolKeeper) slotProvider(ctx context.Context, name string) (sandbox.Provider, error) {
	rec, err := k.m.records.Look(sandbox.KindPool, name)
	if err == nil {
		return k.m.providers.Get(rec.Provider)
	}
	if !sandbox.IsNotFound(err) {
		return nil, err
	}
	var errs error
	for _, p := range k.m.providers.Names() {
		b, err := k.m.providers.Get(p)
		if err != nil {
			return nil, err
		}
		if _, ok := asIdentified(b); !ok {
			continue
		}
		_, err = b.Inspect(ctx, name)
		if err == nil {
			return b, nil
		}
		if !sandbox.IsNotFound(err) {
			errs = errors.Join(errs, err)
		}
	}
	return nil, errs
}

// demanded returns how many slots of each shape to keep now.
func (k *poolKeeper) demanded(wants map[string]poolWant) ([]pool.Want, error) {
	if len(wants) == 0 {
		return nil, nil
	}
	attempts, err := k.m.records.Attempts()
	if err != nil {
		return nil, err
	}
	at := map[string][]time.Time{}
	for _, a := range attempts {
		if a.Miss == nil || a.Miss.Reason.Wanted() {
			at[a.Shape] = append(at[a.Shape], a.Time)
		}
	}
	var out []pool.Want
	for shape, w := range wants {
		n, _ := w.demand.Kept(at[shape], k.m.now())
		out = append(out, pool.Want{Shape: shape, Size: n})
	}
	return out, nil
}
