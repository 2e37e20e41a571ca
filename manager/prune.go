package manager

import (
	"context"
	"errors"
	"path/filepath"
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

// Prune sweeps every provider's sandboxes of this instance. A provider that
// does not answer fails the sweep of its own, and only that.
func (m *Manager) Prune(ctx context.Context, o PruneOptions) (Pruned, error) {
	rules, err := m.pruneRules(o)
	if err != nil {
		return Pruned{}, err
	}
	return m.sweep(ctx, rules, o)
}

// pruneRules are the defaults of the settings with the options laid over.
// Whoever sweeps by command wants leftovers gone now: a create that is on
// its way in another process is protected by its lease, not by a grace.
func (m *Manager) pruneRules(o PruneOptions) (prune.Rules, error) {
	res, err := config.Resolve(m.settings, config.Who{Agent: config.DefaultAgent, Session: config.DefaultSession}, nil)
	if err != nil {
		return prune.Rules{}, err
	}
	rules := prune.Rules{Idle: time.Duration(res.Prune.Idle), MaxAge: time.Duration(res.Prune.MaxAge), Grace: time.Nanosecond}
	if o.Idle != nil {
		rules.Idle = *o.Idle
	}
	if o.MaxAge != nil {
		rules.MaxAge = *o.MaxAge
	}
	return rules, nil
}

func (m *Manager) sweep(ctx context.Context, rules prune.Rules, o PruneOptions) (Pruned, error) {
	out := Pruned{Removed: []Removed{}, Failed: []Failed{}}
	records, err := m.readRecords()
	if err != nil {
		return out, err
	}
	var errs error
	total := len(records)
	for _, name := range m.providers.Names() {
		p, err := m.providers.Get(name)
		if err != nil {
			return out, err
		}
		infos, err := p.List(ctx, sandbox.Filter{Instance: m.state.Instance()})
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		total += unrecorded(infos, records)
		plan := prune.Plan(prune.Input{
			Instance: m.state.Instance(), Provider: name, Known: true, Live: infos, Records: records,
			Rules: rules, Leased: m.leased, Now: m.now(),
		})
		m.carryOut(ctx, p, plan, o, &out)
	}
	out.Kept = total - len(out.Removed) - len(out.Failed)
	return out, errs
}

// carryOut applies one provider's plan and adds the result to out.
func (m *Manager) carryOut(ctx context.Context, p sandbox.Provider, plan []prune.Removal, o PruneOptions, out *Pruned) {
	if o.DryRun {
		for _, r := range plan {
			out.Removed = append(out.Removed, Removed{Name: r.Name, Reason: reasonOf(r)})
		}
		return
	}
	report := prune.Apply(ctx, plan, prune.RemoverFunc(func(ctx context.Context, r prune.Removal) error {
		return m.sweepOne(ctx, p, r, o.Workspaces)
	}), m.leases, m.records)
	for _, r := range report.Removed {
		out.Removed = append(out.Removed, Removed{Name: r.Name, Reason: reasonOf(r)})
	}
	for _, f := range report.Failed {
		out.Failed = append(out.Failed, failed(f.Name, f.Err))
	}
}

func reasonOf(r prune.Removal) string { return string(r.Reason) + ": " + r.Detail }

// sweepOne removes one sandbox with what belongs to it on the host.
func (m *Manager) sweepOne(ctx context.Context, p sandbox.Provider, r prune.Removal, workspaces bool) error {
	m.handles.drop(r.Name, nil)
	if r.Reason != prune.Missing {
		if err := p.Remove(ctx, r.Name); err != nil {
			return err
		}
	}
	if err := m.state.RemoveSocketDir(r.Name); err != nil {
		return err
	}
	if workspaces && r.Record != nil {
		return m.removeScratch(ctx, r.Record.Workspace)
	}
	return nil
}

// removeScratch removes a scratch workspace. A folder that is not ours, an
// agent's own above all, is left alone.
func (m *Manager) removeScratch(ctx context.Context, path string) error {
	if path == "" {
		return nil
	}
	store, err := workspace.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	err = store.Remove(ctx, path)
	if sandbox.CodeOf(err) == sandbox.CodeCapabilityBlocked {
		return nil
	}
	return err
}

func (m *Manager) leased(name string) bool {
	held, err := m.leases.Held(name)
	return held || err != nil
}

// unrecorded counts the live sandboxes that no record names.
func unrecorded(infos []sandbox.Info, records []registry.Record) int {
	known := make(map[string]bool, len(records))
	for _, r := range records {
		known[r.Name] = true
	}
	n := 0
	for _, info := range infos {
		if !known[info.Name] {
			n++
		}
	}
	return n
}

// pruneIfDue sweeps on use, at most as often as settings say. It neither
// fails nor delays the command: what goes wrong is logged.
func (m *Manager) pruneIfDue(ctx context.Context, w *want) {
	due, err := prune.Due(filepath.Join(m.state.Path(), "pruned-at"), time.Duration(w.res.Prune.Every), m.now())
	if err != nil {
		m.log.WithError(err).Warn("cannot tell when the last sweep was")
	}
	if !due {
		return
	}
	rules := prune.Rules{Idle: time.Duration(w.res.Prune.Idle), MaxAge: time.Duration(w.res.Prune.MaxAge)}
	out, err := m.sweep(ctx, rules, PruneOptions{})
	if err != nil {
		m.log.WithError(err).Warn("prune")
	}
	for _, r := range out.Removed {
		m.log.WithField("sandbox", r.Name).Infof("pruned: %s", r.Reason)
	}
	for _, f := range out.Failed {
		m.log.WithField("sandbox", f.Name).Warnf("cannot prune: %s", f.Error)
	}
}
