package resource_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// A checkpointRig is a daemon with a manager that records checkpoints.
type checkpointRig struct {
	*served.Rig
	keeper *served.Checkpoints
}

const checkpointBound = 64 // bytes of an import

func newCheckpointRig(t *testing.T, settings string) *checkpointRig {
	t.Helper()
	r := &checkpointRig{}
	r.Rig = served.New(t, served.Options{Settings: settings, Resources: func(s *served.Rig) []resource.Resource {
		r.keeper = served.KeepCheckpoints(s.Manager)
		answers, err := resource.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		boxes := resource.NewSandboxes(resource.Options{Manager: r.keeper, Answers: answers, Log: s.Log})
		t.Cleanup(boxes.Close)
		return []resource.Resource{boxes, resource.NewCheckpoints(resource.CheckpointOptions{Manager: r.keeper, MaxImport: func() int64 { return checkpointBound }})}
	}})
	return r
}

// keep makes a checkpoint of a sandbox.
func (r *checkpointRig) keep(as, sandbox, body string) api.Checkpoint {
	r.T.Helper()
	a := r.Want(201, as, "POST", "/v1/sandboxes/"+sandbox+"/checkpoints", body)
	made := served.JSON[api.Checkpoint](r.T, a)
	if a.Header.Get("Location") != "/v1/checkpoints/"+made.ID {
		r.T.Errorf("it is at %q", a.Header.Get("Location"))
	}
	return made
}

// ids are the ids of a page.
func ids(p api.CheckpointPage) string {
	var out []string
	for _, one := range p.Items {
		out = append(out, one.ID)
	}
	return strings.Join(out, " ")
}

func TestCheckpoints(t *testing.T) {
	t.Parallel()
	r := newCheckpointRig(t, "")
	box := r.Ready("acme", "s1")
	a := r.Want(201, "acme", "POST", "/v1/sandboxes/"+box+"/checkpoints", `{"name":"built"}`)
	for _, secret := range []string{"of-the-host", "private", "f ()"} {
		if strings.Contains(string(a.Body), secret) {
			t.Errorf("the answer shows %q: %s", secret, a.Body)
		}
	}
	made := served.JSON[api.Checkpoint](t, a)
	if made.Name != "built" || made.Sandbox != box || made.Tenant != "acme" || made.Agent != "main" || made.Session != "s1" || made.Means != "copy" ||
		len(made.Folders) != 1 || made.Folders[0].Target != "/workspace" || len(made.Running) != 1 || made.Running[0].PID != 7 {
		t.Errorf("%+v", made)
	}
	if s := made.Shells[0]; s.Stale || s.Cwd != "/workspace" {
		t.Errorf("the shell is %+v", s)
	}
	if p := r.Want(409, "acme", "POST", "/v1/sandboxes/"+box+"/checkpoints", `{"name":"built"}`).Problem(t); p.Code != sandbox.CodeBusy || p.Field != "name" {
		t.Errorf("%+v", p)
	}
	second := r.keep("acme-s1", box, "")
	for _, ref := range []string{"built", made.ID} {
		if got := served.JSON[api.Checkpoint](t, r.Want(200, "acme-s1", "GET", "/v1/checkpoints/"+ref, "")); got.ID != made.ID {
			t.Errorf("%s is %+v", ref, got)
		}
	}
	back := served.JSON[api.RolledBack](t, r.Want(200, "acme-s1", "POST", "/v1/sandboxes/"+box+"/rollback", `{"checkpoint":"built"}`))
	if back.Checkpoint.ID != made.ID || !back.Recreated || len(back.Ended) != 1 || back.Ended[0].Args[0] != "npm" {
		t.Errorf("%+v", back)
	}
	for body, field := range map[string]string{`{}`: "checkpoint", `{"checkpoint":""}`: "checkpoint", `{"checkpoint":"a","more":1}`: "more"} {
		if p := r.Want(422, "acme", "POST", "/v1/sandboxes/"+box+"/rollback", body).Problem(t); p.Field != field {
			t.Errorf("%s: %+v", body, p)
		}
	}
	r.Want(404, "acme", "POST", "/v1/sandboxes/"+box+"/rollback", `{"checkpoint":"none"}`)
	r.Want(204, "acme-s1", "DELETE", "/v1/checkpoints/"+second.ID, "")
	r.Want(404, "acme-s1", "DELETE", "/v1/checkpoints/"+second.ID, "")
}

