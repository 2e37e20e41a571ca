package manager

import (
	"context"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// A Share is the file side of a sandbox that is lent for a while.
type Share struct {
	*fsbridge.Bridge
	Name string // the sandbox

	// Exposed are the host folders, canonical and sorted, that code in this
	// or another sandbox can write. A path of the host that leads through
	// one of them is in the hands of that code, so it must be opened from
	// the folder on with os.Root.
	Exposed []string
}

// Files brings the sandbox of a request up as [Manager.Run] does and hands
// its files to fn instead of running the command. The sandbox is leased until
// fn returns; its last use is noted then.
//
// An error of fn is returned as it is. There is no time limit but that of
// ctx: settings bound commands, and how long a copy takes depends on its size.
func (m *Manager) Files(ctx context.Context, req Request, fn func(Share) error) error {
	return m.lendFiles(ctx, req, func(a *admission, l *live) error {
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
		watched, f, err := m.watchFiles(l, a, l.spent.files(bridge))
		if err != nil {
			return err
		}
		return f.end(ctx, fn(Share{Bridge: watched, Name: l.name(), Exposed: exposed}))
	})
}

// lendFiles is lend for files. What is done with them is on record, operation by
// operation; here only what kept them from being lent.
func (m *Manager) lendFiles(ctx context.Context, req Request, fn func(*admission, *live) error) (err error) {
	counted := m.counting(req, grant.DomainFS, operation.ResourceFile, grant.EffectFilesystem)
	defer func() { counted.end(err) }()
	a, err := m.admit(ctx, req, gate.Call{Tool: req.Tool})
	if err == nil && req.Changes {
		err = a.ruling.gate.Changes()
	}
	var spent *usage
	if err == nil {
		spent, err = m.spend(ctx, firstOf(req))
	}
	if err != nil {
		m.refusedCommand(ctx, a, err)
		return err
	}
	ctx = spent.context(ctx)
	if _, err := m.witness(a); err != nil {
		return spent.end(err)
	}
	lent := false
	err = m.bring(ctx, a, func(l *live) error {
		l.spent, counted.up, lent = spent, true, true
		return spent.why(fn(a, l))
	})
	if err != nil && !lent {
		if s, lost := m.declare(ctx, a, m.commandBeginning(a)); lost == nil {
			err = s.end(ctx, err)
		}
	}
	return spent.end(err)
}

// exposedBy returns the folders that some sandbox of these settings can
// write, every scratch workspace and the mounts of l included.
func (m *Manager) exposedBy(l *live) ([]string, error) {
	out, err := m.exposed()
	if err != nil {
		return nil, err
	}
	written, err := m.workspaceRoots(m.current())
	if err != nil {
		return nil, err
	}
	for _, mount := range l.spec.Mounts {
		if !mount.ReadOnly {
			written = append(written, mount.Source)
		}
	}
	for _, dir := range written {
		canonical, err := hostpath.Canonical(dir)
		if err != nil {
			return nil, err
		}
		out = append(out, canonical)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
