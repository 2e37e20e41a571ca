package manager

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// errNoHomes says that the program that made the Manager keeps no homes on the
// disk.
var errNoHomes = errors.New("this program keeps none there")

// detached reports whether sandboxes of p have no folder of this machine.
func detached(p sandbox.Provider) bool {
	d, ok := p.(provider.Detached)
	return ok && d.Detached()
}

// homeDir returns the host folder of the home of the sandbox at, where that
// lies on the disk, and why it lies where it does. Only sandboxes with an image
// have such a home: what runs programs of the host has a home in memory.
func (d *describer) homeDir(res config.Resolved, p sandbox.Provider, at hostIdentity) (dir, reason string, err error) {
	possible := errNoHomes
	switch {
	case detached(p):
		possible = errors.New("the provider " + p.Name() + " has homes in memory, and no folder of this machine")
	case !p.Features().Images:
		possible = errors.New("the provider " + p.Name() + " has homes in memory")
	case d.m.host.CanBound != nil:
		possible = d.m.host.CanBound()
	}
	disk, reason, err := res.HomeOnDisk(possible)
	if err != nil || !disk {
		return "", reason, err
	}
	store, err := d.workspaces(res)
	if err != nil {
		return "", "", err
	}
	return filepath.Join(store.Root(), hardening.HomesDir, at.name), reason, nil
}

// prepareHome makes the home on the disk that the sandbox of s mounts, if it
// has one, or mounts the one that is there.
func (u *pruner) prepareHome(ctx context.Context, s sandbox.Spec) error {
	for _, mount := range s.Mounts {
		if mount.Role != sandbox.RoleHome {
			continue
		}
		store, err := workspace.Open(filepath.Dir(mount.Source))
		if err != nil {
			return err
		}
		if _, err := store.Ensure(ctx, filepath.Base(mount.Source), workspace.Owner{UID: s.UID, GID: s.GID}, mount.Size); err != nil {
			return homeError(err)
		}
	}
	return nil
}

// homeError names the settings of homes in what a store of workspaces says.
func homeError(err error) error {
	var e *sandbox.Error
	if !errors.As(err, &e) {
		return err
	}
	out := *e
	out.Op, out.Field = "make home", "docker.home"
	if e.Code == sandbox.CodeUnavailable {
		out.Hint = "see to what the message names, or set docker.home to memory"
	}
	return &out
}

// removeHome removes the home on the disk of the sandbox at the berth of that
// name, if it has one. The sandbox is gone.
func (u *pruner) removeHome(ctx context.Context, hostIdentity string) error {
	return homeStores(u.homeStores).remove(ctx, hostIdentity)
}

// homeStores returns the stores of homes that there are.
type homeStores func() ([]*workspace.Store, error)

// homeStoresOnce returns the stores as they are at its first call, for a sweep:
// the settings say where they lie, not the record, and a sandbox that a sweep
// removes had its home before. It is safe for concurrent use.
func (u *pruner) homeStoresOnce() homeStores { return sync.OnceValues(u.homeStores) }

// remove removes the home at the berth of that name from the store that has it.
func (h homeStores) remove(ctx context.Context, hostIdentity string) error {
	stores, err := h()
	if err != nil {
		return err
	}
	for _, store := range stores {
		path, err := store.Path(hostIdentity)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := store.Remove(ctx, path); err != nil {
			return homeError(err)
		}
	}
	return nil
}

// homeStores are the stores of homes that there are.
func (u *pruner) homeStores() ([]*workspace.Store, error) {
	roots, err := u.m.stager.workspaceRoots(u.m.current())
	if err != nil {
		return nil, err
	}
	var out []*workspace.Store
	for _, root := range roots {
		dir := filepath.Join(root, hardening.HomesDir)
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		store, err := workspace.Open(dir)
		if err != nil {
			return nil, err
		}
		out = append(out, store)
	}
	return out, nil
}

// homeOf is the mount of the home of s, if that lies on the disk.
func homeOf(s sandbox.Spec) (sandbox.Mount, bool) {
	for _, m := range s.Mounts {
		if m.Role == sandbox.RoleHome {
			return m, true
		}
	}
	return sandbox.Mount{}, false
}

// A HomePlan says where the home of a sandbox lies.
type HomePlan struct {
	Place  string `json:"place"`          // disk or memory
	Size   int64  `json:"size,omitempty"` // bytes that it holds at most; 0 where the provider decides
	Reason string `json:"reason"`
}

// explainHome says where the home of w lies.
func explainHome(w *want) HomePlan {
	if home, ok := homeOf(w.spec); ok {
		return HomePlan{Place: config.HomeDisk, Size: home.Size, Reason: w.homeReason}
	}
	plan := HomePlan{Place: config.HomeMemory, Reason: w.homeReason}
	for _, t := range w.spec.Tmpfs {
		if t.Target == sandbox.HomeDir {
			plan.Size = t.Size
		}
	}
	return plan
}
