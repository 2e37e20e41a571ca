package manager

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/registry/pool"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

const (
	refillAtOnce = 8                // slots that are started at one time at most, and never more than there are processors
	refillEvery  = 10 * time.Second // when nothing is missing: a slot may have died, and demand falls
	refillIdle   = time.Minute      // when settings keep no pool
	slotReady    = 2 * time.Minute  // a slot that has not started by then is broken

	poolRests = 10 * time.Minute // how long a pool counts as unwanted without a check while nothing has changed

	// refillLock is the lock under which one program at a time refills.
	refillLock = "pool-refill"
)

// refillRate bounds how fast slots are started.
func refillRate() pool.Rate { return pool.Rate{Starts: 30, Per: 10 * time.Second} }

// A poolWant is what slots of a shape are made from, and how many are kept.
type poolWant struct {
	shape    string
	from     *checkpoint.Record // what they begin with; nil is nothing
	lacks    string             // why there can be none, where pool.from names no checkpoint
	demand   pool.Demand
	agents   []string // whose sandboxes have the shape
	res      config.Resolved
	provider sandbox.Provider
}

// RefillDue has a value whenever the pool is to be looked at at once: a slot was
// claimed, a sandbox was made that could have been one, or settings may have
// changed. It is for the caller of [Manager.Refill], and hears of claims of this
// program; of those of others it hears through [Manager.WatchPool].
func (m *Manager) RefillDue() <-chan struct{} { return m.pool.wakes }

// Refill makes the slots of the pool what settings and demand want: it removes
// those that are broken or too many, and starts some of those that are missing,
// as many at one time as there are processors, or eight on other machines. It returns
// how many it has started and how long the next call can wait unless
// [Manager.RefillDue] has a value before, which is a moment where more is to be done
// at once. The work of one call is bounded. It is for one caller that lives long; of
// several programs on one state folder one refills.
//
// While slots are claimed one after the other and some are left, it waits for a pause
// of the claims, a moment at most.
//
// After a failure it waits longer with each more, and returns without trying
// until then: for the kind of slot that could not be made, or for all where the
// engine or the registry does not answer.
//
// Slots are kept for each shape that the sandboxes of the agents of settings
// have. A slot is made for no tenant, and the first one that claims it has it
// for good.
func (m *Manager) Refill(ctx context.Context) (started int, next time.Duration, err error) {
	m.pool.refills.Lock()
	defer m.pool.refills.Unlock()
	if rest := m.pool.rests("", m.now()); rest > 0 {
		return 0, rest, nil
	}
	if wait := m.pool.pause(m.now()); wait > 0 {
		return 0, wait, nil
	}
	lock, err := m.leases.TryEnsure(refillLock)
	if sandbox.CodeOf(err) == sandbox.CodeBusy {
		m.pool.full() // which is for another to see to
		return 0, refillEvery, nil
	}
	var round error // of all of it, not of a single start
	if err == nil {
		defer lock.Release()
		m.pool.mu.Lock()
		m.pool.keeps = true
		m.pool.mu.Unlock()
		started, next, err, round = m.pool.refillRound(ctx)
	} else {
		round = err
	}
	if ctx.Err() != nil {
		return started, refillEvery, errors.Join(err, round)
	}
	m.pool.failed("", round, m.now())
	if round != nil {
		return started, m.pool.rests("", m.now()), round
	}
	return started, next, err
}

