package manager

import (
	"context"
	"maps"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// forgotten removes scratch workspaces that neither a record nor a sandbox
// names any more: those of sandboxes that were swept without theirs. It
// keeps to the default root; a folder that settings name instead may serve
// others too. Whose a forgotten workspace was is not known, so a sweep for
// one tenant leaves them.
func (b *sweeper) forgotten(ctx context.Context) error {
	if b.o.Tenant != "" {
		return nil
	}
	store, err := workspace.Open(b.m.state.Workspaces())
	if err != nil {
		return err
	}
	if err := b.forgottenIn(ctx, store, "workspace"); err != nil {
		return err
	}
	return b.forgottenViews(ctx, store)
}

// forgottenViews removes private views that neither a record nor a sandbox names
// any more. What was changed in them and not applied is named.
func (b *sweeper) forgottenViews(ctx context.Context, store *workspace.Store) error {
	names, err := viewNames(store.Root())
	if err != nil {
		return err
	}
	for _, view := range slices.Sorted(maps.Keys(names)) {
		identity, lost := names[view], ""
		gone, err := b.forget(ctx, identity, func() (err error) {
			lost, err = b.m.pruner.dropView(ctx, store.Root(), identity)
			return err
		})
		switch {
		case err != nil:
			b.out.Failed = append(b.out.Failed, failed(view, err))
		case gone && b.o.DryRun:
			lost = b.m.pruner.wouldLose(ctx, store.Root(), identity)
			fallthrough
		case gone:
			b.out.Removed = append(b.out.Removed, Removed{Name: view, Reason: withLost("workspace: its sandbox is gone", lost)})
		}
	}
	return nil
}

// withLost adds to a reason what goes with a private view.
func withLost(reason, lost string) string {
	if lost != "" {
		reason += "; lost: " + lost
	}
	return reason
}

// forgottenHomes removes homes on the disk that neither a record nor a sandbox
// names any more: what a killed process left of a sandbox that it was making.
func (b *sweeper) forgottenHomes(ctx context.Context) error {
	if b.o.Tenant != "" {
		return nil
	}
	stores, err := b.m.pruner.homeStores()
	if err != nil {
		return err
	}
	for _, store := range stores {
		if err := b.forgottenIn(ctx, store, "home"); err != nil {
			return err
		}
	}
	return nil
}

// forgottenIn removes those of a store, which holds what the word says.
func (b *sweeper) forgottenIn(ctx context.Context, store *workspace.Store, what string) error {
	entries, err := store.Scratch(ctx)
	if err != nil {
		return err
	}
	for _, e := range entries {
		gone, err := b.forget(ctx, e.Name, func() error {
			if err := b.m.checkpoints.forget(ctx, e.Path); err != nil {
				return err
			}
			return store.Remove(ctx, e.Path)
		})
		switch {
		case err != nil:
			b.out.Failed = append(b.out.Failed, failed(e.Name, err))
		case gone:
			b.out.Removed = append(b.out.Removed, Removed{Name: e.Name, Reason: what + ": its sandbox is gone"})
		}
	}
	return nil
}

// forget calls remove, which removes a workspace of the sandbox that is known on
// the host by the name identity, unless a record names it or it is in use.
func (b *sweeper) forget(ctx context.Context, identity string, remove func() error) (gone bool, err error) {
	c, claimed, err := b.m.records.ClaimOn(identity)
	if err != nil {
		return false, err
	}
	name := identity
	if claimed {
		name = c.Name
	}
	turn, err := b.m.leases.TryEnsure(name)
	if sandbox.CodeOf(err) == sandbox.CodeBusy {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer turn.Release()
	// A session without a sandbox has no record, only the lease of its commands.
	unused, err := b.m.leases.TryExclusive(name)
	if sandbox.CodeOf(err) == sandbox.CodeBusy {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unused.Release()
	for _, kind := range []sandbox.Kind{sandbox.KindSandbox, sandbox.KindBrowser} {
		if _, err := b.m.records.Look(kind, name); !sandbox.IsNotFound(err) {
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
		if _, err := p.Inspect(ctx, name); !sandbox.IsNotFound(err) {
			return false, err
		}
	}
	if b.o.DryRun {
		return true, nil
	}
	if err := remove(); err != nil || !claimed {
		return true, err
	}
	return true, b.m.pool.leaveIdentity("", name)
}