// TestCheckpointsOfOthers holds that another tenant finds neither checkpoint nor
// sandbox, that a session finds those of its own, and that the answer is that for
// what does not exist.
func TestCheckpointsOfOthers(t *testing.T) {
	t.Parallel()
	r := newCheckpointRig(t, "")
	box, theirs := r.Ready("acme", "s1"), r.Ready("evil", "s1")
	made := r.keep("acme", box, `{"name":"built"}`)
	r.Want(200, "acme-s2", "GET", "/v1/checkpoints", "")
	for _, as := range []string{"evil", "acme-s2"} {
		own := theirs
		if as == "acme-s2" {
			own = r.Ready("acme", "s2")
		}
		for _, x := range []struct{ method, path, body string }{
			{"GET", "/v1/checkpoints/REF", ""}, {"DELETE", "/v1/checkpoints/REF", ""}, {"GET", "/v1/checkpoints/REF/archive", ""},
			{"POST", "/v1/sandboxes/" + own + "/rollback", `{"checkpoint":"REF"}`}, {"POST", "/v1/sandboxes/" + own + "/fork", `{"from":"REF"}`},
			{"POST", "/v1/sandboxes", `{"session":"s2","from":"REF"}`},
		} {
			text := func(ref string) string {
				p := r.Want(404, as, x.method, strings.ReplaceAll(x.path, "REF", ref), strings.ReplaceAll(x.body, "REF", ref)).Problem(t)
				p.RequestID = ""
				return strings.ReplaceAll(p.Detail+p.Hint+p.Resource+p.Field+string(p.Code), ref, "REF")
			}
			never := text("cp9999")
			if got := text(made.ID); got != never || strings.Contains(got, "acme") {
				t.Errorf("%s %s %s: %q, and one that there is not is %q", as, x.method, x.path, got, never)
			}
			if got := text("built"); got != never {
				t.Errorf("%s %s %s by its name: %q", as, x.method, x.path, got)
			}
		}
		for _, x := range [][2]string{{"GET", "/checkpoints"}, {"POST", "/checkpoints"}, {"POST", "/fork"}, {"POST", "/rollback"}} {
			body := ""
			if x[1] == "/rollback" {
				body = `{"checkpoint":"` + made.ID + `"}`
			}
			r.Want(404, as, x[0], "/v1/sandboxes/"+box+x[1], body)
		}
		if page := served.JSON[api.CheckpointPage](t, r.Want(200, as, "GET", "/v1/checkpoints", "")); len(page.Items) != 0 {
			t.Errorf("%s sees %+v", as, page)
		}
	}
	if r.keeper.Began("s2") != "" {
		t.Error("a sandbox began with a checkpoint of another session")
	}
	r.Want(401, "nobody", "GET", "/v1/checkpoints", "")
	// An admin names the tenant.
	r.Want(404, "root", "GET", "/v1/checkpoints/"+made.ID, "")
	r.Want(200, "root", "GET", "/v1/checkpoints/"+made.ID, "", api.HeaderTenant, "acme")
}

func TestCheckpointPages(t *testing.T) {
	t.Parallel()
	r := newCheckpointRig(t, "")
	one, two := r.Ready("acme", "s1"), r.Ready("acme", "s2")
	for range 3 {
		r.keep("acme", one, "")
		r.keep("acme", two, "")
	}
	for _, tt := range []struct{ as, at, want string }{
		{"acme", "/v1/checkpoints", "cp0001 cp0002 cp0003 cp0004 cp0005 cp0006"}, {"acme-s1", "/v1/checkpoints", "cp0001 cp0003 cp0005"},
		{"acme", "/v1/checkpoints?session=s2", "cp0002 cp0004 cp0006"}, {"acme-s1", "/v1/checkpoints?session=s2", ""},
		{"acme", "/v1/checkpoints?agent=other", ""}, {"acme", "/v1/checkpoints?sandbox=" + two, "cp0002 cp0004 cp0006"},
		{"acme", "/v1/sandboxes/" + one + "/checkpoints", "cp0001 cp0003 cp0005"}, {"acme-s1", "/v1/sandboxes/" + one + "/checkpoints", "cp0001 cp0003 cp0005"},
	} {
		if got := ids(served.JSON[api.CheckpointPage](t, r.Want(200, tt.as, "GET", tt.at, ""))); got != tt.want {
			t.Errorf("%s: %s has %q, want %q", tt.as, tt.at, got, tt.want)
		}
	}
	first := served.JSON[api.CheckpointPage](t, r.Want(200, "acme", "GET", "/v1/checkpoints?limit=3", ""))
	if ids(first) != "cp0001 cp0002 cp0003" || first.Next == "" {
		t.Fatalf("%+v", first)
	}
	r.Want(204, "acme", "DELETE", "/v1/checkpoints/cp0003", "") // the last one of the page
	rest := served.JSON[api.CheckpointPage](t, r.Want(200, "acme", "GET", "/v1/checkpoints?limit=3&cursor="+first.Next, ""))
	if ids(rest) != "cp0004 cp0005 cp0006" || rest.Next != "" {
		t.Errorf("%+v", rest)
	}
	for _, wrong := range []string{"x", "bjph", "Yzo", "YzoxMg"} {
		if p := r.Want(422, "acme", "GET", "/v1/checkpoints?cursor="+wrong, "").Problem(t); p.Field != "cursor" {
			t.Errorf("%s: %+v", wrong, p)
		}
	}
}

