package manager

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/prune"
	"github.com/bulkhead-dev/sandbox/registry"
)

// RemoveOptions say how a sandbox is removed.
type RemoveOptions struct {
	Force     bool // also while something runs in it, which ends then
	Keep      bool // what it was created with, for the one that is made next
	Workspace bool // its scratch workspace too; any other workspace is never removed here
}

// Remove removes one sandbox or browser. Without Force one in use is
// [sandbox.CodeBusy].
func (m *Manager) Remove(ctx context.Context, row Row, o RemoveOptions) error {
	return m.removeIf(ctx, row, o, nil)
}

// removeIf is Remove of a sandbox for whose record holds returns true while the ensure
// lock is held; otherwise the error is errNotIdle. With nil there is no condition.
func (m *Manager) removeIf(ctx context.Context, row Row, o RemoveOptions, holds func(*registry.Record) bool) error {
	if row.Instance != "" && !m.ours(row.Provider, row.Instance) {
		return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "remove", Resource: row.Name, Message: "the sandbox belongs to another instance"}
	}
	p, err := m.providers.Get(row.Provider)
	if err != nil {
		return err
	}
	turn, err := m.locksOf(row.Provider).Ensure(ctx, row.Name)
	if err != nil {
		return err
	}
	defer turn.Release()
	if holds != nil {
		rec, err := m.records.Of(row.Provider).Look(row.Kind, row.Name)
		if err != nil {
			return err
		}
		if !holds(&rec) {
			return errNotIdle
		}
	}
	if o.Force {
		err = m.builder.removeNow(ctx, p, row.Kind, row.Name)
	} else {
		err = m.builder.removeLocked(ctx, p, row.Kind, row.Name)
	}
	if err == nil && row.Kind == sandbox.KindSandbox && !o.Keep {
		if there, lookErr := m.creations.recorded(row.Name); lookErr != nil || !there {
			err = errors.Join(lookErr, m.creations.forget(row.Provider, row.Name))
		}
	}
	if err != nil || !o.Workspace || row.Workspace == "" || row.Kind != sandbox.KindSandbox {
		return err
	}
	_, err = m.pruner.removeScratch(ctx, row.Agent, row.Name, row.Workspace)
	return err
}

// Measure is [Manager.Stats] for one sandbox, with the command that runs in it
// where the provider says that.
func (m *Manager) Measure(ctx context.Context, row Row) Stat {
	s := m.lister.stat(ctx, row)
	if s.Error != "" || row.Status != sandbox.StatusRunning && row.Status != sandbox.StatusPaused {
		return s
	}
	if p, err := m.providers.Get(row.Provider); err == nil {
		if c, ok := p.(commander); ok {
			s.Command, _ = c.CommandOf(ctx, row.Name) // the figures are known without
		}
	}
	return s
}

// Renew removes the sandbox of row, with whatever runs in it, and makes it anew by
// the settings as they are now and by what it was created with. Its workspace stays.
func (m *Manager) Renew(ctx context.Context, row Row) error {
	if row.Kind != sandbox.KindSandbox {
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "recreate", Resource: row.Name, Message: "this is no sandbox for commands", Hint: "remove it; it comes up again with its next use"}
	}
	if err := m.Remove(ctx, row, RemoveOptions{Force: true, Keep: true}); err != nil {
		return err
	}
	p, err := m.Ready(ctx, Request{
		Who:   row.Who(),
		Flags: config.Overrides{Provider: row.Provider}.Layer(),
	})
	if err == nil && p.Place != Sandboxed {
		err = &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "recreate", Resource: row.Name, Message: "this session has no sandbox any more: " + p.Reason}
	}
	return err
}

// Figures is [Manager.Measure] for many sandboxes, without the sizes of workspaces,
// whose files would have to be counted. What cannot be measured has no figures.
func (m *Manager) Figures(ctx context.Context, rows []Row) []Stat {
	out := make([]Stat, len(rows))
	var g errgroup.Group
	g.SetLimit(statsAtOnce)
	for i, r := range rows {
		out[i] = Stat{Name: r.Name, Provider: r.Provider, Tenant: r.Tenant, ScopeKey: r.ScopeKey, Status: r.Status}
		if r.Status != sandbox.StatusRunning {
			continue
		}
		g.Go(func() error {
			m.lister.figures(ctx, &out[i])
			return nil
		})
	}
	_ = g.Wait() // of functions that return nil
	return out
}

// Sweep is [Manager.Prune] by the rules of the settings, for callers in the
// background: it leaves alone what another process may be about to make.
func (m *Manager) Sweep(ctx context.Context) (Pruned, error) {
	return m.pruner.sweep(ctx, PruneOptions{}, prune.OrphanGrace)
}
