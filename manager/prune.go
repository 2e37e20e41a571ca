package manager

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/prune"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// A pruner removes sandboxes that are old or unused, and what is left of others.
type pruner struct{ m *Manager }

// PruneOptions say what to sweep. A nil duration takes the settings'
// default rule; zero switches the rule off.
type PruneOptions struct {
	Tenant     string // only this tenant's; empty is every tenant's
	Idle       *time.Duration
	MaxAge     *time.Duration
	Workspaces bool // also scratch workspaces whose sandbox is gone
	Caches     bool // also caches of package managers that no sandbox has
	DryRun     bool

	// Progress, if it is not nil, is called with how many removals were planned and
	// how many were carried out since the call before. Calls overlap.
	Progress func(planned, done int)
}

// Pruned is what prune did, or with DryRun would do.
type Pruned struct {
	Removed []Removed `json:"removed"`
	Kept    int       `json:"kept"`
	Failed  []Failed  `json:"failed"`
}

// Prune sweeps the sandboxes of this instance, each by the rules of its own
// agent. A provider that does not answer fails the sweep of its own, and
// only that.
func (m *Manager) Prune(ctx context.Context, o PruneOptions) (Pruned, error) {
	// A sweep by command removes leftovers of any age. A create that is
	// under way in another process is protected by its lease.
	var expired []string
	var late error
	if !o.DryRun {
		expired, _, late = m.Expire(ctx)
	}
	out, err := m.pruner.sweep(ctx, o, time.Nanosecond)
	err = errors.Join(late, err)
	for _, name := range expired {
		if there, err := m.creations.recorded(name); there || err != nil {
			continue // it was paused
		}
		out.Removed = append(out.Removed, Removed{Name: name, Reason: string(prune.Expired) + ": its timeout is over"})
	}
	if !o.DryRun {
		err = errors.Join(err, m.pruner.sweepHost(ctx), m.pruner.sweepTenants(ctx, o))
	}
	return out, err
}

// sweepHost removes what programs that were killed have left on the host.
func (u *pruner) sweepHost(ctx context.Context) error {
	var errs error
	for _, name := range u.m.providers.Names() {
		p, err := u.m.providers.Get(name)
		if err != nil {
			return err
		}
		if s, able := p.(provider.Sweeper); able {
			errs = errors.Join(errs, s.Sweep(ctx))
		}
	}
	return errs
}

// sweepTenants removes what providers keep for tenants that have had no sandbox for as
// long as a sandbox of the default agent may be idle.
func (u *pruner) sweepTenants(ctx context.Context, o PruneOptions) error {
	if o.Tenant != "" {
		return nil // it is no tenant's to say when another is idle, nor when it is gone itself
	}
	var errs error
	for _, name := range u.m.providers.Names() {
		p, err := u.m.providers.Get(name)
		if err != nil {
			return err
		}
		s, able := p.(provider.TenantSweeper)
		if !able {
			continue
		}
		res, err := u.resolveAgent(config.DefaultAgent)
		if err != nil {
			return err
		}
		idle := time.Duration(res.Prune.Idle)
		if o.Idle != nil {
			idle = *o.Idle
		}
		removed, err := s.SweepTenants(ctx, idle)
		for _, what := range removed {
			u.m.log.WithField("provider", name).Infof("removed the namespace %s, whose tenant has had no sandbox for %v", what, idle)
		}
		errs = errors.Join(errs, err)
	}
	return errs
}

// A sweeper carries what one sweep needs.
type sweeper struct {
	m     *Manager
	o     PruneOptions
	grace time.Duration
	rules map[string]prune.Rules // by agent
	homes homeStores
	out   Pruned

	both   map[string]bool // names that sandboxes of several providers have
	lost   sync.Map        // by name: the text of what went with a private view; several are removed at a time
	silent []string        // providers that do not answer and have nothing known of ours
}

