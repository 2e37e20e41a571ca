package server_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

func TestCreateTellsWhetherItWasMade(t *testing.T) {
	h := open(t, plan{})
	res := h.send("", "POST", "/v1/sandboxes", `{"session":"chat-1"}`)
	made := is[api.Sandbox](res, 201)
	if !made.Created || made.Session != "chat-1" || made.Status != sandbox.StatusRunning || res.Header.Get("Location") != "/v1/sandboxes/"+made.Name {
		t.Errorf("made %+v at %q", made, res.Header.Get("Location"))
	}
	again := is[api.Sandbox](h.send("", "POST", "/v1/sandboxes", `{"session":"chat-1"}`), 200)
	if again.Created || again.Name != made.Name || again.ID != made.ID {
		t.Errorf("again %+v", again)
	}
	if got := is[api.Sandbox](h.send("", "GET", "/v1/sandboxes/"+made.Name, nil), 200); got.Name != made.Name || got.ConfigMatch == nil || !*got.ConfigMatch {
		t.Errorf("got %+v", got)
	}
}

func TestCreateIsIdempotentByKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	h := open(t, plan{dir: dir})
	const body = `{"session":"chat-1","idempotencyKey":"k-1"}`
	var wg sync.WaitGroup
	answers := make([]said, 16)
	for i := range answers {
		wg.Go(func() { answers[i] = h.send("", "POST", "/v1/sandboxes", body) })
	}
	wg.Wait()
	replayed := 0
	for _, a := range answers {
		if got := is[api.Sandbox](a, 201); !got.Created { // every caller gets the answer of the first
			t.Errorf("got %+v", got)
		}
		if a.Header.Get(api.HeaderReplayed) == "true" {
			replayed++
		}
		if string(a.body) != string(answers[0].body) {
			t.Errorf("one answer is\n%s\nand another\n%s", answers[0].body, a.body)
		}
	}
	if replayed != len(answers)-1 {
		t.Errorf("%d of %d answers were replayed", replayed, len(answers))
	}
	if p := h.send("", "POST", "/v1/sandboxes", `{"session":"chat-2","idempotencyKey":"k-1"}`).fails(422, sandbox.CodeValidation); p.Field != "idempotencyKey" {
		t.Errorf("another request with the key: %+v", p)
	}
	is[api.Sandbox](h.send("", "POST", "/v1/sandboxes", `{"session":"chat-1"}`, api.HeaderIdempotency, "k-1"), 201)
	h.send("", "POST", "/v1/sandboxes", body, api.HeaderIdempotency, "k-2").fails(422, sandbox.CodeValidation)

	// The answers are the same after a restart with the same folder; another
	// tenant has none.
	again := open(t, plan{dir: dir})
	if a := again.send("", "POST", "/v1/sandboxes", body); string(a.body) != string(answers[0].body) || a.StatusCode != 201 {
		t.Errorf("after a restart: %d %s", a.StatusCode, a.body)
	}
	if got := is[api.Sandbox](again.send("", "POST", "/v1/sandboxes", body, "Sandbox-Tenant", "other"), 201); got.Tenant != "other" {
		t.Errorf("another tenant has got %+v", got)
	}
}

func TestCreateWithoutWaiting(t *testing.T) {
	h := open(t, plan{})
	coming := is[api.Sandbox](h.send("", "POST", "/v1/sandboxes", `{"session":"s","wait":false}`), 202)
	deadline := time.Now().Add(time.Minute)
	for {
		res := h.send("", "GET", "/v1/sandboxes/"+coming.Name, nil)
		if res.StatusCode == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it never came up: %d %s", res.StatusCode, res.body)
		}
	}
}

