package manager

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/prune"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// PruneOptions say what to sweep. A nil duration takes the settings'
// default rule; zero switches the rule off.
type PruneOptions struct {
	Tenant     string // only this tenant's; empty is every tenant's
	Idle       *time.Duration
	MaxAge     *time.Duration
	Workspaces bool // also scratch workspaces whose sandbox is gone
	DryRun     bool
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
	// Whoever sweeps by command wants leftovers gone now. A create that is
	// on its way in another process is protected by its lease.
	return m.sweep(ctx, o, time.Nanosecond)
}

// A broom carries what one sweep needs.
type broom struct {
	m     *Manager
	o     PruneOptions
	grace time.Duration
	rules map[string]prune.Rules // by agent
	out   Pruned

	silent []string // providers that do not answer and have nothing known of ours
}

func (m *Manager) sweep(ctx context.Context, o PruneOptions, grace time.Duration) (Pruned, error) {
	b := &broom{m: m, o: o, grace: grace, rules: map[string]prune.Rules{}, out: Pruned{Removed: []Removed{}, Failed: []Failed{}}}
	records, problems, err := m.records.List("")
	if err != nil {
		return b.out, err
	}
	var errs error
	for _, name := range m.providers.Names() {
		p, err := m.providers.Get(name)
		if err != nil {
			return b.out, err
		}
		infos, err := p.List(ctx, sandbox.Filter{Instance: m.state.Instance(), Tenant: o.Tenant})
		if err != nil && !m.matters(name, records, len(problems)) {
			m.log.WithError(err).Debugf("%s does not answer, and nothing of ours is known to be there", name)
			b.silent = append(b.silent, name)
			continue
		}
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		records = append(records, m.rebuild(problems, infos)...)
		errs = errors.Join(errs, b.sweep(ctx, p, records, infos))
	}
	b.out.Kept -= len(b.out.Removed) + len(b.out.Failed)
	if o.Workspaces && errs == nil {
		errs = b.forgotten(ctx)
	}
	return b.out, errs
}

// forgotten removes scratch workspaces that neither a record nor a sandbox
// names any more: those of sandboxes that were swept without theirs. It
// keeps to the default root; a folder that settings name instead may serve
// others too. Whose a forgotten workspace was is not known, so a sweep for
// one tenant leaves them.
func (b *broom) forgotten(ctx context.Context) error {
	if b.o.Tenant != "" {
		return nil
	}
	store, err := workspace.Open(b.m.state.Workspaces())
	if err != nil {
		return err
	}
	entries, err := store.Scratch(ctx)
	if err != nil {
		return err
	}
	for _, e := range entries {
		gone, err := b.forget(ctx, store, e)
		switch {
		case err != nil:
			b.out.Failed = append(b.out.Failed, failed(e.Name, err))
		case gone:
			b.out.Removed = append(b.out.Removed, Removed{Name: e.Name, Reason: "workspace: its sandbox is gone"})
		}
	}
	return nil
}

