package manager

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy/gate"
	"github.com/bulkhead-dev/sandbox/workspace/change"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// ChangeOptions say what [Manager.Changes] compares.
type ChangeOptions struct {
	// Since is the id or name of a checkpoint to compare with. Empty is the folder
	// of the host for a private workspace, and the last checkpoint for another one.
	Since string
	Paths []string // the files and folders to compare, relative to the workspace; none means all
}

// Changes are what differs in a workspace.
type Changes struct {
	Entries []change.Entry `json:"changes"`
	Folder  string         `json:"folder,omitempty"` // of the host, that a private workspace is a view of
	Since   string         `json:"since,omitempty"`  // the checkpoint that the workspace is compared with

	base, current *change.Tree
	render        func(context.Context, io.Writer, change.RenderOptions) error
}

// ChangesElsewhere returns changes that another process has found. Render calls
// render.
func ChangesElsewhere(c Changes, render func(context.Context, io.Writer, change.RenderOptions) error) *Changes {
	c.render = render
	return &c
}

// Render writes the changes. It may be called until the function returns that
// [Manager.Changes] has called.
func (c *Changes) Render(ctx context.Context, w io.Writer, o change.RenderOptions) error {
	if c.render != nil {
		return c.render(ctx, w, o)
	}
	o.Base, o.Current = c.base, c.current
	return change.Render(ctx, w, c.Entries, o)
}

// ApplyOptions say what [Manager.Apply] carries over to the folder of the host.
type ApplyOptions struct {
	Paths []string // as in [ChangeOptions]
	// AllowRisks and AllowPaths are the consents to changes that can make the host
	// run code; see [change.PlanOptions].
	AllowRisks []change.Risk
	AllowPaths []string
	Partial    bool   // leave out what conflicts or has no consent
	DryRun     bool   // write nothing
	Digest     string // of a plan that was shown before; empty is any
}

// Applied is the result of [Manager.Apply].
type Applied struct {
	ID     string         `json:"id,omitempty"` // of what was done, which [Manager.Undo] takes back; empty where nothing was
	Folder string         `json:"folder"`       // of the host
	Plan   *change.Plan   `json:"plan"`
	Report *change.Report `json:"report,omitempty"` // nil of a dry run
}

// Undone is the result of [Manager.Undo].
type Undone struct {
	ID     string         `json:"id"`
	Folder string         `json:"folder"`
	Report *change.Report `json:"report"`
}

// A workspaceOnHost is the workspace of a session as the host has it.
type workspaceOnHost struct {
	store *checkpoint.Store
	name  string
	head  checkpoint.Head
}

// Changes compares the workspace of the session's sandbox and calls fn with what
// differs. No sandbox has to run, and commands may run meanwhile.
func (m *Manager) Changes(ctx context.Context, req Request, o ChangeOptions, fn func(*Changes) error) error {
	return m.changing(ctx, req, func(at *workspaceOnHost) error {
		c, err := at.trees(o.Since)
		if err != nil {
			return err
		}
		defer c.close()
		if c.Entries, err = change.Compare(ctx, c.base, c.current, change.Options{Paths: o.Paths}); err != nil {
			return err
		}
		return fn(c)
	})
}

// Apply carries the changes of a private workspace over to the folder of the host
// that it is a view of. What changed there meanwhile is merged or a conflict, and
// never overwritten; what can make the host run code needs a consent of its own.
// Without Partial nothing is done where there is a conflict or a missing consent,
// which is the error then, beside the plan.
func (m *Manager) Apply(ctx context.Context, req Request, o ApplyOptions) (done Applied, err error) {
	err = m.changing(ctx, req, func(at *workspaceOnHost) error {
		done, err = m.apply(ctx, at, o)
		return err
	})
	return done, err
}

// apply is Apply for an admitted call.
func (m *Manager) apply(ctx context.Context, at *workspaceOnHost, o ApplyOptions) (done Applied, err error) {
	if err := at.private("apply"); err != nil {
		return done, err
	}
	c, err := at.trees("")
	if err != nil {
		return done, err
	}
	defer c.close()
	bases, err := at.store.Bases(at.name)
	if err != nil {
		return done, err
	}
	dir := m.checkpoints.journals(at.name)
	journals, err := listJournals(dir)
	if err != nil {
		return done, err
	}
	done.Folder = at.head.Base
	done.Plan, err = change.NewPlan(ctx, at.head.Base, c.base, c.current, change.PlanOptions{
		Paths: o.Paths, AllowRisks: o.AllowRisks, AllowPaths: o.AllowPaths, Partial: o.Partial, Digest: o.Digest,
		Original: originals{bases}, Journals: journals,
	})
	if err != nil || o.DryRun {
		return done, err
	}
	if err := done.Plan.Err(); err != nil && !o.Partial {
		return done, err
	}
	if len(done.Plan.Steps) == 0 {
		done.Report = &change.Report{}
		return done, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return done, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "apply", Resource: dir, Message: "the folder of the journals cannot be made", Err: err}
	}
	done.ID = m.now().UTC().Format("20060102T150405.000000000") + "-" + rand.Text()[:6]
	err = at.store.BaseChanges(ctx, at.name, func() error {
		done.Report, err = done.Plan.Apply(ctx, filepath.Join(dir, done.ID))
		return err
	})
	return done, errors.Join(err, trimJournals(dir, journals))
}