func (u *pruner) sweep(ctx context.Context, o PruneOptions, grace time.Duration) (Pruned, error) {
	b := &sweeper{m: u.m, o: o, grace: grace, rules: map[string]prune.Rules{}, homes: u.homeStoresOnce(), out: Pruned{Removed: []Removed{}, Failed: []Failed{}}}
	records, problems, err := u.m.records.List("")
	silent, ok := unanswered(err)
	if !ok {
		return b.out, err
	}
	b.both = shared(records)
	errs := err
	for _, name := range u.m.providers.Names() {
		if silent[name] != nil {
			continue // all of its sandboxes would look as if they were not recorded
		}
		p, err := u.m.providers.Get(name)
		if err != nil {
			return b.out, err
		}
		infos, err := p.List(ctx, sandbox.Filter{Instance: u.m.instanceOf(name), Tenant: o.Tenant})
		if err != nil && !u.m.lister.matters(name, records, len(problems)) {
			u.m.log.WithError(err).Debugf("%s does not answer, and nothing of ours is known to be there", name)
			b.silent = append(b.silent, name)
			continue
		}
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		rebuilt := u.rebuild(problems, infos)
		records = append(records, rebuilt...)
		infos, n := unreadable(problems, rebuilt, infos)
		b.out.Kept += n
		errs = errors.Join(errs, b.sweep(ctx, p, records, infos))
	}
	b.out.Kept -= len(b.out.Removed) + len(b.out.Failed)
	if errs == nil {
		errs = errors.Join(b.forgottenHomes(ctx), b.forgottenMapped(ctx))
	}
	if o.Workspaces && errs == nil {
		errs = b.forgotten(ctx)
	}
	if o.Caches && errs == nil {
		errs = b.pruneCaches(ctx)
	}
	return b.out, errs
}

// unreadable leaves out the sandboxes that have a record which cannot be read and was
// not rebuilt, one of a newer version for example: nothing says what they may be
// removed for, and without a record they would count as orphans. n is how many it are.
func unreadable(problems []registry.Problem, rebuilt []registry.Record, infos []sandbox.Info) (out []sandbox.Info, n int) {
	has := map[string]bool{}
	for _, p := range problems {
		has[p.Name] = true
	}
	for _, r := range rebuilt {
		delete(has, r.Name)
	}
	out = slices.DeleteFunc(slices.Clone(infos), func(i sandbox.Info) bool { return has[i.Name] })
	return out, len(infos) - len(out)
}

// shared are the names that several records have.
func shared(records []registry.Record) map[string]bool {
	out, seen := map[string]bool{}, map[string]bool{}
	for _, r := range records {
		out[r.Name] = out[r.Name] || seen[r.Name]
		seen[r.Name] = true
	}
	return out
}

// rebuild writes records anew that could not be read, from the labels of
// the sandboxes that they were about. When they were used last is not known;
// now is the safe guess.
func (u *pruner) rebuild(problems []registry.Problem, infos []sandbox.Info) []registry.Record {
	var out []registry.Record
	for _, p := range problems {
		u.m.log.Warn(p.Err.Error())
		for _, info := range infos {
			if info.Name != p.Name || p.SetAside == "" {
				continue
			}
			rec, err := u.rebuildOne(info)
			if err != nil {
				u.m.log.WithError(err).Warn("cannot rebuild a record")
			}
			out = append(out, rec)
		}
	}
	return out
}

// rebuildOne records info unless a command that uses the sandbox has recorded it
// since, or does at present. It returns what is on record, as far as that is known.
func (u *pruner) rebuildOne(info sandbox.Info) (registry.Record, error) {
	rec, records := u.recordOf(info), u.m.records.Of(info.Provider)
	making, err := u.m.locksOf(info.Provider).TryEnsure(info.Name)
	if sandbox.CodeOf(err) == sandbox.CodeBusy {
		return rec, nil
	}
	if err != nil {
		return rec, err
	}
	defer making.Release()
	if have, err := records.Look(info.Kind, info.Name); !sandbox.IsNotFound(err) {
		if err != nil {
			return rec, err
		}
		return have, nil
	}
	return rec, u.m.records.Put(rec)
}

// recordOf is a record made from labels alone.
func (u *pruner) recordOf(info sandbox.Info) registry.Record {
	return registry.Record{
		Name: info.Name, Kind: info.Kind, Provider: info.Provider, Instance: info.Owner.Instance,
		Tenant: info.Owner.Tenant, Agent: info.Owner.Agent, Session: info.Owner.Session, Scope: info.Owner.Scope, ScopeKey: info.Owner.ScopeKey,
		Image: info.Image, ImageID: info.ImageID, ConfigHash: info.ConfigHash, CreatedAt: info.CreatedAt, LastUsedAt: u.m.now(),
	}
}

