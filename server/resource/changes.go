// This file holds the resource for what was changed in workspaces: it is shown,
// carried over to the folder of the host, taken back from there, and given up.

package resource

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
	"github.com/bulkhead-dev/sandbox/workspace/change"
)

// A ChangeKeeper knows what was changed in workspaces; *manager.Manager is one.
type ChangeKeeper interface {
	Finder
	checkpointFinder
	Changes(ctx context.Context, req manager.Request, o manager.ChangeOptions, fn func(*manager.Changes) error) error
	Apply(ctx context.Context, req manager.Request, o manager.ApplyOptions) (manager.Applied, error)
	Discard(ctx context.Context, req manager.Request, paths []string) ([]change.Entry, error)
	Undo(ctx context.Context, req manager.Request, id string, partial bool) (manager.Undone, error)
}

// A changesResource has the routes.
type changesResource struct{ m ChangeKeeper }

// NewChanges returns the resource.
func NewChanges(m ChangeKeeper) *changesResource { return &changesResource{m} }

// changePathLength is the most bytes of a quoted path, which has at most four for each
// byte of the path.
const changePathLength = 4*4000 + 2

// Routes implements [Resource].
//
// Only an admin applies and takes back: both write to a folder of the host, and
// only admins name folders of the host. The daemon reads and restores files for the
// other two that the user of the sandbox may not read, so a session, whose token an
// agent may hold, does neither.
func (x *changesResource) Routes() []Route {
	const tag = "changes"
	return []Route{
		{
			ID: "listChanges", Settings: true, Method: "GET", Path: one + "/changes", Tag: tag, Role: token.Tenant, Timeout: transferTime,
			Summary: "Show what was changed in the workspace of a sandbox",
			Doc: "A private workspace is compared with the folder that it is a view of, another one with its last checkpoint. No sandbox has to run. " +
				"With format, or with Accept: text/x-diff, the answer is text: patches as git diff writes them and git apply accepts them, a line for each file with the number of its lines, or the paths.",
			Query: []Param{
				{Name: "since", Length: 128, Doc: "The id or name of a checkpoint to compare with"},
				{Name: "path", Length: changePathLength, Repeat: true, Doc: "A file or folder to compare, relative to the workspace and written as in the answer; all of them without"},
				{Name: "format", Enum: []string{"json", "patch", "stat", "name-only"}, Doc: "json without, unless the request accepts text/x-diff"},
				{Name: "terminal", Type: Boolean, Doc: "Show what could steer a terminal as escapes; of text"},
				{Name: "color", Type: Boolean, Doc: "Colour the text as git does; implies terminal"},
				{Name: "width", Type: Integer, Min: 20, Max: 1000, Doc: "Columns of the format stat; 80 without"},
			},
			Response: api.ChangeList{}, ResponseContent: []string{api.ContentPatch, api.ContentPlain}, Errors: []int{403, 404, 409, 429, 501, 503, 504}, Do: x.list,
		},
		{
			ID: "applyChanges", Settings: true, Method: "POST", Path: one + "/apply", Tag: tag, Role: token.Admin, Timeout: transferTime,
			Summary: "Apply the changes of a private workspace to its folder on the host",
			Doc: "What changed there meanwhile is merged, or conflicts and stays. What can make the host run code needs a consent by risk or path. Without partial nothing is done where something conflicts or has no consent: " +
				"the answer then has status 200, the plan, applied false, and the problem.",
			Request: api.ApplyChanges{}, Response: api.AppliedChanges{}, Errors: []int{403, 404, 409, 429, 501, 503, 504}, Do: x.apply,
		},
		{
			ID: "discardChanges", Settings: true, Method: "POST", Path: one + "/discard", Tag: tag, Role: token.Tenant, Timeout: transferTime,
			Summary: "Give up what was changed in the workspace of a sandbox",
			Doc:     "A private workspace becomes what its folder is, another one what its last checkpoint kept. The folder of the host stays as it is.",
			Request: api.DiscardChanges{}, Response: api.DiscardedChanges{}, Errors: []int{403, 404, 409, 429, 501, 503, 504}, Do: x.discard,
		},
		{
			ID: "undoChanges", Settings: true, Method: "POST", Path: one + "/undo", Tag: tag, Role: token.Admin, Timeout: transferTime,
			Summary: "Take back what applyChanges did to a folder of the host",
			Doc:     "A file that changed since is a conflict. Without partial nothing is done then: the answer has status 200, the conflicts, and the problem.",
			Request: api.UndoChanges{}, Response: api.UndoneChanges{}, Errors: []int{403, 404, 409, 429, 501, 503, 504}, Do: x.undo,
		},
	}
}