// forget removes the workspace e unless somebody knows or uses it.
func (b *broom) forget(ctx context.Context, store *workspace.Store, e workspace.Entry) (gone bool, err error) {
	turn, err := b.m.leases.TryEnsure(e.Name)
	if sandbox.CodeOf(err) == sandbox.CodeBusy {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer turn.Release()
	if b.m.leased(e.Name) {
		return false, nil
	}
	for _, kind := range []sandbox.Kind{sandbox.KindSandbox, sandbox.KindBrowser} {
		if _, err := b.m.records.Get(kind, e.Name); !sandbox.IsNotFound(err) {
			return false, nil
		}
	}
	for _, name := range b.m.providers.Names() {
		if slices.Contains(b.silent, name) {
			continue
		}
		p, err := b.m.providers.Get(name)
		if err != nil {
			return false, err
		}
		if _, err := p.Inspect(ctx, e.Name); !sandbox.IsNotFound(err) {
			return false, err
		}
	}
	if b.o.DryRun {
		return true, nil
	}
	return true, store.Remove(ctx, e.Path)
}

// rebuild writes records anew that could not be read, from the labels of
// the sandboxes that they were about. When they were used last is not known;
// now is the safe guess.
func (m *Manager) rebuild(problems []registry.Problem, infos []sandbox.Info) []registry.Record {
	var out []registry.Record
	for _, p := range problems {
		m.log.Warn(p.Err.Error())
		for _, info := range infos {
			if info.Name != p.Name || p.SetAside == "" {
				continue
			}
			rec := m.recordOf(info)
			if err := m.records.Put(rec); err != nil {
				m.log.WithError(err).Warn("cannot rebuild a record")
			}
			out = append(out, rec)
		}
	}
	return out
}

// recordOf is a record made from labels alone.
func (m *Manager) recordOf(info sandbox.Info) registry.Record {
	return registry.Record{
		Name: info.Name, Kind: info.Kind, Provider: info.Provider, Instance: info.Owner.Instance,
		Tenant: info.Owner.Tenant, Agent: info.Owner.Agent, Session: info.Owner.Session, Scope: info.Owner.Scope, ScopeKey: info.Owner.ScopeKey,
		Image: info.Image, ImageID: info.ImageID, ConfigHash: info.ConfigHash, CreatedAt: info.CreatedAt, LastUsedAt: m.now(),
	}
}

// sweep plans for each agent's sandboxes by that agent's rules, and for
// those that no record names, and carries the plans out.
func (b *broom) sweep(ctx context.Context, p sandbox.Provider, records []registry.Record, infos []sandbox.Info) error {
	groups := map[string][]registry.Record{}
	for _, r := range records {
		if r.Provider == p.Name() && (b.o.Tenant == "" || r.Tenant == b.o.Tenant) {
			groups[r.Agent] = append(groups[r.Agent], r)
			b.out.Kept++
		}
	}
	byName := make(map[string]sandbox.Info, len(infos))
	for _, i := range infos {
		byName[i.Name] = i
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
	return nil
}

func (b *broom) plan(p sandbox.Provider, rules prune.Rules, infos []sandbox.Info, records []registry.Record) []prune.Removal {
	return prune.Plan(prune.Input{
		Instance: b.m.state.Instance(), Provider: p.Name(), Known: true, Live: infos, Records: records,
		Rules: rules, Leased: b.m.leased, Now: b.m.now(),
	})
}

// rulesOf are the rules of an agent's settings with the options laid over.
func (b *broom) rulesOf(agent string) (prune.Rules, error) {
	if r, ok := b.rules[agent]; ok {
		return r, nil
	}
	res, err := b.m.resolveAgent(agent)
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
func (m *Manager) resolveAgent(agent string) (config.Resolved, error) {
	return config.Resolve(m.current(), config.Who{Agent: agent, Session: config.DefaultSession}, nil)
}

// carryOut applies a plan and notes the result.
func (b *broom) carryOut(ctx context.Context, p sandbox.Provider, plan []prune.Removal) {
	if b.o.DryRun {
		for _, r := range plan {
			b.out.Removed = append(b.out.Removed, Removed{Name: r.Name, Reason: reasonOf(r)})
		}
		return
	}
	report := prune.Apply(ctx, plan, prune.RemoverFunc(func(ctx context.Context, r prune.Removal) error {
		return b.m.sweepOne(ctx, p, r, b.o.Workspaces)
	}), b.m.leases, b.m.records)
	for _, r := range report.Removed {
		b.out.Removed = append(b.out.Removed, Removed{Name: r.Name, Reason: reasonOf(r)})
	}
	for _, f := range report.Failed {
		b.out.Failed = append(b.out.Failed, failed(f.Name, f.Err))
	}
}

func reasonOf(r prune.Removal) string { return string(r.Reason) + ": " + r.Detail }

// sweepOne removes one sandbox with what belongs to it on the host.
func (m *Manager) sweepOne(ctx context.Context, p sandbox.Provider, r prune.Removal, workspaces bool) error {
	m.handles.drop(r.Name)
	if r.Reason != prune.Missing {
		if err := p.Remove(ctx, r.Name); err != nil {
			return err
		}
	}
	if err := m.state.RemoveSocketDir(r.Name); err != nil {
		return err
	}
	if workspaces && r.Record != nil {
		return m.removeScratch(ctx, r.Record.Agent, r.Name, r.Record.Workspace)
	}
	return nil
}

// removeScratch removes the scratch workspace of the sandbox name. Any other
// folder, an agent's own or another sandbox's above all, is left alone
// whatever a record says.
func (m *Manager) removeScratch(ctx context.Context, agent, name, path string) error {
	res, err := m.resolveAgent(agent)
	if err != nil {
		return err
	}
	store, err := m.workspaces(res)
	if err != nil {
		return err
	}
	own, err := store.Path(name)
	if err != nil || own != path {
		return err
	}
	return store.Remove(ctx, path)
}

func (m *Manager) leased(name string) bool {
	held, err := m.leases.Held(name)
	return held || err != nil
}

// sweepPatience bounds what a sweep on use may add to a command; what it
// does not reach is met by the next one.
const sweepPatience = time.Second

// pruneIfDue sweeps on use, at most as often as settings say. It does not
// fail the command: what goes wrong is logged.
func (m *Manager) pruneIfDue(ctx context.Context, w *want) {
	due, err := prune.Due(m.state.PrunedAt(), time.Duration(w.res.Prune.Every), m.now())
	if err != nil {
		m.log.WithError(err).Warn("cannot tell when the last sweep was")
	}
	if !due {
		return
	}
	ctx, done := context.WithTimeout(ctx, sweepPatience)
	defer done()
	out, err := m.sweep(ctx, PruneOptions{}, prune.OrphanGrace)
	if err != nil {
		m.log.WithError(err).Warn("prune")
	}
	for _, r := range out.Removed {
		m.log.WithField("sandbox", r.Name).Infof("pruned: %s", r.Reason)
	}
	for _, f := range out.Failed {
		if ctx.Err() == nil {
			m.log.WithField("sandbox", f.Name).Warnf("cannot prune: %s", f.Error)
		}
	}
}