// refillRound is one look at the pool and what follows from it. err is of slots
// that could not be started or removed, which others need not wait for, and round
// of what keeps the whole pool from being looked at.
func (k *poolKeeper) refillRound(ctx context.Context) (started int, next time.Duration, err, round error) {
	now := poolRest{settings: k.m.current(), at: k.m.now()}
	if now.stamp, round = k.m.records.Stamp(); round != nil {
		return 0, 0, nil, round
	}
	if k.rest.lasts(now) {
		return 0, refillIdle, nil, nil
	}
	k.rest = poolRest{}
	records, _, round := k.m.records.List("")
	silent, ok := unanswered(round)
	if !ok {
		return 0, 0, nil, round
	}
	wants, failed := k.poolWants(ctx)
	if failed != nil {
		return 0, 0, nil, failed
	}
	for _, w := range wants {
		if silent[w.provider.Name()] != nil { // its slots would look as if they had no record
			return 0, 0, nil, round
		}
	}
	view, round := k.poolView(ctx, records, wants)
	if round != nil {
		return 0, 0, nil, round
	}
	if len(wants) == 0 && len(view.Slots) == 0 && !k.wanted.partial {
		k.rest = now
		k.full()
		k.keptSlots(view)
		return 0, refillIdle, nil, nil
	}
	plan := pool.Plan(view)
	if k.wanted.partial { // who wants the others is not known
		plan = slices.DeleteFunc(plan, func(a pool.Action) bool {
			return a.Kind == pool.Remove && !slices.ContainsFunc(view.Slots, func(s pool.Slot) bool { return s.Name == a.Slot && s.State == pool.Broken })
		})
	}
	started, removed, more, err := k.refill(ctx, plan, wants)
	more = more || missing(view, plan)
	k.keptSlots(view)
	switch rest := k.restsOf(view); {
	case ctx.Err() != nil:
		return started, refillEvery, err, nil
	case more && started > 0 && err == nil, removed > 0: // what is removed makes room
		return started, time.Millisecond, err, nil
	case rest > 0:
		return started, min(rest, refillEvery), err, nil
	case more, err != nil:
		return started, time.Second, err, nil // as fast as the rate allows
	}
	if since := k.full(); !since.IsZero() {
		k.poolObserver().Refilled(k.m.now().Sub(since))
	}
	return started, refillEvery, nil, nil
}

// restsOf returns how long it takes until the first of the shapes that are left
// alone is due again; 0 where there is none.
func (k *poolKeeper) restsOf(v pool.View) (least time.Duration) {
	for _, w := range v.Wants {
		if rest := k.rests(w.Shape, k.m.now()); rest > 0 && (least == 0 || rest < least) {
			least = rest
		}
	}
	return least
}

// keptSlots notes what the pool keeps, for people and metrics.
func (k *poolKeeper) keptSlots(v pool.View) {
	kept, wanted := map[string]pool.Want{}, 0
	for _, w := range v.Wants {
		kept[w.Shape] = w
		wanted += w.Size
	}
	k.mu.Lock()
	k.status = kept
	ready := len(k.open)
	k.mu.Unlock()
	k.poolObserver().Slots(ready, wanted)
}

// poolRest is when no pool was wanted and there was none.
type poolRest struct {
	stamp    registry.Stamp
	settings *config.Settings
	at       time.Time
}

// lasts reports whether no pool is wanted still: every slot has a record, and
// settings and records determine which agents may want one.
func (r poolRest) lasts(now poolRest) bool {
	age := now.at.Sub(r.at)
	return r.stamp.Same(now.stamp) && r.settings == now.settings && age >= 0 && age < poolRests
}

// missing reports whether there are fewer slots than are wanted also when the
// plan has been carried out: it goes no faster than the rate allows.
func missing(v pool.View, plan []pool.Action) bool {
	have := map[string]int{}
	for _, s := range v.Slots {
		have[s.Shape]++
	}
	for _, a := range plan {
		if a.Kind == pool.Start {
			have[a.Shape]++
		}
	}
	return slices.ContainsFunc(v.Wants, func(w pool.Want) bool { return have[w.Shape] < w.Size })
}

// refill carries out a plan.
func (k *poolKeeper) refill(ctx context.Context, plan []pool.Action, wants map[string]poolWant) (started, removed int, more bool, errs error) {
	var g errgroup.Group
	here, atOnce := 0, max(1, min(k.m.host.CPUs, refillAtOnce)) // starts share them, and calls come first
	g.SetLimit(refillAtOnce)
	failed := make([]error, len(plan))
	for i, a := range plan {
		switch {
		case ctx.Err() != nil:
			more = true
		case a.Kind == pool.Remove:
			var gone bool
			if gone, failed[i] = k.retire(ctx, a); gone {
				removed++
			}
		case a.Kind == pool.Start && (started >= refillAtOnce || here >= atOnce && !detached(wants[a.Shape].provider)):
			more = true
		case a.Kind == pool.Start:
			started++
			if !detached(wants[a.Shape].provider) {
				here++
			}
			g.Go(func() error {
				began := time.Now()
				failed[i] = k.startSlot(ctx, wants[a.Shape])
				k.poolObserver().SlotStarted(time.Since(began), failed[i])
				if ctx.Err() == nil {
					k.failed(a.Shape, failed[i], k.m.now())
				}
				return nil
			})
		}
	}
	_ = g.Wait()
	for i, err := range failed {
		if err != nil && plan[i].Kind == pool.Start {
			k.report(k.m.log, "start "+plan[i].Shape, err, "a slot of the pool could not be made; it is tried again, later with each time")
		}
	}
	return started, removed, more, errors.Join(failed...)
}