// sweep plans for each agent's sandboxes by that agent's rules, and for
// those that no record names, and carries the plans out.
func (b *sweeper) sweep(ctx context.Context, p sandbox.Provider, records []registry.Record, infos []sandbox.Info) error {
	groups := map[string][]registry.Record{}
	var slots []registry.Record
	for _, r := range records {
		switch {
		case r.Provider != p.Name() || b.o.Tenant != "" && r.Tenant != b.o.Tenant:
			continue
		case r.Kind == sandbox.KindPool:
			slots = append(slots, r)
		default:
			groups[r.Agent] = append(groups[r.Agent], r)
		}
		b.out.Kept++
	}
	byName := make(map[string]sandbox.Info, len(infos))
	for _, i := range infos {
		byName[i.Name] = i
	}
	plan, slotsErr := b.planSlots(ctx, p, slots, byName)
	b.carryOut(ctx, p, plan)
	for _, r := range slots {
		delete(byName, r.Name)
	}
	for agent, group := range groups {
		rules, err := b.rulesOf(agent)
		if err != nil {
			return err
		}
		var mine []sandbox.Info
		for _, r := range group {
			if i, ok := byName[r.Name]; ok {
				mine = append(mine, i)
				delete(byName, r.Name)
			}
		}
		b.carryOut(ctx, p, b.plan(p, rules, mine, group))
	}
	orphans := slices.Collect(maps.Values(byName))
	b.out.Kept += len(orphans)
	// An orphan keeps the full grace: nothing but its age tells that it is one.
	b.carryOut(ctx, p, b.plan(p, prune.Rules{Grace: prune.OrphanGrace}, orphans, nil))
	return slotsErr
}

func (b *sweeper) plan(p sandbox.Provider, rules prune.Rules, infos []sandbox.Info, records []registry.Record) []prune.Removal {
	return prune.Plan(prune.Input{
		Instance: b.m.instanceOf(p.Name()), Provider: p.Name(), Known: true, Live: infos, Records: records,
		Rules: rules, Leased: b.m.pruner.leased(p.Name()), Now: b.m.now(),
	})
}

// rulesOf are the rules of an agent's settings with the options laid over.
func (b *sweeper) rulesOf(agent string) (prune.Rules, error) {
	if r, ok := b.rules[agent]; ok {
		return r, nil
	}
	res, err := b.m.pruner.resolveAgent(agent)
	if err != nil {
		return prune.Rules{}, err
	}
	r := prune.Rules{Idle: time.Duration(res.Prune.Idle), MaxAge: time.Duration(res.Prune.MaxAge), Grace: b.grace}
	if b.o.Idle != nil {
		r.Idle = *b.o.Idle
	}
	if b.o.MaxAge != nil {
		r.MaxAge = *b.o.MaxAge
	}
	b.rules[agent] = r
	return r, nil
}

// resolveAgent resolves the settings of an agent whatever its session.
func (u *pruner) resolveAgent(agent string) (config.Resolved, error) {
	return config.Resolve(u.m.current(), config.Who{Agent: agent, Session: config.DefaultSession}, nil)
}

// carryOut applies a plan and notes the result.
func (b *sweeper) carryOut(ctx context.Context, p sandbox.Provider, plan []prune.Removal) {
	if b.o.DryRun {
		for _, r := range plan {
			if b.o.Workspaces && r.Record != nil && r.Kind == sandbox.KindSandbox {
				if store, hostIdentity, err := b.m.pruner.placeOf(r.Record.Agent, r.Name); err == nil {
					b.lost.Store(r.Name, b.m.pruner.wouldLose(ctx, store.Root(), hostIdentity))
				}
			}
			b.out.Removed = append(b.out.Removed, b.removed(p, r))
		}
		return
	}
	if b.o.Progress != nil {
		b.o.Progress(len(plan), 0)
	}
	report := prune.Apply(ctx, plan, prune.RemoverFunc(func(ctx context.Context, r prune.Removal) error {
		if b.o.Progress != nil {
			defer b.o.Progress(0, 1)
		}
		return b.sweepOne(ctx, p, r)
	}), b.m.locksOf(p.Name()), b.m.records.Of(p.Name()))
	for _, r := range report.Removed {
		b.out.Removed = append(b.out.Removed, b.removed(p, r))
	}
	for _, f := range report.Failed {
		b.out.Failed = append(b.out.Failed, failed(f.Name, f.Err))
	}
}

