package manager

import (
	"context"
	"errors"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/prune"
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
	if o.Force {
		err = m.builder.removeNow(ctx, p, row.Kind, row.Name)
	} else {
		err = m.builder.removeLocked(ctx, p, row.Kind, row.Name)
	}
	if err == nil && row.Kind == sandbox.KindSandbox && !o.Keep {
		if there, lookErr := m.creations.recorded(row.Name); lookErr != nil || !there {
			err = errors.Join(lookErr, m.records.Of(row.Provider).DeleteCreation(row.Name))
		}
	}
	if err != nil || !o.Workspace || row.Workspace == "" || row.Kind != sandbox.KindSandbox {
		return err
	}
	_, err = m.pruner.removeScratch(ctx, row.Agent, row.Name, row.Workspace)
	return err
}

// Measure is [Manager.Stats] for one sandbox.
func (m *Manager) Measure(ctx context.Context, row Row) Stat { return m.lister.stat(ctx, row) }

// Sweep is [Manager.Prune] by the rules of the settings, for callers in the
// background: it leaves alone what another process may be about to make.
func (m *Manager) Sweep(ctx context.Context) (Pruned, error) {
	return m.pruner.sweep(ctx, PruneOptions{}, prune.OrphanGrace)
}