// poolWants are what slots are to be kept, by shape, for as long as settings
// and images stay what they are.
type poolWants struct {
	settings *config.Settings
	at       time.Time
	of       map[string]poolWant
	partial  bool // what some agents want could not be found out
}

// poolWants returns what slots are to be kept. What was found out lately counts
// still: it takes a look at the facts of every agent.
func (k *poolKeeper) poolWants(ctx context.Context) (map[string]poolWant, error) {
	now := poolWants{settings: k.m.current(), at: k.m.now()}
	last := k.wanted
	if age := now.at.Sub(last.at); last.of != nil && last.settings == now.settings && age >= 0 && age < refillIdle && k.stillFilled(ctx, last.of) {
		return last.of, nil
	}
	var err error
	if now.of, now.partial, err = newSnapshot(k.m).m.pool.findPoolWants(ctx, now.settings); err != nil {
		return nil, err
	}
	k.wanted = now
	return now.of, nil
}

// findPoolWants looks at the settings of every agent. Where that fails for some
// the answer is partial; where it fails for all it is an error.
func (k *poolKeeper) findPoolWants(ctx context.Context, settings *config.Settings) (wants map[string]poolWant, partial bool, err error) {
	wants = map[string]poolWant{}
	agents := []string{config.DefaultAgent}
	if settings != nil && settings.Agents != nil {
		for _, one := range settings.Agents.List {
			if one.ID != nil && *one.ID != config.DefaultAgent {
				agents = append(agents, *one.ID)
			}
		}
	}
	var failed []error
	asked := 0
	for _, agent := range agents {
		// A slot has neither session nor tenant; what differs between them binds late.
		res, err := config.Resolve(settings, config.Who{Agent: agent, Session: config.DefaultSession}, nil)
		if err != nil {
			return nil, false, err
		}
		asked++
		if res.Pool.Most() <= 0 || !res.Poolable() { // a view and caches are of one session
			continue
		}
		want, shape, err := k.poolWant(ctx, res)
		if errors.Is(err, registry.ErrCorrupt) { // which is set aside by now
			k.report(k.m.log, "want "+agent, err, "a claim on a slot of the pool was damaged")
			want, shape, err = k.poolWant(ctx, res)
		}
		if ctx.Err() != nil {
			return nil, false, err
		}
		if err != nil { // the other pools are filled all the same
			failed = append(failed, err)
			k.report(k.m.log, "want "+agent, err, "the pool of an agent is not filled")
			continue
		}
		if want == nil {
			continue
		}
		if have, ok := wants[shape]; ok { // two agents with the same settings share them
			want.demand.Size, want.demand.Max = max(want.demand.Size, have.demand.Size), max(want.demand.Max, have.demand.Max)
			want.demand.Window, want.demand.Memory = max(want.demand.Window, have.demand.Window), max(want.demand.Memory, have.demand.Memory)
			want.agents = append(have.agents, want.agents...)
		}
		wants[shape] = *want
	}
	if asked > 0 && len(failed) == asked { // an engine that is down is no reason to think that nothing is wanted
		return nil, false, errors.Join(failed...)
	}
	return wants, len(failed) > 0, nil
}

