package manager

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// A Share is the file side of a sandbox that a caller has acquired for a while.
type Share struct {
	*fsbridge.Bridge
	Name string // the sandbox

	// Exposed are the host folders, canonical and sorted, that code in this
	// or another sandbox can write. A path of the host that leads through
	// one of them is in the hands of that code, so it must be opened from
	// the folder on with os.Root.
	Exposed []string
}

// Files ensures the sandbox of a request as [Manager.Run] does and hands
// its files to fn instead of running the command. The sandbox is leased until
// fn returns; its last use is noted then.
//
// An error of fn is returned as it is. There is no time limit but that of
// ctx: settings bound commands, and how long a copy takes depends on its size.
func (m *Manager) Files(ctx context.Context, req Request, fn func(Share) error) error {
	req.files = true
	p := m.pipeline(req, gate.Call{Tool: req.Tool})
	return p.runFiles(ctx, func(l *acquired) error {
		if l.want.gate.Place == Unsandboxed {
			return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "files", Message: "this session has no sandbox whose files could be reached",
				Hint: "its workspace is a folder of this machine: " + workspaceOf(l.spec)}
		}
		bridge, err := m.files(ctx, l)
		if err != nil {
			return err
		}
		exposed, err := m.exposedBy(l)
		if err != nil {
			return err
		}
		watched, f, err := m.watchFiles(l, p, l.spent.files(bridge))
		if err != nil {
			return err
		}
		return f.end(ctx, fn(Share{Bridge: watched, Name: l.name(), Exposed: exposed}))
	})
}

// runFiles is run for files. What is done with them is on record, operation by
// operation; here only what kept them from being reached.
func (p *pipeline) runFiles(ctx context.Context, use func(*acquired) error) (err error) {
	p.counted = p.m.counting(p.req)
	defer func() { p.counted.end(err) }()
	if ctx, err = p.admit(ctx); err != nil {
		return err
	}
	if _, err := p.recorder(); err != nil {
		return p.spent.end(err)
	}
	err = p.use(ctx, use)
	if err != nil && p.sandbox == nil {
		if lost := p.record(ctx); lost == nil {
			err = p.entry.end(ctx, err)
		}
	}
	return p.spent.end(err)
}

// exposedBy returns the folders that some sandbox of these settings can
// write, every scratch workspace and the mounts of l included.
func (m *Manager) exposedBy(l *acquired) ([]string, error) {
	spelled, err := m.writable()
	if err != nil {
		return nil, err
	}
	roots, err := m.stager.workspaceRoots(m.current())
	if err != nil {
		return nil, err
	}
	written := slices.Concat(spelled, m.grants.exposed(), roots)
	for _, mount := range l.spec.Mounts {
		if !mount.ReadOnly {
			written = append(written, mount.Source)
		}
	}
	return m.describer.places.canonical(m.watch, written)
}

// maxFolderLists bounds for how many lists of folders it is kept where they lead.
const maxFolderLists = 256

// A folderCache keeps where folders lead, while nothing changes on the way to them. It is
// safe for concurrent use.
type folderCache struct {
	mu sync.Mutex
	of map[string]cachedFolders
}

type cachedFolders struct {
	to   []string
	mark uint64
	at   hostpath.Places
}

// canonical returns where the folders lead, sorted and each once. The list is the
// caller's own.
func (l *folderCache) canonical(w *hostpath.Watch, folders []string) ([]string, error) {
	key := strings.Join(folders, "\x00")
	l.mu.Lock()
	have, ok := l.of[key]
	l.mu.Unlock()
	if ok && w.Unchanged(have.mark, have.at) {
		return slices.Clone(have.to), nil
	}
	mark, ok := w.Mark()
	var passed []string
	n := cachedFolders{mark: mark}
	for _, dir := range folders {
		if !ok {
			canonical, err := hostpath.Canonical(dir)
			if err != nil {
				return nil, err
			}
			n.to = append(n.to, canonical)
			continue
		}
		canonical, via, err := hostpath.Trace(dir)
		if err != nil {
			return nil, err
		}
		n.to, passed = append(n.to, canonical), append(append(passed, via...), canonical)
	}
	slices.Sort(n.to)
	n.to = slices.Compact(n.to)
	if !ok {
		return n.to, nil
	}
	if all, err := w.Add(mark, passed, nil); err == nil && all {
		n.at = hostpath.PlacesOf(passed)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.of == nil || len(l.of) >= maxFolderLists {
			l.of = map[string]cachedFolders{}
		}
		l.of[key] = n
	}
	return slices.Clone(n.to), nil
}
