package resource_test

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/workspace/change"
)

// A changesRig is a daemon with a manager that makes changes up.
type changesRig struct {
	*served.Rig
	keeper *served.Changes
}

func newChangesRig(t *testing.T, settings string) *changesRig {
	t.Helper()
	r := &changesRig{}
	r.Rig = served.New(t, served.Options{Settings: settings, Resources: func(s *served.Rig) []resource.Resource {
		r.keeper = served.KeepChanges(s.Manager)
		return []resource.Resource{resource.NewChanges(r.keeper), resource.NewCheckpoints(resource.CheckpointOptions{Manager: r.keeper.Kept})}
	}})
	return r
}

// oddText is served.OddName as JSON has it.
const oddText = `"\"odd\\377\\n\\\"name\""`

func TestChanges(t *testing.T) {
	t.Parallel()
	r := newChangesRig(t, "")
	box := r.Ready("acme", "s1")
	at := "/v1/sandboxes/" + box
	a := r.Want(200, "acme", "GET", at+"/changes", "")
	if strings.Contains(a.Body, served.HostFolder) || !strings.Contains(a.Body, `"path":`+oddText) || strings.Contains(a.Body, "�") {
		t.Errorf("the changes: %s", a.Body)
	}
	list := served.JSON[api.ChangeList](t, a)
	for i, want := range []struct{ oldMode, mode string }{{"", "100755"}, {"100644", "104600"}, {"040755", "120777"}, {"100000", ""}} {
		if c := list.Items[i]; c.OldMode != want.oldMode || c.Mode != want.mode {
			t.Errorf("%s has the modes %q and %q", c.Path, c.OldMode, c.Mode)
		}
	}
	if f := list.Items[0].Findings; len(f) != 2 || f[0].Consent != "own" || f[1].Consent != "apply" || f[0].Risk != change.RiskGit {
		t.Errorf("%+v", f)
	}
	for i, c := range list.Items {
		e, ok := c.Entry()
		if again := api.ChangesOf([]change.Entry{e})[0]; !ok || again.Path != c.Path || again.Mode != c.Mode || again.OldMode != c.OldMode || again.Link != c.Link {
			t.Errorf("%+v becomes %+v", c, e)
		}
		if i == 1 && e.Path != served.OddName || i == 2 && e.Link != "\xfe" {
			t.Errorf("%+v", e)
		}
	}
	// An admin sees the folder.
	if list := served.JSON[api.ChangeList](t, r.Want(200, "root", "GET", at+"/changes", "", api.HeaderTenant, "acme")); list.Folder != served.HostFolder {
		t.Errorf("the folder is %q", list.Folder)
	}
	r.Want(200, "acme", "GET", at+"/changes?path=a&path=%22odd%5C377%5Cn%5C%22name%22", "")
	if got := r.keeper.Asked.Paths; !slices.Equal(got, []string{"a", served.OddName}) {
		t.Errorf("compares %q", got)
	}
	for _, wrong := range []string{"path=%22a", "path=", "path=%ff", "format=x", "width=1", "terminal=1"} {
		r.Want(422, "acme", "GET", at+"/changes?"+wrong, "")
	}
	for _, tt := range []struct{ query, accept, content, want string }{
		{"?format=patch", "", api.ContentPatch, "\xff"}, {"", api.ContentPatch, api.ContentPatch, "\xff"}, {"?format=stat", "", api.ContentPlain, "stat\xff"},
		{"?format=name-only", api.ContentPatch, api.ContentPlain, "name-only\xff"},
	} {
		var header []string
		if tt.accept != "" {
			header = []string{"Accept", tt.accept}
		}
		if a := r.Want(200, "acme", "GET", at+"/changes"+tt.query, "", header...); a.Body != tt.want || a.Header.Get("Content-Type") != tt.content || a.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: %q, %v", tt.query, tt.accept, a.Body, a.Header)
		}
	}
	if a := r.Want(200, "acme", "HEAD", at+"/changes?format=patch", ""); a.Header.Get("Content-Type") != api.ContentPatch {
		t.Errorf("%v", a.Header)
	}
	// The checkpoint is found by its name, and one of another is not.
	r.Want(201, "acme", "POST", at+"/checkpoints", `{"name":"built"}`)
	if list := served.JSON[api.ChangeList](t, r.Want(200, "acme", "GET", at+"/changes?since=built", "")); list.Since != "cp0001" || r.keeper.Asked.Since != "cp0001" {
		t.Errorf("since %q, %q", list.Since, r.keeper.Asked.Since)
	}
	r.Want(404, "acme", "GET", at+"/changes?since=none", "")

	gone := served.JSON[api.DiscardedChanges](t, r.Want(200, "acme", "POST", at+"/discard", `{"paths":["a",`+oddText+`]}`))
	if len(gone.Items) != 4 || !slices.Equal(r.keeper.Took, []string{"a", served.OddName}) {
		t.Errorf("%+v of %q", gone, r.keeper.Took)
	}
}

