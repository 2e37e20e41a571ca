package manager

import (
	"context"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// prepare makes the scratch workspace that the sandbox of s mounts, with
// what is seeded into it, or its private view. It may run again for a sandbox that exists; s is
// then what that was made from, so that its workspace stays its own.
func (b *builder) prepare(ctx context.Context, w *want, s sandbox.Spec) error {
	if m, ok := viewOf(s); ok {
		if w.from != nil {
			return b.m.checkpoints.begin(ctx, w, filepath.Base(m.Source), m.Base, workspace.Owner{UID: s.UID, GID: s.GID})
		}
		return b.prepareView(ctx, w, s, m)
	}
	if w.from != nil && !w.scratch() {
		return errOtherFolder(w, "")
	}
	if _, kept := b.m.kept[w.provider.Name()]; kept {
		if w.from != nil {
			return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "begin with a checkpoint", Resource: w.from.ID, Message: "workspaces of the provider " + w.provider.Name() + " have no checkpoints"}
		}
		return nil // the workspace is the provider's
	}
	if !w.scratch() {
		return b.prepareMapped(s)
	}
	store, err := b.m.describer.workspaces(w.res)
	if err != nil {
		return err
	}
	own := workspace.Owner{UID: s.UID, GID: s.GID}
	if _, err := store.Ensure(ctx, w.hostIdentity, own, w.quota); err != nil {
		return err
	}
	if w.from != nil {
		return b.m.checkpoints.begin(ctx, w, w.hostIdentity, "", own)
	}
	if err := b.m.checkpoints.mounted(ctx, w); err != nil {
		return err
	}
	return b.seed(ctx, w, store, own)
}

// prepareAll is prepare for a sandbox that is about to be made or to start,
// whose home it makes as well.
func (b *builder) prepareAll(ctx context.Context, w *want, s sandbox.Spec) error {
	if err := b.m.pruner.prepareHome(ctx, s); err != nil {
		return err
	}
	if err := b.prepareCache(ctx, w, s); err != nil {
		return err
	}
	return b.prepare(ctx, w, s)
}

// seed copies what is seeded into the scratch workspace.
func (b *builder) seed(ctx context.Context, w *want, store *workspace.Store, own workspace.Owner) error {
	if w.agentDir == "" {
		return nil
	}
	report, err := store.Seed(ctx, w.hostIdentity, w.agentDir, own)
	for _, s := range report.Skipped {
		b.m.log.WithField("sandbox", w.spec.Name).Warnf("not seeded: %s: %s", termsafe.Line(s.Path), s.Reason)
	}
	return err
}

// scratch reports whether the workspace is ours and not the agent's own folder.
func (w *want) scratch() bool { return ownScratch(w.res) }

// ownScratch is scratch for settings alone.
func ownScratch(res config.Resolved) bool {
	access := res.FolderAccess()
	return res.Kind != sandbox.KindBrowser && access != sandbox.AccessRW && access != sandbox.AccessPrivate
}

// workspaceOf is the host folder that appears as the workspace.
func workspaceOf(s sandbox.Spec) string {
	for _, m := range s.Mounts {
		if m.Role == sandbox.RoleWorkspace {
			return m.Source
		}
	}
	return ""
}