func TestListHasStablePages(t *testing.T) {
	h := open(t, plan{})
	names := map[string]bool{}
	for i := range 7 {
		names[h.made("", fmt.Sprint("s-", i)).Name] = true
	}
	h.made("", "x", "Sandbox-Tenant", "other")
	var seen []string
	next := ""
	for page := 0; ; page++ {
		got := is[api.SandboxPage](h.send("", "GET", "/v1/sandboxes?limit=3&cursor="+next, nil), 200)
		for _, s := range got.Items {
			seen = append(seen, s.Name)
		}
		if next = got.Next; next == "" {
			break
		}
		if page == 0 { // sandboxes that are made and removed do not shift pages
			is[any](h.send("", "DELETE", "/v1/sandboxes/"+got.Items[0].Name, nil), 204)
		}
	}
	if len(seen) != 7 {
		t.Errorf("seen %v, want each of %v once", seen, names)
	}
	for i, n := range seen {
		if !names[n] || i > 0 && seen[i-1] >= n {
			t.Errorf("seen %v, want each of %v once and in order", seen, names)
		}
	}
	for query, want := range map[string]int{"?session=s-3": 1, "?status=paused": 0, "?status=running": 6, "?agent=main&limit=1000": 6, "?agent=else": 0, "?kind=browser": 0, "?all": 7} {
		if got := is[api.SandboxPage](h.send("", "GET", "/v1/sandboxes"+query, nil), 200); len(got.Items) != want {
			t.Errorf("%s lists %d, want %d", query, len(got.Items), want)
		}
	}
	one := h.made("", "own").Name
	for session, want := range map[string]string{"own": one, "none": ""} {
		got := is[api.SandboxPage](h.send("", "GET", "/v1/sandboxes?own", nil, "Sandbox-Session", session), 200)
		if want == "" && len(got.Items) > 0 || want != "" && (len(got.Items) != 1 || got.Items[0].Name != want) {
			t.Errorf("own of %s lists %+v", session, got.Items)
		}
	}
	for query, field := range map[string]string{"?cursor=zzz": "cursor", "?limit=0": "limit", "?limit=x": "limit", "?limit=1&limit=2": "limit", "?status=none": "status", "?else=1": "else", "?all=yes": "all", "?%zz": "query"} {
		if p := h.send("", "GET", "/v1/sandboxes"+query, nil).fails(422, sandbox.CodeValidation); p.Field != field {
			t.Errorf("%s: field %q, want %q", query, p.Field, field)
		}
	}
}

func TestLifeOfASandbox(t *testing.T) {
	h := open(t, plan{})
	made := h.made("", "s")
	at := "/v1/sandboxes/" + made.Name
	if got := is[api.Sandbox](h.send("", "POST", at+"/pause", nil), 200); got.Status != sandbox.StatusPaused {
		t.Errorf("paused: %+v", got)
	}
	if got := is[api.Sandbox](h.send("", "POST", at+"/resume", nil), 200); got.Status != sandbox.StatusRunning {
		t.Errorf("resumed: %+v", got)
	}
	before := time.Now()
	got := is[api.Sandbox](h.send("", "POST", at+"/extend", `{"ttlSeconds":3600}`), 200)
	if left := got.ExpiresAt.Sub(before); left < 59*time.Minute || left > 61*time.Minute {
		t.Errorf("it expires in %v", left)
	}
	if p := h.send("", "POST", at+"/extend", `{"ttlSeconds":31536000}`).fails(422, sandbox.CodeValidation); p.Field != "ttlSeconds" {
		t.Errorf("longer than maxAge: %+v", p)
	}
	if p := h.send("", "POST", at+"/extend", `{}`).fails(422, sandbox.CodeValidation); p.Field != "ttlSeconds" {
		t.Errorf("nothing said: %+v", p)
	}
	if got := is[api.Sandbox](h.send("", "POST", at+"/recreate", `{}`), 200); got.Name != made.Name || got.ID == made.ID || !got.Created {
		t.Errorf("recreated: %+v", got)
	}
	is[api.Usage](h.send("", "GET", at+"/usage", nil), 200)
	if got := is[api.UsageList](h.send("", "GET", "/v1/usage", nil), 200); len(got.Items) != 1 {
		t.Errorf("usage of all: %+v", got)
	}
	is[any](h.send("", "DELETE", at+"?workspace", nil), 204)
	for _, do := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/pause"}, {"POST", "/resume"}, {"GET", "/usage"}, {"POST", "/exec"}, {"GET", "/tools"}} {
		body := ""
		if do[1] == "/exec" {
			body = `{"args":["true"]}`
		}
		h.send("", do[0], at+do[1], body).fails(404, sandbox.CodeNotFound)
	}
}

func TestRemoveOfWhatIsInUse(t *testing.T) {
	h := open(t, plan{})
	made := h.made("", "s")
	at := "/v1/sandboxes/" + made.Name
	c := h.stream("", at+"/exec", `{"args":["sleep","600"]}`)
	c.begun()
	h.send("", "DELETE", at, nil).fails(409, sandbox.CodeBusy)
	h.send("", "POST", at+"/recreate", nil).fails(409, sandbox.CodeBusy)
	h.send("", "POST", at+"/pause", nil).fails(409, sandbox.CodeBusy)
	is[any](h.send("", "DELETE", at+"?force", nil), 204)
	if last := c.last(); last.name != api.EventError && last.name != api.EventExit {
		t.Errorf("the command that was ended ends with %+v", last)
	} else if last.name == api.EventExit && strings.Contains(last.data, `"exitCode":0`) {
		t.Errorf("the command that was ended has succeeded: %s", last.data)
	}
}