// removed returns the report of a removal by p.
func (b *sweeper) removed(p sandbox.Provider, r prune.Removal) Removed {
	lost, _ := b.lost.Load(r.Name)
	text, _ := lost.(string)
	out := Removed{Name: r.Name, Reason: withLost(reasonOf(r), text)}
	if b.both[r.Name] {
		out.Provider = p.Name()
	}
	return out
}

func reasonOf(r prune.Removal) string { return string(r.Reason) + ": " + r.Detail }

// still returns [prune.ErrSpared] where the reason for the removal was read from a list
// and no longer holds: the sandbox was being made when the list was read, or the list
// is behind.
func (b *sweeper) still(ctx context.Context, p sandbox.Provider, r prune.Removal) error {
	if r.Kind == sandbox.KindPool {
		// What a claimed slot is, its claim says.
		if _, claimed, err := b.m.records.Of(p.Name()).ClaimOn(r.Name); err != nil || claimed {
			return cmp.Or(err, prune.ErrSpared)
		}
	}
	if r.Reason != prune.Missing && r.Reason != prune.Remnant && r.Reason != prune.NeverStarted {
		return nil
	}
	info, err := p.Inspect(ctx, r.Name)
	switch {
	case sandbox.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case info.Owner.Instance != b.m.instanceOf(p.Name()):
		return nil // another's, under the name of ours
	case r.Reason == prune.NeverStarted && info.Status == sandbox.StatusStopped && info.StartedAt.IsZero():
		return nil
	case r.Reason != prune.NeverStarted && info.Status == sandbox.StatusMissing:
		return nil
	}
	return prune.ErrSpared
}

// sweepOne removes one sandbox with what belongs to it on the host. It returns
// [prune.ErrSpared] where the sandbox is there although the plan says that it is not.
func (b *sweeper) sweepOne(ctx context.Context, p sandbox.Provider, r prune.Removal) error {
	m := b.m
	if err := b.still(ctx, p, r); err != nil {
		return err
	}
	if r.Kind == sandbox.KindPool {
		return m.pool.removeSlot(ctx, p, r.Name)
	}
	m.handles.drop(r.Name)
	// The caller holds the exclusive lease: the claim does not change.
	claim, claimed, err := m.records.Of(p.Name()).ClaimOf(r.Name)
	if err != nil {
		return err
	}
	hostIdentity := r.Name
	if claimed {
		hostIdentity = claim.Slot
	}
	if r.Reason != prune.Missing {
		if err := p.Remove(ctx, r.Name); err != nil {
			return err
		}
	}
	if p.Features().Images { // other providers have homes in memory
		if err := b.homes.remove(ctx, hostIdentity); err != nil {
			return err
		}
	}
	if m.builder.another(p, r.Kind, r.Name) {
		return nil // what is on the host belongs to that one, too
	}
	if err := errors.Join(m.state.RemoveSocketDir(hostIdentity), workspace.Unmap(filepath.Join(m.state.Mapped(), hostIdentity))); err != nil {
		return err
	}
	if r.Kind == sandbox.KindSandbox {
		if err := m.creations.forget(p.Name(), r.Name); err != nil {
			return err
		}
	}
	if b.o.Workspaces && r.Record != nil {
		lost, err := m.pruner.removeScratch(ctx, r.Record.Agent, r.Name, r.Record.Workspace)
		b.lost.Store(r.Name, lost)
		if err != nil {
			return err
		}
	}
	if !claimed {
		return nil
	}
	return m.pool.leaveIdentity(p.Name(), r.Name)
}

