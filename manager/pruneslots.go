package manager

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/prune"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// planSlots plans for slots of the pool, of one agent each. A free slot is idle
// by design, so idleness is no reason to remove it. A slot is removed when it
// is as old as a sandbox may become, since a sandbox would be made of it; when
// its container is gone; and when the pool does not want it any more. The
// keeper of the pool does the last by Refill. planSlots leaves out slots that
// are claimed.
func (b *sweeper) planSlots(ctx context.Context, p sandbox.Provider, slots []registry.Record, live map[string]sandbox.Info) ([]prune.Removal, error) {
	var plan []prune.Removal
	var free []registry.Record
	if len(slots) == 0 {
		return nil, nil
	}
	claims, err := b.m.records.Of(p.Name()).Claims()
	if err != nil {
		return nil, err
	}
	for _, r := range slots {
		if _, claimed := claims[r.Name]; claimed {
			continue
		}
		rules, err := b.rulesOf(r.Agent)
		if err != nil {
			return nil, err
		}
		rules.Idle = 0
		var mine []sandbox.Info
		if i, ok := live[r.Name]; ok {
			mine = []sandbox.Info{i}
		}
		due := b.plan(p, rules, mine, []registry.Record{r})
		plan = append(plan, due...)
		if len(due) == 0 && len(mine) > 0 {
			free = append(free, r)
		}
	}
	if len(free) == 0 || b.m.pool.keepsPool() {
		return plan, nil
	}
	unwanted, err := b.unwanted(ctx, p, free, live)
	return append(plan, unwanted...), err
}

// unwanted are the free slots that the next Refill would remove. Without an
// answer to what is wanted there are none.
func (b *sweeper) unwanted(ctx context.Context, p sandbox.Provider, free []registry.Record, live map[string]sandbox.Info) ([]prune.Removal, error) {
	wants, partial, err := newSnapshot(b.m).m.pool.findPoolWants(ctx, b.m.current())
	if err != nil || partial {
		return nil, err
	}
	v := pool.View{Now: b.m.now(), StartLimit: slotReady}
	if v.Wants, err = b.m.pool.demanded(wants); err != nil {
		return nil, err
	}
	known := map[string]*registry.Record{}
	for i, r := range free {
		known[r.Name] = &free[i]
		state := pool.Broken
		switch {
		case b.m.pool.busySlot(p.Name(), r.Name):
			state = pool.Starting
		case live[r.Name].Status == sandbox.StatusRunning:
			state = pool.Ready
		}
		v.Slots = append(v.Slots, pool.Slot{Name: r.Name, Shape: r.Shape, State: state, Since: r.CreatedAt})
	}
	var plan []prune.Removal
	for _, a := range pool.Plan(v) {
		if a.Kind == pool.Remove && !b.m.pruner.leased(p.Name())(a.Slot) {
			plan = append(plan, prune.Removal{Name: a.Slot, Kind: sandbox.KindPool, Reason: prune.Surplus, Detail: a.Why, Record: known[a.Slot]})
		}
	}
	return plan, nil
}
