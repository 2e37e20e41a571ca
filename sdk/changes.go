package sdk

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/workspace/change"
)

// A Change is one difference in a workspace. Its paths hold the bytes that the file
// system has, which may be no UTF-8.
type Change = change.Entry

// Changes are what differs in a workspace. Render writes them as git does; it
// compares once more.
type Changes = manager.Changes

// ChangeOptions say what [Sandbox.Changes] compares.
type ChangeOptions = manager.ChangeOptions

// ApplyOptions say what [Sandbox.Apply] carries over to the folder of the host.
type ApplyOptions = manager.ApplyOptions

// Applied is the result of [Sandbox.Apply].
type Applied = manager.Applied

// Undone is the result of [Sandbox.Undo].
type Undone = manager.Undone

// ListChanges returns what was changed in the workspace of a sandbox.
func (c *API) ListChanges(ctx context.Context, name string, o ChangeOptions) (api.ChangeList, error) {
	return get[api.ChangeList](ctx, c, "compare", one(name, "/changes"), changeQuery(o))
}

func changeQuery(o ChangeOptions) url.Values {
	q := values("since", o.Since)
	for _, p := range o.Paths {
		q.Add("path", api.PathText(p))
	}
	return q
}

// ChangesAsText returns what was changed in the workspace of a sandbox as text,
// which is to be closed. Of r the trees and MaxText must not be set. ctx has to last
// until then.
func (c *API) ChangesAsText(ctx context.Context, name string, o ChangeOptions, r change.RenderOptions) (io.ReadCloser, error) {
	const op = "show changes"
	if r.Base != nil || r.Current != nil || r.MaxText != 0 {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: op, Field: "MaxText", Message: "trees and the longest text are not for a daemon to be given", Hint: "leave them out"}
	}
	q := changeQuery(o)
	q.Set("format", "patch")
	if r.Format != change.Unified {
		q.Set("format", string(r.Format))
	}
	for name, set := range map[string]bool{"terminal": r.Terminal, "color": r.Color} {
		if set {
			q.Set(name, "true")
		}
	}
	if r.Width != 0 {
		q.Set("width", strconv.Itoa(r.Width))
	}
	a, err := c.Do(ctx, Request{Op: op, Method: http.MethodGet, Path: one(name, "/changes"), Query: q, Again: true})
	if err != nil {
		return nil, err
	}
	return a.Body, nil
}

// ApplyChanges applies the changes of a private workspace to its folder. Where that
// is refused the answer has Problem, and the error is nil.
func (c *API) ApplyChanges(ctx context.Context, name string, r api.ApplyChanges) (api.AppliedChanges, error) {
	return post[api.AppliedChanges](ctx, c, "apply", one(name, "/apply"), r)
}

// DiscardChanges gives up what was changed in the workspace of a sandbox.
func (c *API) DiscardChanges(ctx context.Context, name string, r api.DiscardChanges) (api.DiscardedChanges, error) {
	return post[api.DiscardedChanges](ctx, c, "discard", one(name, "/discard"), r)
}

// UndoChanges takes back what ApplyChanges did to a folder. Where not all of it is
// taken back the answer has Problem, and the error is nil.
func (c *API) UndoChanges(ctx context.Context, name string, r api.UndoChanges) (api.UndoneChanges, error) {
	return post[api.UndoneChanges](ctx, c, "undo", one(name, "/undo"), r)
}

// Changes compares a private workspace with the folder of the host that it is a view
// of, and another one with its last checkpoint. The folder is named for admins
// alone.
func (s *Sandbox) Changes(ctx context.Context, o ChangeOptions) (*Changes, error) {
	return changesOf(ctx, s.api, s.name, o)
}

// Apply carries the changes of a private workspace over to the folder of the host.
// It needs an admin. With an error for conflicts and missing consents, the result
// has the plan.
func (s *Sandbox) Apply(ctx context.Context, o ApplyOptions) (Applied, error) {
	return applyTo(ctx, s.api, s.name, o)
}

// Discard makes the workspace what it was before its changes, or these paths alone.
// It returns what was taken back.
func (s *Sandbox) Discard(ctx context.Context, paths ...string) ([]Change, error) {
	return discardOf(ctx, s.api, s.name, paths)
}

// Undo takes back what the last Apply, or the one of that id, did to the folder of
// the host. It needs an admin. A file that changed since is a conflict, and without
// partial nothing is done then; the result has the conflicts.
func (s *Sandbox) Undo(ctx context.Context, id string, partial bool) (Undone, error) {
	return undoOf(ctx, s.api, s.name, id, partial)
}

func changesOf(ctx context.Context, c *API, name string, o ChangeOptions) (*Changes, error) {
	l, err := c.ListChanges(ctx, name, o)
	if err != nil {
		return nil, err
	}
	out := Changes{Folder: l.Folder, Since: l.Since}
	if out.Entries, err = entriesOf("compare", l.Items); err != nil {
		return nil, err
	}
	return manager.ChangesElsewhere(out, func(ctx context.Context, w io.Writer, r change.RenderOptions) error {
		text, err := c.ChangesAsText(ctx, name, o, r)
		if err != nil {
			return err
		}
		defer text.Close()
		return copyAnswer(ctx, "show changes", name, w, text)
	}), nil
}