// request returns the request to the manager for a sandbox that the caller may
// use.
func (x *changesResource) request(c *Call) (manager.Request, lookupSandbox, error) {
	at, err := Find(c, x.m)
	if err != nil {
		return manager.Request{}, at, err
	}
	// The manager finds the sandbox by the session and the settings.
	name, err := x.m.Name(at.Who, c.Settings)
	if err == nil && name != at.Name {
		err = &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "find", Resource: at.Name, Field: api.HeaderSettings, Message: "by these settings another sandbox is that of the session",
			Hint: "send the settings that the sandbox was made with",
		}
	}
	return manager.Request{Who: at.Who, Flags: c.Settings, MustExist: true}, at, err
}

// changePaths reads paths of a request.
func changePaths(field string, texts []string) ([]string, error) {
	var out []string
	for _, text := range texts {
		path, ok := api.PathOf(text)
		if !ok || path == "" {
			return nil, Invalid(field, "has a path that is empty, or is not quoted as git quotes names")
		}
		out = append(out, path)
	}
	return out, nil
}

func (x *changesResource) list(c *Call) (any, error) {
	paths, err := changePaths("path", c.Texts("path"))
	if err != nil {
		return nil, err
	}
	req, at, err := x.request(c)
	if err != nil {
		return nil, err
	}
	o := manager.ChangeOptions{Paths: paths}
	if o.Since, err = fromCheckpoint(c, x.m, at.Who.Tenant, c.Text("since")); err != nil {
		return nil, err
	}
	format := c.Text("format")
	if format == "" && c.Accepts(api.ContentPatch) {
		format = "patch"
	}
	var out any
	err = x.m.Changes(c.Context(), req, o, func(found *manager.Changes) error {
		if format == "" || format == "json" {
			list := api.ChangeList{Items: api.ChangesOf(found.Entries), Since: found.Since}
			if c.Admin() {
				list.Folder = found.Folder
			}
			out = list
			return nil
		}
		out = Sent{}
		return renderChanges(c, found, format)
	})
	if err != nil {
		return nil, changeErr(c, at, err)
	}
	return out, nil
}

// renderChanges answers with changes as text.
func renderChanges(c *Call, found *manager.Changes, format string) error {
	o := change.RenderOptions{Terminal: c.True("terminal"), Color: c.True("color"), Width: int(c.Number("width", 0))}
	content := api.ContentPlain
	switch format {
	case "patch":
		content = api.ContentPatch
	case "stat":
		o.Format = change.Stat
	case "name-only":
		o.Format = change.NameOnly
	}
	h := c.Writer.Header()
	h.Set("Content-Type", content)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "no-store")
	if c.Request.Method == http.MethodHead {
		c.Writer.WriteHeader(http.StatusOK)
		return nil
	}
	out := &started{w: c.Writer}
	err := found.Render(c.Context(), out, o)
	switch {
	case err != nil && out.any():
		return fmt.Errorf("%w: %w", errCut, err)
	case err != nil:
		h.Del("Content-Security-Policy") // what follows is a problem
	case !out.any():
		c.Writer.WriteHeader(http.StatusOK) // nothing differs
	}
	return err
}

