package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/workspace"
	"github.com/bulkhead-dev/sandbox/workspace/change"
)

// No sandbox runs as root, so a folder of root to which a sandbox has rw access, as
// is usual in the containers of continuous integration, is shown to it by an
// ID-mapped mount. Where there can be none, the sandbox gets a private view of the
// folder, and what it has changed there is applied to the folder after each call.

// A mapping remembers of which file systems this process makes ID-mapped mounts.
type mapping struct {
	mu    sync.Mutex
	known map[uint64]error // by device; nil where it can
}

// maxDevices bounds for how many file systems that is remembered.
const maxDevices = 64

// can returns why the folder cannot be mounted for another user, or nil.
func (m *mapping) can(folder string, device uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err, ok := m.known[device]
	if ok {
		return err
	}
	err = workspace.CanMap(folder, workspace.Owner{UID: 1, GID: 1})
	if m.known == nil || len(m.known) >= maxDevices {
		m.known = map[uint64]error{}
	}
	m.known[device] = err
	return err
}

// ofRoot reports whether the folder at path belongs to root, and the device of its
// file system. It is false where that is not known: the folder may not be there yet.
func ofRoot(path string) (device uint64, ok bool) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return 0, false
	}
	return uint64(st.Dev), st.Uid == 0
}

// copies makes res one with a private view that is copied out, where the folder
// with rw access is root's and cannot be mounted for the sandbox's user.
func (d *describer) copies(res config.Resolved) config.Resolved {
	if os.Geteuid() != 0 || res.Kind == sandbox.KindBrowser || !res.Sandboxed || res.FolderAccess() != sandbox.AccessRW {
		return res
	}
	if _, kept := d.m.kept[res.Provider]; kept {
		return res
	}
	dir := res.Workspace
	if dir == "" {
		dir = res.AgentWorkspace
	}
	dir, err := hostpath.Expand(dir, d.m.host.Home, d.m.host.Env)
	if err == nil {
		dir, err = hostpath.Canonical(dir)
	}
	if err != nil {
		return res // reported when the folder is looked for
	}
	device, root := ofRoot(dir)
	if !root {
		return res
	}
	why := d.mapping.can(dir, device)
	if !socketsCross(res.Docker.Runtime) {
		why = errors.New("the runtime " + res.Docker.Runtime + " has file systems of its own")
	}
	if why != nil {
		res.WorkspaceAccess, res.CopyOut = sandbox.AccessPrivate, why.Error()
	}
	return res
}

// mapped returns the place at which the folder dir is mounted for the sandbox that is
// known on the host by the name identity, or "" where it is mounted itself.
func (d *describer) mapped(dir, identity string) string {
	if _, root := ofRoot(dir); !root || os.Geteuid() != 0 {
		return ""
	}
	return filepath.Join(d.m.state.Mapped(), identity)
}

// prepareMapped makes the ID-mapped mounts of s, or leaves those that are there.
func (b *builder) prepareMapped(s sandbox.Spec) error {
	for _, m := range s.Mounts {
		if m.Mapped == "" {
			continue
		}
		if err := workspace.Map(m.Mapped, m.Source, workspace.Owner{UID: s.UID, GID: s.GID}); err != nil {
			return err
		}
	}
	return nil
}

// isMapped reports whether s has an ID-mapped mount.
func isMapped(s sandbox.Spec) bool {
	return slices.ContainsFunc(s.Mounts, func(m sandbox.Mount) bool { return m.Mapped != "" })
}

// rootNotes says what becomes of a folder of root in s, which was made of res.
func rootNotes(res config.Resolved, s sandbox.Spec) []string {
	switch {
	case res.CopyOut != "":
		return []string{"the folder belongs to root and cannot be mounted for the sandbox's user (" + res.CopyOut + "): the sandbox works on a copy that is made with it, " +
			"and its changes are applied to the folder when a command ends, except those that conflict or could make the host run code"}
	case isMapped(s):
		return []string{"the folder belongs to root and is mounted with IDs mapped: root's files are the sandbox's inside, what the sandbox makes belongs to root on the host, " +
			"and file systems mounted below the folder are not seen"}
	}
	return nil
}

// forgottenMapped takes away ID-mapped mounts that neither a record nor a sandbox
// names any more: what a killed process left of a sandbox that it was making.
func (b *sweeper) forgottenMapped(ctx context.Context) error {
	if b.o.Tenant != "" {
		return nil
	}
	entries, err := os.ReadDir(b.m.state.Mapped())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "prune", Resource: b.m.state.Mapped(), Message: "the folder cannot be read", Err: err}
	}
	for _, e := range entries {
		gone, err := b.forget(ctx, e.Name(), func() error { return workspace.Unmap(filepath.Join(b.m.state.Mapped(), e.Name())) })
		switch {
		case err != nil:
			b.out.Failed = append(b.out.Failed, failed(e.Name(), err))
		case gone:
			b.out.Removed = append(b.out.Removed, Removed{Name: e.Name(), Reason: "mount of a workspace: its sandbox is gone"})
		}
	}
	return nil
}

// copyOut applies what was changed in the view of l to its folder, where the folder
// is one that is copied out. It returns what became of that, or nil. What conflicts
// with a change of the folder, and what could make the host run code, is left out.
func (m *Manager) copyOut(ctx context.Context, l *acquired, req Request) (*CopiedOut, error) {
	res := l.want.res
	if _, view := viewOf(l.spec); res.CopyOut == "" || !view || l.copied {
		return nil, nil
	}
	l.copied = true
	at, err := m.checkpoints.onHost(ctx, res, req)
	if err != nil {
		return nil, err
	}
	done, err := m.apply(ctx, at, ApplyOptions{Partial: true})
	if err != nil {
		return nil, fmt.Errorf("copy the workspace out: %w", err)
	}
	out := &CopiedOut{Folder: done.Folder, Left: []string{}}
	if done.Report != nil {
		out.Files = len(done.Report.Done)
	}
	for _, c := range done.Plan.Conflicts {
		out.Left = append(out.Left, change.Quote(c.Path)+": "+c.Why)
	}
	for _, e := range done.Plan.Refused {
		out.Left = append(out.Left, change.Quote(e.Path)+": it can make the host run code")
	}
	if len(out.Left) > 0 {
		m.log.WithField("sandbox", l.name()).Warnf("not copied out to %s: %s", out.Folder, strings.Join(out.Left, "; "))
	}
	return out, nil
}

// A CopiedOut says what of a copied workspace went to the folder of the host.
type CopiedOut struct {
	Folder string   `json:"folder"`
	Files  int      `json:"files"` // that were written, removed or renamed
	Left   []string `json:"left"`  // that were not, and why
}