// The sandboxes of another tenant look as if they had never existed.
func TestOthersSandboxesAreNotThere(t *testing.T) {
	h := open(t, plan{})
	a := h.mint(token.Claims{Role: token.Tenant, Tenant: "a"})
	b := h.mint(token.Claims{Role: token.Tenant, Tenant: "b"})
	theirs := h.made(b, "s").Name
	never := theirs[:len(theirs)-4] + "zzzz"
	for _, do := range []struct{ method, path, body string }{
		{"GET", "", ""}, {"DELETE", "", ""}, {"DELETE", "?force&workspace", ""}, {"POST", "/recreate", "{}"}, {"POST", "/pause", ""}, {"POST", "/resume", ""},
		{"POST", "/extend", `{"ttlSeconds":60}`}, {"POST", "/exec", `{"args":["true"]}`}, {"POST", "/exec", `{"line":"true"}`}, {"GET", "/usage", ""}, {"GET", "/tools", ""}, {"POST", "/tools/exec", `{"command":"true"}`},
	} {
		one := h.send(a, do.method, "/v1/sandboxes/"+theirs+do.path, do.body).fails(404, sandbox.CodeNotFound)
		two := h.send(a, do.method, "/v1/sandboxes/"+never+do.path, do.body).fails(404, sandbox.CodeNotFound)
		if !strings.Contains(one.Hint, "GET /v1/sandboxes") || strings.Contains(one.Hint, "sandbox list") {
			t.Errorf("the hint is not for who asks over HTTP: %q", one.Hint)
		}
		one.RequestID, two.RequestID, one.Resource, two.Resource = "", "", "", ""
		if one != two {
			t.Errorf("%s %s: theirs is %+v, and one that never was %+v", do.method, do.path, one, two)
		}
	}
	h.send(a, "GET", "/v1/sandboxes?all", nil).fails(403, sandbox.CodePermissionDeny)
	h.send(a, "GET", "/v1/sandboxes", nil, "Sandbox-Tenant", "b").fails(403, sandbox.CodePermissionDeny)
	if got := is[api.SandboxPage](h.send(a, "GET", "/v1/sandboxes", nil), 200); len(got.Items) != 0 {
		t.Errorf("a sees %+v", got)
	}
	if got := is[api.UsageList](h.send(a, "GET", "/v1/usage", nil), 200); len(got.Items) != 0 {
		t.Errorf("a sees %+v", got)
	}
	if got := is[api.Sandbox](h.send(b, "GET", "/v1/sandboxes/"+theirs, nil), 200); got.Workspace != "" {
		t.Errorf("a tenant sees the folder of the host: %+v", got)
	}
}

func TestSessionTokensReachTheirSession(t *testing.T) {
	h := open(t, plan{})
	tenant := h.mint(token.Claims{Role: token.Tenant, Tenant: "a"})
	mine, other := h.made(tenant, "mine").Name, h.made(tenant, "other").Name
	s := h.mint(token.Claims{Role: token.Session, Tenant: "a", Session: "mine", Expires: time.Now().Add(time.Hour)})
	is[api.Sandbox](h.send(s, "GET", "/v1/sandboxes/"+mine, nil), 200)
	h.send(s, "GET", "/v1/sandboxes/"+other, nil).fails(404, sandbox.CodeNotFound)
	h.send(s, "POST", "/v1/sandboxes", `{"session":"other"}`).fails(403, sandbox.CodePermissionDeny)
	if got := is[api.SandboxPage](h.send(s, "GET", "/v1/sandboxes", nil), 200); len(got.Items) != 1 || got.Items[0].Name != mine {
		t.Errorf("the session sees %+v", got)
	}
}

func TestNoTokenNoAnswer(t *testing.T) {
	h := open(t, plan{})
	for _, at := range []string{"/v1/sandboxes", "/v1/usage", "/readyz", "/openapi.json", "/v1/nothing", "/nothing"} {
		res := h.send("-", "GET", at, nil)
		res.fails(401, sandbox.CodePermissionDeny)
		if !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: no challenge: %v", at, res.Header)
		}
	}
	is[api.Health](h.send("-", "GET", "/healthz", nil), http.StatusOK)
}