// poolWant returns what slots for sandboxes of res are made from, or nil where
// there can be none.
func (k *poolKeeper) poolWant(ctx context.Context, res config.Resolved) (*poolWant, string, error) {
	if !res.Enabled || res.Mode == sandbox.ModeOff {
		return nil, "", nil
	}
	res.Sandboxed = true // mode leaves some sessions outside, not all
	at, err := k.m.gates.enter(ctx, res, outing{}, observe)
	if err != nil {
		return nil, "", err
	}
	if _, ok := asIdentified(at.provider); !ok || at.gate.Place != Sandboxed {
		return nil, "", nil
	}
	w, err := k.m.describer.describe(ctx, res, at.provider, sketch)
	if err != nil {
		return nil, "", err
	}
	shape, err := shapeOf(w)
	if err != nil {
		return nil, "", err
	}
	d := pool.Demand{
		Size: int(res.Pool.Size), Max: int(res.Pool.Max), Window: time.Duration(res.Pool.Window),
		Memory: int64(res.Pool.Memory), Each: w.spec.Resources.Memory, Host: k.m.host.Memory,
	}
	if detached(at.provider) { // the memory of this machine is no bound
		d.Host = 0
	}
	out := &poolWant{shape: shape, demand: d, agents: []string{res.Agent}, res: res, provider: at.provider}
	err = k.fill(ctx, out)
	return out, out.shape, err
}

// startSlot makes a slot. Its record is written first, so that what a crash
// leaves behind is known by name.
func (k *poolKeeper) startSlot(ctx context.Context, from poolWant) error {
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return sandbox.Errorf(sandbox.CodeInternal, "start slot", "no random name: %w", err)
	}
	name := from.res.Docker.ContainerPrefix + "pool-" + hex.EncodeToString(id[:])
	k.mu.Lock()
	k.started = append(slices.DeleteFunc(k.started, func(at time.Time) bool { return k.m.now().Sub(at) > refillRate().Per }), k.m.now())
	k.mu.Unlock()
	turn, err := k.m.locksOf(from.provider.Name()).TryEnsure(name)
	if err != nil {
		return err
	}
	defer turn.Release()
	w, err := k.describeSlot(ctx, from, name)
	if err != nil {
		return err
	}
	shape, err := shapeOf(w)
	if err != nil {
		return err
	}
	if w.from = from.from; w.from != nil {
		shape = filledShape(shape, w.from.ID)
	}
	rec := k.m.builder.newRecord(w.spec, sandbox.Info{ImageID: w.spec.ImageID, ConfigHash: w.hash, CreatedAt: k.m.now()})
	rec.Shape, rec.Agent = shape, from.res.Agent
	k.step("slot record")
	if err := k.m.records.Put(rec); err != nil {
		return err
	}
	k.step("slot workspace")
	if err := k.m.builder.prepareAll(ctx, w, w.spec); err != nil {
		return errors.Join(err, k.clearSlot(context.WithoutCancel(ctx), from.provider, name))
	}
	k.step("slot create")
	if _, err := from.provider.Create(ctx, w.spec); err != nil {
		return errors.Join(err, k.clearSlot(context.WithoutCancel(ctx), from.provider, name))
	}
	k.step("slot open")
	sb, err := from.provider.Open(ctx, w.spec)
	if err != nil {
		return errors.Join(err, k.clearSlot(context.WithoutCancel(ctx), from.provider, name))
	}
	k.step("slot fill")
	if err := k.fillSlot(ctx, w, sb); err != nil {
		return errors.Join(err, sb.Close(), k.clearSlot(context.WithoutCancel(ctx), from.provider, name))
	}
	n := &slot{sb, rec}
	k.standBy(ctx, from, n, w)
	k.put(n)
	k.m.log.WithField("slot", name).Info("a sandbox of the pool is ready")
	return nil
}

// describeSlot is what a slot is made from: what its sandboxes are, without
// what they get late. Nothing is seeded into it.
func (k *poolKeeper) describeSlot(ctx context.Context, from poolWant, name string) (*want, error) {
	at := slotIdentity(name, k.m.instanceOf(from.provider.Name()), "")
	return k.m.describer.describeAt(ctx, from.res, from.provider, at, effects, func(w *want) {
		s := &w.spec
		s.Name, s.Kind = name, sandbox.KindPool
		s.Owner = sandbox.Owner{Instance: s.Owner.Instance}
		w.commands = sandbox.Command{Env: s.Env, Limits: s.Limits}
		s.Limits, w.agentDir = sandbox.Limits{}, ""
		if len(s.OnStart) == 0 {
			s.Env = nil
		}
	})
}

// WatchPool has the pool looked at at once when another program claims a slot or
// makes a sandbox that could have been one, until ctx ends, which is no error.
func (m *Manager) WatchPool(ctx context.Context) error {
	return m.records.WatchAttempts(ctx, m.pool.due)
}
