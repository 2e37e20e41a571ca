//go:build !sandbox_front

package main

import (
	"cmp"
	"context"
	"io"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Checkpoints implements cli.Backend.
func (backend) Checkpoints(o cli.Options) (cli.CheckpointStore, func(), error) {
	if o.Host.Remote() {
		return remoteCheckpoints(o.Host)
	}
	m, release, err := ownManager(o)
	if err != nil {
		return nil, nil, err
	}
	return ownCheckpoints{m}, release, nil
}

// Changes implements cli.Backend.
func (backend) Changes(o cli.Options) (cli.ChangeStore, func(), error) {
	if o.Host.Remote() {
		return remoteChanges(o.Host)
	}
	m, release, err := ownManager(o)
	if err != nil {
		return nil, nil, err
	}
	return m, release, nil
}

// ownCheckpoints are those of sandboxes of this machine.
type ownCheckpoints struct{ m *manager.Manager }

// Create implements cli.CheckpointStore.
func (k ownCheckpoints) Create(ctx context.Context, r manager.Request, name string, progress func(entries, bytes int64)) (api.Checkpoint, error) {
	made, err := k.m.Checkpoint(ctx, r, manager.CheckpointOptions{Name: name, Progress: progress})
	if err != nil {
		return api.Checkpoint{}, err
	}
	return api.CheckpointOf(made), nil
}

// List implements cli.CheckpointStore.
func (k ownCheckpoints) List(ctx context.Context, f manager.CheckpointFilter) ([]api.Checkpoint, error) {
	list, err := k.m.Checkpoints(ctx, f)
	out := []api.Checkpoint{}
	for _, one := range list {
		out = append(out, api.CheckpointOf(one))
	}
	return out, err
}

// Get implements cli.CheckpointStore.
func (k ownCheckpoints) Get(ctx context.Context, who config.Who, ref string) (api.Checkpoint, error) {
	one, err := k.m.FindCheckpoint(ctx, who.Tenant, ref)
	if err != nil {
		return api.Checkpoint{}, err
	}
	return api.CheckpointOf(one), nil
}

// Remove implements cli.CheckpointStore.
func (k ownCheckpoints) Remove(ctx context.Context, who config.Who, ref string) error {
	return k.m.RemoveCheckpoint(ctx, who.Tenant, ref)
}

// Export implements cli.CheckpointStore.
func (k ownCheckpoints) Export(ctx context.Context, who config.Who, ref string, w io.Writer) error {
	return k.m.ExportCheckpoint(ctx, who.Tenant, ref, w)
}

// Import implements cli.CheckpointStore.
func (k ownCheckpoints) Import(ctx context.Context, who config.Who, name string, r io.Reader) (api.Checkpoint, error) {
	made, err := k.m.ImportCheckpoint(ctx, who, name, r)
	if err != nil {
		return api.Checkpoint{}, err
	}
	return api.CheckpointOf(made), nil
}

// Rollback implements cli.CheckpointStore.
func (k ownCheckpoints) Rollback(ctx context.Context, r manager.Request, ref string) (api.RolledBack, error) {
	out, err := k.m.Rollback(ctx, r, ref)
	if err != nil {
		return api.RolledBack{}, err
	}
	return api.RolledBack{Checkpoint: api.CheckpointOf(out.Checkpoint), Ended: api.CheckpointProgramsOf(out.Ended), Recreated: out.Recreated}, nil
}

// Fork implements cli.CheckpointStore.
func (k ownCheckpoints) Fork(ctx context.Context, r manager.Request, f api.Fork) ([]api.Forked, error) {
	sessions := f.Sessions
	if len(sessions) == 0 {
		var err error
		if sessions, err = k.m.ForkSessions(ctx, r.Who, r.Flags, int(max(1, f.Count))); err != nil {
			return nil, err
		}
	}
	made, err := k.m.Fork(ctx, r, manager.ForkOptions{From: f.From, Sessions: sessions})
	if err != nil {
		return nil, err
	}
	out := []api.Forked{}
	for _, one := range made {
		item := api.Forked{Session: one.Session, Name: one.Name, Checkpoint: one.Checkpoint}
		if one.Err != nil {
			item.Name, item.Problem = "", problemOf(one.Err)
		}
		out = append(out, item)
	}
	return out, nil
}

// problemOf returns an error as a daemon sends it.
func problemOf(err error) *api.Problem {
	d := api.Of(err)
	return &api.Problem{
		Type: d.Type, Title: d.Title, Status: d.Status, Detail: d.Detail, Code: cmp.Or(d.Code, sandbox.CodeInternal),
		Field: d.Field, Resource: d.Resource, Hint: d.Hint, Retryable: d.Retryable,
	}
}