// A replayed answer that was made for an admin tells other callers no more than
// an answer of their own.
func TestReplayedAnswersHoldNothingForAdmins(t *testing.T) {
	h := open(t, plan{})
	secret := h.mint(token.Claims{Role: token.Tenant, Tenant: "acme"})
	const body = `{"session":"chat-1","idempotencyKey":"k-1"}`
	if got := is[api.Sandbox](h.send("", "POST", "/v1/sandboxes", body, api.HeaderTenant, "acme"), 201); got.Workspace == "" {
		t.Fatal("an admin is not told of the folder, so that nothing could leak")
	}
	again := h.send(secret, "POST", "/v1/sandboxes", body)
	if got := is[api.Sandbox](again, 201); got.Workspace != "" || again.Header.Get(api.HeaderReplayed) != "true" {
		t.Errorf("a tenant is told %+v", got)
	}
	if got := is[api.Sandbox](h.send("", "POST", "/v1/sandboxes", body, api.HeaderTenant, "acme"), 201); got.Workspace == "" {
		t.Error("the admin is not told of the folder any more")
	}
}

// A session may use a sandbox that it shares with others, and not remove it.
func TestSharedSandboxesAreNotOneSessions(t *testing.T) {
	h := open(t, plan{settings: `{"agents": {"defaults": {"sandbox": {"provider": "local", "scope": "shared"}}}}`})
	one := h.mint(token.Claims{Role: token.Session, Tenant: "acme", Session: "one", Expires: time.Now().Add(time.Hour)})
	all := h.mint(token.Claims{Role: token.Tenant, Tenant: "acme"})
	made := h.made(one, "one")
	is[api.Sandbox](h.send(one, "GET", "/v1/sandboxes/"+made.Name, nil), 200)
	for _, tt := range [][3]string{{"POST", "/pause", ""}, {"POST", "/resume", ""}, {"POST", "/extend", `{"ttlSeconds":1}`}, {"POST", "/recreate", `{"force":true}`}, {"DELETE", "?force=true&workspace=true", ""}} {
		h.send(one, tt[0], "/v1/sandboxes/"+made.Name+tt[1], tt[2]).fails(403, sandbox.CodePermissionDeny)
	}
	is[struct{}](h.send(all, "DELETE", "/v1/sandboxes/"+made.Name, nil), 204)
}

func TestSessionsOutsideOfSandboxesHaveNoSandbox(t *testing.T) {
	h := open(t, plan{settings: `{"agents": {"defaults": {"sandbox": {"provider": "local", "mode": "off"}}}}`})
	h.send("", "POST", "/v1/sandboxes", `{"session":"s"}`).fails(403, sandbox.CodeCapabilityBlocked)
}

// TestSandboxOfTwoProviders holds that a name which two providers have means the
// sandbox of the provider in the settings, that the parameter provider selects
// the other, and that an ambiguous request is refused.
func TestSandboxOfTwoProviders(t *testing.T) {
	old := fake.New(fake.Options{})
	h := open(t, plan{manager: func(o *manager.Options) {
		now, err := o.Providers.Get("local")
		must(t, err)
		o.Providers, err = provider.New(now, old)
		must(t, err)
	}})
	ctx, other := context.Background(), "fake"
	p, err := h.manager.Ready(ctx, manager.Request{Who: config.Who{Agent: "main", Session: "s"}, Flags: &config.SandboxSettings{Provider: &other}})
	must(t, err)
	made := h.made("", "s")
	if made.Name != p.Name || made.Provider != "local" {
		t.Fatalf("made %+v beside %+v", made, p)
	}
	path := "/v1/sandboxes/" + made.Name
	for query, want := range map[string]string{"": "local", "?provider=local": "local", "?provider=fake": "fake"} {
		if got := is[api.Sandbox](h.send("", "GET", path+query, nil), 200); got.Provider != want {
			t.Errorf("GET %q is of %q, want %q", query, got.Provider, want)
		}
	}
	h.send("", "GET", path+"?provider=podman", nil).fails(404, sandbox.CodeNotFound)
	is[api.Usage](h.send("", "GET", path+"/usage?provider=fake", nil), 200)
	is[any](h.send("", "DELETE", path+"?provider=fake", nil), 204)
	if got := is[api.SandboxPage](h.send("", "GET", "/v1/sandboxes", nil), 200); len(got.Items) != 1 || got.Items[0].Provider != "local" {
		t.Errorf("what is left is %+v", got.Items)
	}
}