// Discard makes a workspace what it was before its changes: what is in the folder
// of the host for a private one, and what the last checkpoint kept for another
// one. With paths it does so for these alone. It returns what was taken back.
func (m *Manager) Discard(ctx context.Context, req Request, paths []string) (list []change.Entry, err error) {
	req.MustExist = true
	return list, m.changing(ctx, req, func(at *workspaceOnHost) error {
		if err := at.store.Ensure(ctx, at.name); err != nil {
			return err
		}
		c, err := at.trees("")
		if err != nil {
			return err
		}
		defer c.close()
		dir := m.checkpoints.journals(at.name) + ".discard"
		defer os.RemoveAll(dir)
		plan, err := change.NewPlan(ctx, at.store.Path(at.name), c.current, c.base, change.PlanOptions{Paths: paths, AllowRisks: change.Risks(), Partial: true})
		if err != nil || len(plan.Steps) == 0 {
			return err
		}
		if err := at.readable(c.base, plan.Entries); err != nil {
			return err
		}
		list = plan.Entries
		_, err = plan.Apply(ctx, dir)
		return err
	})
}

// readable returns an error if one of the changes would put a file of the host's
// folder back that code in the sandbox cannot read there: it would be the
// sandbox's own then.
func (at *workspaceOnHost) readable(base *change.Tree, entries []change.Entry) error {
	if at.head.Base == "" {
		return nil
	}
	root, err := base.Lstat(".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := base.Lstat(e.Path)
		if sandbox.IsNotFound(err) || err == nil && !info.Mode.IsRegular() {
			continue
		}
		if err != nil {
			return err
		}
		if own := info.UID == root.UID && info.Mode&0o400 != 0; own || info.Mode&0o004 != 0 {
			continue
		}
		return &sandbox.Error{
			Code: sandbox.CodePermissionDeny, Op: "discard", Resource: change.Quote(e.Path), Message: "the file in the folder is not readable for code in the sandbox, and would be after the discard",
			Hint: "name the paths to discard without it, or remove the sandbox with its workspace",
		}
	}
	return nil
}

// Undo takes back what the last Apply, or the one of that id, did to the folder of
// the host. A file that changed since is a conflict, and without partial nothing
// is done then.
func (m *Manager) Undo(ctx context.Context, req Request, id string, partial bool) (done Undone, err error) {
	err = m.changing(ctx, req, func(at *workspaceOnHost) error {
		if err := at.private("undo"); err != nil {
			return err
		}
		journals, err := listJournals(m.checkpoints.journals(at.name))
		if err != nil {
			return err
		}
		for _, dir := range slices.Backward(journals) {
			status, err := change.Inspect(dir)
			if sandbox.IsNotFound(err) || err == nil && status.Phase == change.Undone && id == "" || id != "" && filepath.Base(dir) != id {
				continue
			}
			if err != nil {
				return err
			}
			done.ID, done.Folder = filepath.Base(dir), status.Folder
			return at.store.BaseChanges(ctx, at.name, func() error {
				done.Report, err = change.Undo(ctx, status.Folder, dir, change.UndoOptions{Partial: partial})
				return err
			})
		}
		return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "undo", Resource: id, Message: "nothing was applied that could be taken back", Hint: "see what differs with: sandbox diff"}
	})
	return done, err
}

// changing judges and records a request about the workspace of a session, and
// calls fn with the workspace.
func (m *Manager) changing(ctx context.Context, req Request, fn func(*workspaceOnHost) error) (err error) {
	if err := onlySession(req); err != nil {
		return err
	}
	req.bare = true
	p := m.pipeline(req, gate.Call{Tool: req.Tool})
	if ctx, err = p.admit(ctx); err != nil {
		return err
	}
	if err = p.record(ctx); err == nil {
		var at *workspaceOnHost
		if at, err = m.checkpoints.onHost(ctx, p.res, req); err == nil {
			err = fn(at)
		}
		err = p.entry.end(ctx, err)
	}
	return p.spent.end(err)
}