func TestCheckpointArchives(t *testing.T) {
	t.Parallel()
	r := newCheckpointRig(t, "")
	made := r.keep("acme", r.Ready("acme", "s1"), "")
	at := "/v1/checkpoints/" + made.ID + "/archive"
	a := r.Want(200, "acme-s1", "GET", at, "")
	if a.Header.Get("Content-Type") != api.ContentCheckpoint || string(a.Body) != "archive of "+made.ID || !strings.Contains(a.Header.Get("Content-Disposition"), made.ID+".tar.zst") {
		t.Errorf("%v %s", a.Header, a.Body)
	}
	r.Want(200, "acme-s1", "HEAD", at, "")
	again := served.JSON[api.Checkpoint](t, r.Want(201, "acme", "POST", "/v1/checkpoints?name=copy", string(a.Body), "Content-Type", api.ContentCheckpoint, api.HeaderSession, "s9"))
	if again.Name != "copy" || again.Session != "s9" || again.Sandbox != "" || again.Tenant != "acme" {
		t.Errorf("%+v", again)
	}
	for body, status := range map[string]int{"": 422, "no archive": 422, strings.Repeat("x", checkpointBound+1): 413} {
		r.Want(status, "acme", "POST", "/v1/checkpoints", body, "Content-Type", api.ContentCheckpoint)
	}
	// One whose length is not known before is bounded too.
	res, err := r.Send(t.Context(), "acme", "POST", "/v1/checkpoints", struct{ *strings.Reader }{strings.NewReader(strings.Repeat("x", checkpointBound+1))}, "Content-Type", api.ContentCheckpoint)
	if err != nil || res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%v, %v", res, err)
	} else {
		res.Body.Close()
	}
	r.Want(403, "acme-s1", "POST", "/v1/checkpoints", string(a.Body), "Content-Type", api.ContentCheckpoint, api.HeaderSession, "s2")
	// An archive that is cut off does not end as a whole one does.
	r.keeper.Broken = &sandbox.Error{Code: sandbox.CodeExecution, Op: "export checkpoint", Message: "a layer is damaged"}
	cut, err := r.Send(t.Context(), "acme", "GET", at, nil)
	if err == nil {
		_, err = io.Copy(io.Discard, cut.Body)
		cut.Body.Close()
	}
	if err == nil {
		t.Error("an archive that was cut off looks complete")
	}
}

func TestForks(t *testing.T) {
	t.Parallel()
	r := newCheckpointRig(t, "")
	box := r.Ready("acme", "s1")
	r.Ready("acme", "s1-fork-2")
	list := served.JSON[api.ForkList](t, r.Want(200, "acme", "POST", "/v1/sandboxes/"+box+"/fork", `{"count":2}`))
	if len(list.Items) != 2 || list.Items[0].Session != "s1-fork-1" || list.Items[1].Session != "s1-fork-3" {
		t.Fatalf("%+v", list)
	}
	for _, f := range list.Items {
		if f.Problem != nil || f.Name == "" || f.Name == box || f.Checkpoint != "cp0001" || r.keeper.Began(f.Session) != "cp0001" {
			t.Errorf("%+v, which began with %q", f, r.keeper.Began(f.Session))
		}
		r.Want(200, "acme", "GET", "/v1/sandboxes/"+f.Name, "")
	}
	list = served.JSON[api.ForkList](t, r.Want(200, "acme", "POST", "/v1/sandboxes/"+box+"/fork", `{"from":"cp0001","sessions":["s1","new"]}`))
	if p := list.Items[0].Problem; p == nil || p.Code != sandbox.CodeBusy || list.Items[0].Name != "" || list.Items[1].Problem != nil || list.Items[1].Name == "" {
		t.Errorf("%+v", list)
	}
	if list = served.JSON[api.ForkList](t, r.Want(200, "acme", "POST", "/v1/sandboxes/"+box+"/fork", "")); len(list.Items) != 1 || list.Items[0].Session != "s1-fork-4" {
		t.Errorf("%+v", list)
	}
	for body, field := range map[string]string{
		`{"count":-1}`: "count", `{"count":101}`: "count", `{"count":1,"sessions":["a"]}`: "sessions", `{"sessions":["a","a"]}`: "sessions", `{"sessions":[""]}`: "session", `{"from":1}`: "from",
	} {
		if p := r.Want(422, "acme", "POST", "/v1/sandboxes/"+box+"/fork", body).Problem(t); p.Field != field {
			t.Errorf("%s: %+v", body, p)
		}
	}
	// A token of one session is for none of a fork.
	if p := r.Want(403, "acme-s1", "POST", "/v1/sandboxes/"+box+"/fork", "").Problem(t); p.Code != sandbox.CodePermissionDeny {
		t.Errorf("%+v", p)
	}
	r.Want(403, "acme-s1", "POST", "/v1/sandboxes/"+box+"/fork", `{"sessions":["s2"]}`)
	if r.keeper.Began("s2") != "" {
		t.Error("the token of a session has made a fork")
	}
}

