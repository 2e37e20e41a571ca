package resource_test

import (
	"cmp"
	"encoding/json"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/recorder"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

type grantsRig struct {
	*served.Rig
	evidence *evidence.Store
	serial   int
}

func grantsNewRig(t *testing.T, wall string) *grantsRig {
	r := &grantsRig{}
	var c *orchestrator.Control
	provider := "local"
	if wall == "docker" {
		provider = wall
	}
	settings := `{"agents": {"defaults": {"sandbox": {"provider": "` + provider + `", "tools": {"alsoAllow": ["reporter"]}}}}}`
	r.Rig = served.New(t, served.Options{Wall: wall, Settings: settings, Change: func(o *manager.Options) {
		var err error
		if r.evidence, err = evidence.Open(filepath.Join(t.TempDir(), "evidence"), evidence.Options{}); err != nil {
			t.Fatal(err)
		}
		c, err = orchestrator.OpenOperations(orchestrator.OperationsOptions{State: o.State, Log: o.Log, Sinks: []recorder.Sink{recorder.NewFile("file", r.evidence)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(); r.evidence.Close() })
		o.Control = func() (*manager.Control, error) { return &c.Control, nil }
	}, Resources: func(r *served.Rig) []resource.Resource {
		return []resource.Resource{resource.NewGrants(r.Manager, func() (resource.Registrar, error) { return c, nil })}
	}})
	return r
}

// order returns a request for an operation under its own grant.
func (r *grantsRig) order(tenant string, do grant.Operation) api.Operate {
	r.serial++
	now, n := time.Now(), strconv.Itoa(r.serial)
	all := []grant.Capability{{Kind: grant.FSRead, Path: "/workspace"}, {Kind: grant.FSWrite, Path: "/workspace"}}
	return api.Operate{
		Grant: grant.Grant{
			ID: "g-" + n, Tenant: tenant, Subject: "user-17", Agent: "main", Session: "s1", Tool: "reporter", Call: "call-" + n, Capabilities: all,
			DecisionKey: "key-" + n, Issued: now.Add(-time.Minute), Expires: now.Add(10 * time.Minute),
			Budget:  grant.Budget{Calls: 10, BytesIn: 1 << 20, BytesOut: 1 << 20, CPUMs: 10_000, Files: 5, WallMs: 600_000},
			Consent: &grant.Consent{By: "user-17", At: now.Add(-time.Minute), Expires: now.Add(10 * time.Minute)},
		},
		Manifest:  grant.Manifest{Tool: "reporter", Version: "1.2.0", Safety: grant.SafetyLow, Capabilities: all, SideEffects: []grant.SideEffect{grant.EffectWrite}},
		Operation: do,
	}
}

func text(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestOperate(t *testing.T) {
	t.Parallel()
	for _, wall := range []string{"memory", "docker"} {
		t.Run(wall, func(t *testing.T) {
			r := grantsNewRig(t, wall)
			o := r.order("acme", grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/a", Overwrite: true})
			o.Data = []byte("text")
			const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
			done := served.JSON[api.Performed](t, r.Want(200, "acme", "POST", "/v1/operate", text(t, o), "X-Request-Id", "request-17", "Traceparent", trace))
			if !done.OK || done.ID == "" || done.Profile == "" {
				t.Fatalf("%+v", done)
			}
			o.Operation, o.Data = grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a"}, nil
			done = served.JSON[api.Performed](t, r.Want(200, "acme", "POST", "/v1/operate", text(t, o)))
			if !done.OK || !strings.Contains(string(done.Output), `"data":"dGV4dA=="`) {
				t.Errorf("%v %s %s", done.OK, done.Message, done.Output)
			}
			o.Operation.Path = "/workspace/../etc/passwd"
			done = served.JSON[api.Performed](t, r.Want(200, "acme", "POST", "/v1/operate", text(t, o)))
			if done.OK || done.Code == "" || done.ID == "" {
				t.Errorf("%+v", done)
			}
			var begins int
			for rec, err := range r.evidence.Query(t.Context(), evidence.Filter{Tenant: "acme", Type: evidence.TypeBegin}) {
				if err != nil {
					t.Fatal(err)
				}
				var b evidence.Begin
				if err := json.Unmarshal(rec.Data, &b); err != nil {
					t.Fatal(err)
				}
				if begins++; b.RequestID == "request-17" && !strings.HasPrefix(b.TraceParent, "00-4bf92f3577b34da6a3ce929d0e0e4736-") || b.RequestID == "" {
					t.Errorf("%+v", b)
				}
			}
			if begins != 3 {
				t.Errorf("%d begins", begins)
			}
		})
	}
}

func TestCheckDeriveRevoke(t *testing.T) {
	t.Parallel()
	r := grantsNewRig(t, "memory")
	o := r.order("acme", grant.Operation{})
	check := api.CheckGrant{Grant: o.Grant, Manifest: o.Manifest}
	checked := served.JSON[api.CheckedGrant](t, r.Want(200, "acme", "POST", "/v1/grants/check", text(t, check)))
	var profile grant.Profile
	if err := json.Unmarshal(checked.Profile, &profile); err != nil {
		t.Fatal(err)
	}
	if profile.Grant != o.Grant.ID || len(profile.Capabilities) == 0 || profile.Hash == "" {
		t.Errorf("%+v", profile)
	}
	d := api.DeriveGrant{Grant: o.Grant, Call: "call-child", DecisionKey: "key-child", Capabilities: []grant.Capability{{Kind: grant.FSRead, Path: "/workspace/docs"}}}
	child := served.JSON[api.DerivedGrant](t, r.Want(201, "acme", "POST", "/v1/grants/derive", text(t, d)))
	if child.Grant.Parent != o.Grant.ID || child.Grant.ID == "" || len(child.Grant.Capabilities) != 1 || len(child.Line) != 1 {
		t.Errorf("%+v", child)
	}
	d.Capabilities[0] = grant.Capability{Kind: grant.FSRead, Path: "/etc"}
	if a := r.Ask("acme", "POST", "/v1/grants/derive", text(t, d)); a.Status != 403 && a.Status != 422 {
		t.Errorf("more than the parent has: %d %s", a.Status, a.Body)
	}
	below := api.CheckGrant{Grant: child.Grant, Line: child.Line, Manifest: o.Manifest}
	r.Want(200, "acme", "POST", "/v1/grants/check", text(t, below))
	until := "?expires=" + url.QueryEscape(o.Grant.Expires.UTC().Format(time.RFC3339))
	r.Want(422, "acme", "DELETE", "/v1/grants/"+o.Grant.ID+"?expires=2999-01-01T00:00:00Z", "")
	r.Want(204, "acme", "DELETE", "/v1/grants/"+o.Grant.ID+until, "")
	r.Want(403, "acme", "POST", "/v1/grants/check", text(t, check))
	r.Want(403, "acme", "POST", "/v1/grants/check", text(t, below))
	r.Want(403, "acme", "POST", "/v1/grants/derive", text(t, api.DeriveGrant{Grant: o.Grant, Call: "c", DecisionKey: "k"}))
	o.Operation = grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a"}
	if done := served.JSON[api.Performed](t, r.Want(200, "acme", "POST", "/v1/operate", text(t, o))); done.OK || done.Code != sandbox.CodePermissionDeny {
		t.Errorf("%+v", done)
	}
}

// TestRevokeWithoutExpiry holds that a grant can be revoked by its id alone, and
// that an invalid time is still refused.
func TestRevokeWithoutExpiry(t *testing.T) {
	t.Parallel()
	r := grantsNewRig(t, "memory")
	o := r.order("acme", grant.Operation{})
	check := api.CheckGrant{Grant: o.Grant, Manifest: o.Manifest}
	r.Want(200, "acme", "POST", "/v1/grants/check", text(t, check))
	if p := r.Want(422, "acme", "DELETE", "/v1/grants/"+o.Grant.ID+"?expires=tomorrow", "").Problem(t); p.Field != "expires" {
		t.Errorf("%+v", p)
	}
	r.Want(200, "acme", "POST", "/v1/grants/check", text(t, check))
	r.Want(204, "acme", "DELETE", "/v1/grants/"+o.Grant.ID, "")
	r.Want(403, "acme", "POST", "/v1/grants/check", text(t, check))
}

// TestWriteOverAFile holds that a write that is refused because the file exists
// returns that error, leaves the file as it is, and uses up no budget.
func TestWriteOverAFile(t *testing.T) {
	t.Parallel()
	for _, wall := range []string{"memory", "docker"} {
		t.Run(wall, func(t *testing.T) {
			if wall == "docker" {
				testenv.Exhaustive(t, "the same over another provider")
			}
			r := grantsNewRig(t, wall)
			o := r.order("acme", grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/a"})
			o.Data, o.Grant.Budget.Calls, o.Grant.Budget.Files = []byte("first"), 2, 1
			operate := func() api.Performed {
				return served.JSON[api.Performed](t, r.Want(200, "acme", "POST", "/v1/operate", text(t, o)))
			}
			if done := operate(); !done.OK {
				t.Fatalf("%+v", done)
			}
			o.Data = []byte("second")
			for range 5 {
				done := operate()
				if done.OK || done.Code != sandbox.CodeValidation || done.Field != "op.overwrite" || !strings.Contains(done.Message, "exists") {
					t.Errorf("%+v", done)
				}
				if done.Used != (grant.Budget{}) {
					t.Errorf("it has used %+v", done.Used)
				}
			}
			o.Operation, o.Data = grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a"}, nil
			if done := operate(); !done.OK || !strings.Contains(string(done.Output), `"data":"Zmlyc3Q="`) {
				t.Errorf("the second call of two: %s %s %s", done.Code, done.Message, done.Output)
			}
			if done := operate(); done.Code != sandbox.CodeBudgetExceeded {
				t.Errorf("the third call of two: %+v", done)
			}
		})
	}
}

// TestSingleTenant holds that an installation without tenants can use grants
// over the unix socket: they name no tenant, and are checked, used, derived,
// charged and revoked.
func TestSingleTenant(t *testing.T) {
	t.Parallel()
	r := grantsNewRig(t, "memory")
	o := r.order("", grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/a", Overwrite: true})
	o.Data, o.Grant.Budget.Files = []byte("text"), 1
	check := api.CheckGrant{Grant: o.Grant, Manifest: o.Manifest}
	r.Want(200, "root", "POST", "/v1/grants/check", text(t, check))
	if done := served.JSON[api.Performed](t, r.Want(200, "root", "POST", "/v1/operate", text(t, o))); !done.OK || done.Used.Files != 1 {
		t.Errorf("%+v", done)
	}
	if done := served.JSON[api.Performed](t, r.Want(200, "root", "POST", "/v1/operate", text(t, o))); done.Code != sandbox.CodeBudgetExceeded {
		t.Errorf("a second file: %+v", done)
	}
	d := api.DeriveGrant{Grant: o.Grant, Call: "call-child", DecisionKey: "key-child", Capabilities: []grant.Capability{{Kind: grant.FSRead, Path: "/workspace"}}}
	child := served.JSON[api.DerivedGrant](t, r.Want(201, "root", "POST", "/v1/grants/derive", text(t, d)))
	below := api.Operate{Grant: child.Grant, Line: child.Line, Manifest: o.Manifest, Operation: grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a"}}
	if done := served.JSON[api.Performed](t, r.Want(200, "root", "POST", "/v1/operate", text(t, below))); !done.OK {
		t.Errorf("derived: %+v", done)
	}
	r.Want(403, "acme", "POST", "/v1/grants/check", text(t, check)) // a tenant speaks for itself alone
	r.Want(204, "root", "DELETE", "/v1/grants/"+o.Grant.ID, "")
	r.Want(403, "root", "POST", "/v1/grants/check", text(t, check))
	if done := served.JSON[api.Performed](t, r.Want(200, "root", "POST", "/v1/operate", text(t, below))); done.Code != sandbox.CodePermissionDeny {
		t.Errorf("derived from one that was taken back: %+v", done)
	}
}

// TestGrantsOfOthers holds that no caller can use a grant for another tenant,
// and that a session cannot give itself a grant.
func TestGrantsOfOthers(t *testing.T) {
	t.Parallel()
	r := grantsNewRig(t, "memory")
	theirs := r.order("evil", grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a"})
	mine := r.order("acme", grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a"})
	mixed := mine
	mixed.Line = []grant.Grant{theirs.Grant}
	for name, tt := range map[string]struct {
		as, path string
		body     any
		status   int
	}{
		"another tenant's":         {"acme", "/v1/operate", theirs, 403},
		"below another tenant's":   {"acme", "/v1/operate", mixed, 403},
		"a session's own":          {"acme-s1", "/v1/operate", mine, 403},
		"checked by another":       {"evil", "/v1/grants/check", api.CheckGrant{Grant: mine.Grant, Manifest: mine.Manifest}, 403},
		"derived by another":       {"evil", "/v1/grants/derive", api.DeriveGrant{Grant: mine.Grant, Call: "c", DecisionKey: "k"}, 403},
		"derived by a session":     {"acme-s1", "/v1/grants/derive", api.DeriveGrant{Grant: mine.Grant, Call: "c", DecisionKey: "k"}, 403},
		"a name that is none":      {"acme", "/v1/operate", api.Operate{Grant: grant.Grant{Tenant: "acme", Agent: "../x"}, Manifest: mine.Manifest, Operation: mine.Operation}, 422},
		"an admin for nobody":      {"root", "/v1/operate", mine, 403},
		"nothing":                  {"acme", "/v1/operate", map[string]any{}, 422},
		"a field that is not ours": {"acme", "/v1/operate", map[string]any{"grant": mine.Grant, "manifest": mine.Manifest, "operation": mine.Operation, "policy": 1}, 422},
	} {
		if a := r.Ask(tt.as, "POST", tt.path, text(t, tt.body)); a.Status != tt.status {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	r.Want(403, "acme-s1", "DELETE", "/v1/grants/"+mine.Grant.ID+"?expires=2026-12-01T00:00:00Z", "")
}

// TestRevocationsOfOneAgent holds that a token for one agent can revoke grants
// of that agent, with all that were derived from them, and no other grant of the
// tenant.
func TestRevocationsOfOneAgent(t *testing.T) {
	t.Parallel()
	r := grantsNewRig(t, "memory")
	o := r.order("acme", grant.Operation{})
	check := api.CheckGrant{Grant: o.Grant, Manifest: o.Manifest}
	d := api.DeriveGrant{Grant: o.Grant, Call: "call-child", DecisionKey: "key-child", Agent: "helper", Capabilities: []grant.Capability{{Kind: grant.FSRead, Path: "/workspace/docs"}}}
	child := served.JSON[api.DerivedGrant](t, r.Want(201, "acme", "POST", "/v1/grants/derive", text(t, d)))
	below := api.CheckGrant{Grant: child.Grant, Line: child.Line, Manifest: o.Manifest}
	of := func(agent string) string {
		t.Helper()
		secret, _, err := r.Tokens.Create(token.Claims{Role: token.Tenant, Tenant: "acme", Agent: agent})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	until := "?expires=" + url.QueryEscape(o.Grant.Expires.UTC().Format(time.RFC3339))
	own := cmp.Or(o.Grant.Agent, "main")
	r.Want(204, of("other"), "DELETE", "/v1/grants/"+o.Grant.ID+until, "")
	r.Want(204, of("other"), "DELETE", "/v1/grants/"+child.Grant.ID+until, "")
	r.Want(200, "acme", "POST", "/v1/grants/check", text(t, check))
	r.Want(200, "acme", "POST", "/v1/grants/check", text(t, below))
	r.Want(204, of(own), "DELETE", "/v1/grants/"+child.Grant.ID+until, "") // which is helper's
	r.Want(200, "acme", "POST", "/v1/grants/check", text(t, below))
	r.Want(403, of(own), "POST", "/v1/grants/derive", text(t, d))
	r.Want(204, of(own), "DELETE", "/v1/grants/"+o.Grant.ID+until, "")
	r.Want(403, "acme", "POST", "/v1/grants/check", text(t, check))
	r.Want(403, "acme", "POST", "/v1/grants/check", text(t, below))
}