// TestApply holds that an application that is refused answers with the plan, and
// what the manager is asked for.
func TestApply(t *testing.T) {
	t.Parallel()
	r := newChangesRig(t, "")
	at := "/v1/sandboxes/" + r.Ready("acme", "s1")
	post := func(status int, path, body string) served.Answer {
		t.Helper()
		return r.Want(status, "root", "POST", at+path, body, "Content-Type", api.ContentJSON, api.HeaderTenant, "acme")
	}
	refused := served.JSON[api.AppliedChanges](t, post(200, "/apply", ""))
	if p := refused.Problem; refused.Applied || refused.ID != "" || refused.Report != nil || len(refused.Plan.Refused) != 1 || refused.Plan.Digest != "d1" ||
		p == nil || p.Code != sandbox.CodeCapabilityBlocked || p.Resource != change.Quote(served.OddName) || p.Hint == "" {
		t.Errorf("%+v, %+v", refused, refused.Problem)
	}
	if dry := served.JSON[api.AppliedChanges](t, post(200, "/apply", `{"dryRun":true}`)); dry.Applied || dry.Problem != nil || len(dry.Plan.Steps) != 1 || dry.Report != nil {
		t.Errorf("%+v", dry)
	}
	done := served.JSON[api.AppliedChanges](t, post(200, "/apply", `{"paths":["a"],"allowRisks":["git"],"allowPaths":[`+oddText+`],"partial":true,"digest":"d1"}`))
	if !done.Applied || done.ID != "a1" || done.Folder != served.HostFolder || done.Problem != nil || len(done.Report.Done) != 1 || done.Report.Done[0].Path != change.Quote(served.OddName) {
		t.Errorf("%+v", done)
	}
	if o := r.keeper.Applied; !slices.Equal(o.Paths, []string{"a"}) || !slices.Equal(o.AllowRisks, []change.Risk{change.RiskGit}) || !slices.Equal(o.AllowPaths, []string{served.OddName}) || !o.Partial || o.DryRun || o.Digest != "d1" {
		t.Errorf("%+v", o)
	}
	for body, field := range map[string]string{
		`{"allowRisks":["special"]}`: "allowRisks", `{"allowRisks":["all"]}`: "allowRisks", `{"paths":[""]}`: "paths", `{"allowPaths":["\"x"]}`: "allowPaths", `{"force":true}`: "force",
	} {
		if p := post(422, "/apply", body).Problem(t); p.Field != field {
			t.Errorf("%s: %+v", body, p)
		}
	}
	back := served.JSON[api.UndoneChanges](t, post(200, "/undo", ""))
	if back.Problem == nil || back.Problem.Code != sandbox.CodeBusy || len(back.Report.Done) != 0 || back.Report.Conflicts[0].Path != change.Quote(served.OddName) {
		t.Errorf("%+v", back)
	}
	if back := served.JSON[api.UndoneChanges](t, post(200, "/undo", `{"id":"a1","partial":true}`)); back.Problem != nil || len(back.Report.Done) != 1 {
		t.Errorf("%+v", back)
	}
	post(404, "/undo", `{"id":"a2"}`)
}

// TestWhoMayApply holds that no token but that of an admin applies or takes back,
// that a session's neither shows nor discards, and that another tenant finds
// nothing.
func TestWhoMayApply(t *testing.T) {
	t.Parallel()
	r := newChangesRig(t, "")
	box := r.Ready("acme", "s1")
	r.Ready("evil", "s1")
	at := "/v1/sandboxes/" + box
	for _, tt := range []struct {
		method, path string
		tenant       bool
	}{{"GET", "/changes", true}, {"GET", "/changes?format=patch", true}, {"POST", "/discard", true}, {"POST", "/apply", false}, {"POST", "/undo", false}} {
		for _, who := range []string{"acme-s1", "acme-s2", "acme", "evil"} {
			want := 403
			switch {
			case tt.tenant && who == "acme":
				continue
			case tt.tenant && who == "evil":
				want = 404
			}
			r.Want(want, who, tt.method, at+tt.path, "")
		}
		r.Want(404, "root", tt.method, at+tt.path, "", api.HeaderTenant, "evil")
		r.Want(401, "nobody", tt.method, at+tt.path, "")
	}
	if len(r.keeper.Calls) != 0 {
		t.Errorf("the manager was asked: %q", r.keeper.Calls)
	}
}

// TestChangesHideTheHost holds that an error names folders of the host to admins
// alone, and that a text that is cut off does not end as a whole one does.
func TestChangesHideTheHost(t *testing.T) {
	t.Parallel()
	r := newChangesRig(t, "")
	at := "/v1/sandboxes/" + r.Ready("acme", "s1") + "/changes"
	for _, err := range []*sandbox.Error{
		{Code: sandbox.CodeUnsupported, Message: "its workspace is the folder /srv/of-the-host of the host"}, {Code: sandbox.CodeUnavailable, Message: "cannot use /srv/of-the-host"},
		{Code: sandbox.CodeNotFound, Resource: "/srv/of-the-host", Message: "cannot use it"},
	} {
		r.keeper.Broken = err
		status := err.Code.HTTPStatus()
		if a := r.Want(status, "acme", "GET", at, ""); strings.Contains(a.Body, "of-the-host") || a.Problem(t).Code != err.Code {
			t.Errorf("%s", a.Body)
		}
		if a := r.Want(status, "root", "GET", at, "", api.HeaderTenant, "acme"); !strings.Contains(a.Body, "of-the-host") {
			t.Errorf("an admin does not see: %s", a.Body)
		}
	}
	r.keeper.Broken = &sandbox.Error{Code: sandbox.CodeBusy, Message: "later: the files changed"}
	res, err := r.Send(t.Context(), "acme", "GET", at+"?format=patch", nil)
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	if err == nil {
		t.Error("a patch that was cut off looks complete")
	}
}
