package served

import (
	"context"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/workspace/change"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// HostFolder is the folder of the host that every workspace of a [Changes] is a
// view of.
const HostFolder = "/srv/of-the-host"

// OddName is a name of a file that is no UTF-8.
const OddName = "odd\xff\n\"name"

// A Changes is a manager with the same changes in every workspace, which it
// neither reads nor applies. It is for tests of what stands in front of a manager.
type Changes struct {
	*manager.Manager
	Kept *Checkpoints

	mu      sync.Mutex
	Asked   manager.ChangeOptions // of the last Changes
	Applied manager.ApplyOptions  // of the last Apply
	Took    []string              // of the last Discard
	Calls   []string              // "apply TENANT SESSION" and so on
	Broken  error                 // of every call, also once text was written
}

// KeepChanges returns a Changes with the sandboxes of m.
func KeepChanges(m *manager.Manager) *Changes {
	return &Changes{Manager: m, Kept: KeepCheckpoints(m)}
}

// FindCheckpoint implements a method of a manager.
func (k *Changes) FindCheckpoint(ctx context.Context, tenant, ref string) (checkpoint.Record, error) {
	return k.Kept.FindCheckpoint(ctx, tenant, ref)
}

// entries returns what differs: a file with a name that is no UTF-8, one that git
// runs, and a link.
func (k *Changes) entries() []change.Entry {
	return []change.Entry{
		{Path: ".husky/pre-commit", Kind: change.Added, Mode: 0o755, Size: 5, Digest: strings.Repeat("1", 64), Findings: []change.Finding{{Risk: change.RiskGit, Why: "git runs it"}, {Risk: change.RiskExecutable, Why: "it becomes executable"}}},
		{Path: OddName, Kind: change.Modified, OldMode: 0o644, Mode: fs.ModeSetuid | 0o600, OldSize: 1, Size: 2, OldDigest: strings.Repeat("2", 64), Digest: strings.Repeat("3", 64)},
		{Path: "link", Kind: change.Type, OldMode: fs.ModeDir | 0o755, Mode: fs.ModeSymlink | 0o777, Link: "\xfe"},
		{Path: "gone", Kind: change.Removed, OldMode: 0, OldSize: 3},
	}
}

func (k *Changes) begin(what string, r manager.Request) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Calls = append(k.Calls, what+" "+r.Who.Tenant+" "+r.Who.Session)
	return k.Broken
}

// Changes implements a method of a manager.
func (k *Changes) Changes(_ context.Context, r manager.Request, o manager.ChangeOptions, fn func(*manager.Changes) error) error {
	if err := k.begin("diff", r); err != nil && !strings.Contains(err.Error(), "later") {
		return err
	}
	k.Asked = o
	return fn(manager.ChangesElsewhere(manager.Changes{Entries: k.entries(), Folder: HostFolder, Since: o.Since}, func(_ context.Context, w io.Writer, r change.RenderOptions) error {
		if _, err := io.WriteString(w, string(r.Format)+"\xff"); err != nil {
			return err
		}
		return k.Broken
	}))
}

// Apply implements a method of a manager.
func (k *Changes) Apply(_ context.Context, r manager.Request, o manager.ApplyOptions) (manager.Applied, error) {
	if err := k.begin("apply", r); err != nil {
		return manager.Applied{}, err
	}
	k.Applied = o
	all := k.entries()
	out := manager.Applied{Folder: HostFolder, Plan: &change.Plan{Entries: all, Steps: []change.Step{{Path: OddName, Action: change.Write}}, Digest: "d1"}}
	if len(o.AllowRisks)+len(o.AllowPaths) == 0 {
		out.Plan.Refused = all[:1]
	}
	if o.DryRun {
		return out, nil
	}
	if len(out.Plan.Refused) > 0 && !o.Partial {
		return out, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "apply", Resource: OddName, Message: "git runs it", Hint: "allow its risk"}
	}
	out.ID, out.Report = "a1", &change.Report{Done: out.Plan.Steps}
	return out, nil
}

// Discard implements a method of a manager.
func (k *Changes) Discard(_ context.Context, r manager.Request, paths []string) ([]change.Entry, error) {
	if err := k.begin("discard", r); err != nil {
		return nil, err
	}
	k.Took = paths
	return k.entries(), nil
}

// Undo implements a method of a manager.
func (k *Changes) Undo(_ context.Context, r manager.Request, id string, partial bool) (manager.Undone, error) {
	if err := k.begin("undo", r); err != nil {
		return manager.Undone{}, err
	}
	if id != "" && id != "a1" {
		return manager.Undone{}, &sandbox.Error{Code: sandbox.CodeNotFound, Op: "undo", Resource: id, Message: "nothing was applied that could be taken back"}
	}
	out := manager.Undone{ID: "a1", Folder: HostFolder, Report: &change.Report{Conflicts: []change.Conflict{{Path: OddName, Why: "it changed"}}}}
	if !partial {
		return out, &sandbox.Error{Code: sandbox.CodeBusy, Op: "undo", Resource: OddName, Message: "it changed"}
	}
	out.Report.Done = []change.Step{{Path: "gone", Action: change.Write}}
	return out, nil
}