func (x *changesResource) apply(c *Call) (any, error) {
	in, err := Body[api.ApplyChanges](c)
	if err != nil {
		return nil, err
	}
	o := manager.ApplyOptions{AllowRisks: in.AllowRisks, Partial: in.Partial, DryRun: in.DryRun, Digest: in.Digest}
	if o.Paths, err = changePaths("paths", in.Paths); err != nil {
		return nil, err
	}
	if o.AllowPaths, err = changePaths("allowPaths", in.AllowPaths); err != nil {
		return nil, err
	}
	for _, r := range in.AllowRisks {
		if !slices.Contains(change.Risks(), r) {
			return nil, Invalid("allowRisks", "has a risk that no consent covers")
		}
	}
	req, at, err := x.request(c)
	if err != nil {
		return nil, err
	}
	done, err := x.m.Apply(c.Context(), req, o)
	if err != nil && done.Plan == nil {
		return nil, changeErr(c, at, err)
	}
	out := api.AppliedChangesOf(done)
	if err != nil {
		out.Problem = x.problem(c, at, err)
	}
	return out, nil
}

func (x *changesResource) discard(c *Call) (any, error) {
	in, err := Body[api.DiscardChanges](c)
	if err != nil {
		return nil, err
	}
	paths, err := changePaths("paths", in.Paths)
	if err != nil {
		return nil, err
	}
	if _, err := Own(c, x.m); err != nil {
		return nil, err
	}
	req, at, err := x.request(c)
	if err != nil {
		return nil, err
	}
	list, err := x.m.Discard(c.Context(), req, paths)
	if err != nil {
		return nil, changeErr(c, at, err)
	}
	return api.DiscardedChanges{Items: api.ChangesOf(list)}, nil
}

func (x *changesResource) undo(c *Call) (any, error) {
	in, err := Body[api.UndoChanges](c)
	if err != nil {
		return nil, err
	}
	req, at, err := x.request(c)
	if err != nil {
		return nil, err
	}
	done, err := x.m.Undo(c.Context(), req, in.ID, in.Partial)
	if err != nil && done.Report == nil {
		return nil, changeErr(c, at, err)
	}
	out := api.UndoneChangesOf(done)
	if err != nil {
		out.Problem = x.problem(c, at, err)
	}
	return out, nil
}

// problem returns an error for an answer that has more than the error.
func (x *changesResource) problem(c *Call, at lookupSandbox, err error) *api.Problem {
	p := c.Problem(c.Why(changeErr(c, at, err)))
	return &p
}

// changeErr returns an error as the caller may see it: only admins see folders of
// the host. A path of the workspace that is no text is quoted.
func changeErr(c *Call, at lookupSandbox, err error) error {
	e, ok := errors.AsType[*sandbox.Error](err)
	if !ok {
		return err
	}
	if !c.Admin() {
		hidden := filepath.IsAbs(strings.Trim(e.Resource, `"`))
		for _, text := range []string{e.Message, e.Field, e.Hint} {
			hidden = hidden || filepath.IsAbs(at.Record.Workspace) && strings.Contains(text, filepath.Dir(at.Record.Workspace))
		}
		switch e.Code {
		case sandbox.CodeUnsupported:
			return &sandbox.Error{
				Code: e.Code, Op: e.Op, Resource: at.Name, Err: err,
				Message: "the changes of this workspace cannot be compared here", Hint: "ask the operator to make it private with workspaceAccess",
			}
		case sandbox.CodeUnavailable, sandbox.CodeExecution:
			hidden = true
		}
		if hidden {
			return &sandbox.Error{
				Code: e.Code, Op: e.Op, Resource: at.Name, Message: "the changes of the workspace cannot be used", Retryable: e.Retryable, Err: err,
				Hint: "report the id of this request to the operator of the server",
			}
		}
	}
	if utf8.ValidString(e.Resource) {
		return err
	}
	quoted := *e
	quoted.Resource, quoted.Err = change.Quote(e.Resource), err
	return &quoted
}
