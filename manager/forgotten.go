package manager

import (
	"context"
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
	return b.forgottenIn(ctx, store, "workspace")
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
		gone, err := b.forget(ctx, store, e)
		switch {
		case err != nil:
			b.out.Failed = append(b.out.Failed, failed(e.Name, err))
		case gone:
			b.out.Removed = append(b.out.Removed, Removed{Name: e.Name, Reason: what + ": its sandbox is gone"})
		}
	}
	return nil
}

// forget removes the workspace e unless a record names it or it is in use.
func (b *sweeper) forget(ctx context.Context, store *workspace.Store, e workspace.Entry) (gone bool, err error) {
	c, claimed, err := b.m.records.ClaimOn(e.Name)
	if err != nil {
		return false, err
	}
	name := e.Name
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
	if b.m.pruner.leased(name) {
		return false, nil
	}
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
	if err := store.Remove(ctx, e.Path); err != nil || !claimed {
		return true, err
	}
	return true, b.m.pool.leaveIdentity(name)
}