func applyTo(ctx context.Context, c *API, name string, o ApplyOptions) (Applied, error) {
	const op = "apply"
	a, err := c.ApplyChanges(ctx, name, api.ApplyChanges{
		Paths: pathTexts(o.Paths), AllowRisks: o.AllowRisks, AllowPaths: pathTexts(o.AllowPaths), Partial: o.Partial, DryRun: o.DryRun, Digest: o.Digest,
	})
	if err != nil {
		return Applied{}, err
	}
	out := Applied{ID: a.ID, Folder: a.Folder, Plan: &change.Plan{Digest: a.Plan.Digest}}
	if out.Plan.Entries, err = entriesOf(op, a.Plan.Entries); err != nil {
		return Applied{}, err
	}
	if out.Plan.Refused, err = entriesOf(op, a.Plan.Refused); err != nil {
		return Applied{}, err
	}
	if out.Plan.Steps, err = stepsOf(op, a.Plan.Steps); err != nil {
		return Applied{}, err
	}
	if out.Plan.Conflicts, err = conflictsOf(op, a.Plan.Conflicts); err != nil {
		return Applied{}, err
	}
	if a.Report != nil {
		if out.Report, err = reportOf(op, *a.Report); err != nil {
			return Applied{}, err
		}
	}
	if a.Problem != nil {
		return out, a.Problem.Err(op)
	}
	return out, nil
}

func discardOf(ctx context.Context, c *API, name string, paths []string) ([]Change, error) {
	d, err := c.DiscardChanges(ctx, name, api.DiscardChanges{Paths: pathTexts(paths)})
	if err != nil {
		return nil, err
	}
	return entriesOf("discard", d.Items)
}

func undoOf(ctx context.Context, c *API, name, id string, partial bool) (Undone, error) {
	const op = "undo"
	u, err := c.UndoChanges(ctx, name, api.UndoChanges{ID: id, Partial: partial})
	if err != nil {
		return Undone{}, err
	}
	out := Undone{ID: u.ID, Folder: u.Folder}
	if out.Report, err = reportOf(op, u.Report); err != nil {
		return Undone{}, err
	}
	if u.Problem != nil {
		return out, u.Problem.Err(op)
	}
	return out, nil
}

func pathTexts(paths []string) (out []string) {
	for _, p := range paths {
		out = append(out, api.PathText(p))
	}
	return out
}

// unreadable is the error for an answer with a path or mode that none has.
func unreadable(op string) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Message: "the answer of the daemon cannot be read: it has a change that none can be"}
}

func entriesOf(op string, list []api.WorkspaceChange) (out []Change, err error) {
	for _, c := range list {
		e, ok := c.Entry()
		if !ok {
			return nil, unreadable(op)
		}
		out = append(out, e)
	}
	return out, nil
}

func stepsOf(op string, list []api.ChangeStep) (out []change.Step, err error) {
	for _, s := range list {
		path, ok := api.PathOf(s.Path)
		if !ok {
			return nil, unreadable(op)
		}
		out = append(out, change.Step{Path: path, Action: s.Action})
	}
	return out, nil
}

func conflictsOf(op string, list []api.ChangeConflict) (out []change.Conflict, err error) {
	for _, c := range list {
		path, ok := api.PathOf(c.Path)
		if !ok {
			return nil, unreadable(op)
		}
		out = append(out, change.Conflict{Path: path, Why: c.Why})
	}
	return out, nil
}

func reportOf(op string, r api.ChangeReport) (out *change.Report, err error) {
	out = &change.Report{}
	if out.Done, err = stepsOf(op, r.Done); err == nil {
		out.Conflicts, err = conflictsOf(op, r.Conflicts)
	}
	return out, err
}

// managerChanges shows and applies the changes in workspaces behind a daemon, with
// the methods that the command line uses.
type managerChanges struct{ d *Manager }

// Changes returns what shows and applies changes.
func (d *Manager) Changes() managerChanges { return managerChanges{d} }

// at returns the client for a request, and the name of the sandbox of its
// session.
func (k managerChanges) at(ctx context.Context, r manager.Request, op string) (c *API, name string, err error) {
	if c, err = k.d.as(r.Who).WithSettings(r.Flags); err != nil {
		return nil, "", err
	}
	name, err = k.d.ownSandbox(ctx, r.Who, op)
	return c, name, err
}

// Changes calls fn with what was changed in the workspace of a session.
func (k managerChanges) Changes(ctx context.Context, r manager.Request, o ChangeOptions, fn func(*Changes) error) error {
	c, name, err := k.at(ctx, r, "diff")
	if err != nil {
		return err
	}
	found, err := changesOf(ctx, c, name, o)
	if err != nil {
		return err
	}
	return fn(found)
}

// Apply carries the changes of a session over to the folder of the daemon's
// machine.
func (k managerChanges) Apply(ctx context.Context, r manager.Request, o ApplyOptions) (Applied, error) {
	c, name, err := k.at(ctx, r, "apply")
	if err != nil {
		return Applied{}, err
	}
	return applyTo(ctx, c, name, o)
}

// Discard gives up what was changed in the workspace of a session.
func (k managerChanges) Discard(ctx context.Context, r manager.Request, paths []string) ([]Change, error) {
	c, name, err := k.at(ctx, r, "discard")
	if err != nil {
		return nil, err
	}
	return discardOf(ctx, c, name, paths)
}

// Undo takes back what was applied.
func (k managerChanges) Undo(ctx context.Context, r manager.Request, id string, partial bool) (Undone, error) {
	c, name, err := k.at(ctx, r, "undo")
	if err != nil {
		return Undone{}, err
	}
	return undoOf(ctx, c, name, id, partial)
}