// removeScratch removes the scratch workspace of the sandbox name, and its private
// view. Any other folder, an agent's own or another sandbox's above all, is left
// alone whatever a record says. It returns what was changed in the private view
// and not applied, for people, or "".
func (u *pruner) removeScratch(ctx context.Context, agent, name, path string) (lost string, err error) {
	store, hostIdentity, err := u.placeOf(agent, name)
	if err != nil {
		return "", err
	}
	own, err := store.Path(hostIdentity)
	if err != nil {
		return "", err
	}
	if lost, err = u.dropView(ctx, store.Root(), hostIdentity); err != nil || own != path {
		return lost, err
	}
	if err := u.m.checkpoints.forget(ctx, path); err != nil {
		return lost, err
	}
	if err := store.Remove(ctx, path); err != nil {
		return lost, err
	}
	return lost, u.m.pool.leaveIdentity("", name) // a workspace of this machine
}

// removeUnused removes the scratch workspace of a session without a sandbox, whose use
// l has ended, unless another command of the session uses it: that one is the next to
// remove it, where it is to be removed.
func (u *pruner) removeUnused(ctx context.Context, l *acquired) error {
	unused, err := u.m.leases.TryExclusive(l.name())
	if sandbox.CodeOf(err) == sandbox.CodeBusy {
		return nil
	}
	if err != nil {
		return err
	}
	defer unused.Release()
	_, err = u.removeScratch(ctx, l.spec.Owner.Agent, l.name(), workspaceOf(l.spec))
	return err
}

// placeOf returns where the scratch workspace of the sandbox name lies, and by
// which name it is known there.
func (u *pruner) placeOf(agent, name string) (store *workspace.Store, hostIdentity string, err error) {
	res, err := u.resolveAgent(agent)
	if err != nil {
		return nil, "", err
	}
	if store, err = u.m.describer.workspaces(res); err != nil {
		return nil, "", err
	}
	hostIdentity, err = home(u.m.records, name)
	return store, hostIdentity, err
}

// leased returns a function that reports whether a sandbox of the provider is used,
// also where that is not known.
func (u *pruner) leased(provider string) func(name string) bool {
	return func(name string) bool {
		held, err := u.m.locksOf(provider).Held(name)
		return held || err != nil
	}
}

// sweepPatience bounds what a sweep on use may add to a command; what it
// does not reach is met by the next one.
const sweepPatience = time.Second

// pruneIfDue sweeps on use, at most as often as settings say. It does not
// fail the command: what goes wrong is logged.
func (u *pruner) pruneIfDue(ctx context.Context, w *want) {
	stamp, every, now := u.m.state.PrunedAt(), time.Duration(w.res.Prune.Every), u.m.now()
	due, err := prune.Due(stamp, every, now)
	if err != nil {
		u.m.log.WithError(err).Warn("cannot tell when the last sweep was")
	}
	if !due {
		return
	}
	short, done := context.WithTimeout(ctx, sweepPatience)
	defer done()
	out, err := u.sweep(short, PruneOptions{}, prune.OrphanGrace)
	for _, r := range out.Removed {
		u.m.log.WithField("sandbox", r.Name).Infof("pruned: %s", r.Reason)
	}
	switch whole := err == nil && len(out.Failed) == 0; {
	case ctx.Err() != nil && !whole:
		err = prune.Forgo(stamp, now) // the caller has gone, who says nothing of the engine
	case short.Err() != nil && !whole:
		err = u.tellPutOff(stamp, every, err)
	default:
		if err != nil {
			u.m.log.WithError(err).Warn("prune")
		}
		for _, f := range out.Failed {
			u.m.log.WithField("sandbox", f.Name).Warnf("cannot prune: %s", f.Error)
		}
		err = prune.Finished(stamp)
	}
	if err != nil {
		u.m.log.WithError(err).Warn("cannot note what came of the sweep")
	}
}

// tellPutOff logs that a sweep was given up, which is nothing that is wrong with
// the command, but is something wrong with an engine of which no sweep comes to
// its end.
func (u *pruner) tellPutOff(stamp string, every time.Duration, cause error) error {
	again, err := prune.GaveUp(stamp)
	log := u.m.log
	if cause != nil {
		log = log.WithError(cause)
	}
	if again {
		log.Warnf("the sweep was given up after %v, as the one before was; \"sandbox prune\" takes the time that it needs", sweepPatience)
	} else {
		log.Infof("the sweep was given up after %v; the next one is due in %v", sweepPatience, every)
	}
	return err
}