// onHost returns the workspace of the session's sandbox, which must be on record.
func (c *checkpoints) onHost(ctx context.Context, res config.Resolved, req Request) (*workspaceOnHost, error) {
	name, err := c.m.Name(req.Who, req.Flags)
	if err != nil {
		return nil, err
	}
	rec, err := c.m.Recorded(ctx, res.Tenant, name, "")
	if err != nil {
		return nil, err
	}
	if p, err := c.m.providers.Get(rec.Provider); err == nil { // one that is gone has left folders alone
		if err := onThisMachine("compare", p, name); err != nil {
			return nil, err
		}
	}
	at := &workspaceOnHost{name: filepath.Base(rec.Workspace)}
	if at.store, err = c.of(res); err != nil {
		return nil, err
	}
	if filepath.Dir(rec.Workspace) != at.store.Root() {
		return nil, &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "compare", Resource: name, Message: "its workspace is the folder " + rec.Workspace + " of the host, which has the changes already",
			Hint: "set workspaceAccess to private, so that the sandbox changes a view of the folder",
		}
	}
	head, ok, err := at.store.Head(at.name)
	if err == nil && !ok {
		err = &sandbox.Error{
			Code: sandbox.CodeNotFound, Op: "compare", Resource: name, Message: "the workspace is no private view and has no checkpoint, so there is nothing to compare it with",
			Hint: "make one before the next change with: sandbox checkpoint create",
		}
	}
	at.head = head
	return at, err
}

// private returns an error unless the workspace is a private view.
func (at *workspaceOnHost) private(op string) error {
	if at.head.Base != "" {
		return nil
	}
	return &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: op, Resource: at.name, Message: "the workspace is no view of a folder of the host",
		Hint: "fetch files with: sandbox cp; or begin with: sandbox run --private --workspace DIR",
	}
}

// trees opens the workspace and what it is compared with.
func (at *workspaceOnHost) trees(since string) (c *Changes, err error) {
	h := at.head
	c = &Changes{Folder: h.Base}
	// A stack of layers, or with other means than overlay one full tree.
	open := func(folders []string) (*change.Tree, error) {
		if h.Means == checkpoint.Overlay {
			return change.Layers(folders, change.LayerOptions{UserXattr: h.XattrPrefix == "user.overlay."})
		}
		return change.Folder(folders[0])
	}
	base := h.Layers
	switch {
	case since != "":
		layers, err := at.store.Tree(since)
		if err != nil {
			return nil, err
		}
		base, c.Since = layers.Folders, since
	case h.Base != "" && h.Means == checkpoint.Overlay:
		base = []string{h.Base}
	case h.Base != "" && h.Origin != "":
		base = []string{h.Origin}
	default:
		c.Since = h.Parent
	}
	current := []string{h.Upper}
	if h.Means == checkpoint.Overlay {
		current = append(current, h.Layers...)
	}
	if c.base, err = open(base); err != nil {
		return nil, err
	}
	if c.current, err = open(current); err != nil {
		return nil, errors.Join(err, c.base.Close())
	}
	return c, nil
}

func (c *Changes) close() {
	_ = c.base.Close()
	_ = c.current.Close()
}

// originals say what files of the host's folder were when the workspace changed
// them first.
type originals struct{ bases *checkpoint.Bases }

// Base implements [change.Original].
func (o originals) Base(path string) (io.ReadCloser, change.Version, bool) {
	content, e, ok := o.bases.Base(path)
	if !ok {
		return nil, change.Version{}, false
	}
	return content, change.Version{
		Absent: e.Absent(), Mode: e.FileMode(), Size: e.Size, Digest: e.Digest, Link: e.Link,
		ModTime: time.Unix(0, e.MTime), Changed: time.Unix(0, e.CTime),
	}, true
}

// maxJournals is how many applications of one workspace can be taken back.
const maxJournals = 20

// journals returns the folder of the journals of what was applied from a workspace.
func (c *checkpoints) journals(name string) string {
	return filepath.Join(c.m.state.Path(), "applied", name)
}

// listJournals returns the journals in a folder, the oldest first.
func listJournals(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "read journals", Resource: dir, Message: "the folder cannot be read", Err: err}
	}
	var out []string
	for _, e := range entries {
		out = append(out, filepath.Join(dir, e.Name()))
	}
	slices.Sort(out)
	return out, nil
}

// trimJournals removes the oldest journals of those that were there before one was
// added.
func trimJournals(dir string, before []string) error {
	for len(before) >= maxJournals {
		if err := os.RemoveAll(before[0]); err != nil {
			return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "remove journal", Resource: before[0], Message: "an old journal cannot be removed", Err: err}
		}
		before = before[1:]
	}
	return nil
}