// TestSandboxFromCheckpoint holds that a new sandbox begins with the checkpoint,
// alone and with fields of its own, and one that is there does not.
func TestSandboxFromCheckpoint(t *testing.T) {
	t.Parallel()
	r := newCheckpointRig(t, "")
	made := r.keep("acme", r.Ready("acme", "s1"), `{"name":"built"}`)
	r.Want(201, "acme", "POST", "/v1/sandboxes", `{"session":"a","from":"built"}`)
	r.Want(201, "acme", "POST", "/v1/sandboxes", `{"session":"b","from":"`+made.ID+`","timeout":60}`)
	if r.Ready("acme", "c"); r.keeper.Began("a") != made.ID || r.keeper.Began("b") != made.ID || r.keeper.Began("c") != "" {
		t.Errorf("they began with %q, %q and %q", r.keeper.Began("a"), r.keeper.Began("b"), r.keeper.Began("c"))
	}
	if p := r.Want(409, "acme", "POST", "/v1/sandboxes", `{"session":"a","from":"built"}`).Problem(t); p.Code != sandbox.CodeBusy || p.Field != "from" {
		t.Errorf("%+v", p)
	}
	if p := r.Want(422, "acme", "POST", "/v1/sandboxes", `{"session":"d","from":"built","wait":false}`).Problem(t); p.Field != "wait" {
		t.Errorf("%+v", p)
	}
	key := []string{"Content-Type", api.ContentJSON, api.HeaderIdempotency, "k"}
	r.Want(201, "acme", "POST", "/v1/sandboxes", `{"session":"e","from":"built"}`, key...)
	r.Want(201, "acme", "POST", "/v1/sandboxes", `{"session":"e","from":"`+made.ID+`"}`, key...) // the same one
	r.Want(422, "acme", "POST", "/v1/sandboxes", `{"session":"e"}`, key...)
}

// TestCheckpointTool holds that an agent's token makes checkpoints and goes back
// to them as the settings allow it the tool, and a tenant's does in any case.
func TestCheckpointTool(t *testing.T) {
	t.Parallel()
	r := newCheckpointRig(t, `{"agents": {"defaults": {"sandbox": {"provider": "local", "tools": {"deny": ["checkpoint"]}}}}}`)
	box := r.Ready("acme", "s1")
	made := r.keep("acme", box, "")
	for path, body := range map[string]string{"/checkpoints": "", "/rollback": `{"checkpoint":"` + made.ID + `"}`} {
		if p := r.Want(403, "acme-s1", "POST", "/v1/sandboxes/"+box+path, body).Problem(t); p.Code != sandbox.CodeDenyTool {
			t.Errorf("%s: %+v", path, p)
		}
	}
	r.Want(200, "acme", "POST", "/v1/sandboxes/"+box+"/rollback", `{"checkpoint":"`+made.ID+`"}`)
	// Where sessions share the sandbox one of them does not give up the others' work.
	r = newCheckpointRig(t, `{"agents": {"defaults": {"sandbox": {"provider": "local", "scope": "agent"}}}}`)
	box = r.Ready("acme", "s1")
	made = r.keep("acme-s1", box, "")
	r.Want(200, "acme-s2", "GET", "/v1/checkpoints/"+made.ID, "")
	r.Want(403, "acme-s2", "POST", "/v1/sandboxes/"+box+"/rollback", `{"checkpoint":"`+made.ID+`"}`)
	r.Want(403, "acme-s2", "DELETE", "/v1/checkpoints/"+made.ID, "")
	if p := r.Want(501, "acme", "POST", "/v1/sandboxes/"+box+"/fork", "").Problem(t); p.Code != sandbox.CodeUnsupported || p.Field != "scope" {
		t.Errorf("%+v", p)
	}
}
