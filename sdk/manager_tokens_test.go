package sdk_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// TestTokens holds that tokens are made, shown and taken back through a daemon
// as beside it, and only those that are the caller's.
func TestTokens(t *testing.T) {
	r := &managerRig{T: t, ctx: t.Context(), Rig: served.New(t, served.Options{Resources: func(r *served.Rig) []resource.Resource {
		return []resource.Resource{resource.NewTokens(r.Tokens)}
	}})}
	limits := tenant.NoLimits().With(tenant.Sandboxes, 3)
	want := token.Claims{Role: token.Session, Tenant: "acme", Session: "s7", Expires: time.Now().Add(time.Hour), Quota: &limits, Note: "a chat"}
	secret, made, err := r.as("").Tokens().Create(r.ctx, want)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := r.Tokens.Verify(secret)
	if err != nil || kept.ID != made.ID || kept.Session != "s7" || kept.Parent != "" || kept.Quota.Sandboxes != 3 || kept.Note != "a chat" {
		t.Errorf("%+v, %v", kept, err)
	}
	if d := kept.Expires.Sub(want.Expires); d < -time.Second || d > time.Minute {
		t.Errorf("it ends %s later than was asked for", d)
	}
	acme := r.as("acme").Tokens()
	_, child, err := acme.Create(r.ctx, token.Claims{Role: token.Tenant})
	if err != nil || child.Parent != r.IDs["acme"] || child.Tenant != "acme" || child.Expires.IsZero() {
		t.Errorf("%+v, %v", child, err)
	}
	if _, endless, err := r.as("").Tokens().Create(r.ctx, token.Claims{Role: token.Admin, Endless: true}); err != nil || !endless.Expires.IsZero() {
		t.Errorf("%+v, %v", endless, err)
	}
	_, grandchild, err := acme.Create(r.ctx, token.Claims{Role: token.Tenant, Parent: child.ID, Quota: &limits})
	if err != nil || grandchild.Parent != child.ID {
		t.Errorf("%+v, %v", grandchild, err)
	}
	if got, err := acme.Get(r.ctx, grandchild.ID); err != nil || got.Quota == nil || *got.Quota != limits {
		t.Errorf("%+v, %v", got, err)
	}
	_, _, err = acme.Create(r.ctx, token.Claims{Role: token.Admin})
	r.code("more than its own", err, sandbox.CodePermissionDeny)
	_, err = acme.Revoke(r.ctx, made.ID)
	r.code("one that is beside it", err, sandbox.CodeNotFound)
	l, err := acme.List(r.ctx)
	if err != nil || len(l.Tokens) != 2 || l.Tokens[0].ID != grandchild.ID {
		t.Errorf("%+v, %v", l, err)
	}
	fallen, err := acme.Revoke(r.ctx, child.ID)
	if err != nil || len(fallen) != 2 {
		t.Errorf("%v, %v", fallen, err)
	}
	_, err = acme.Get(r.ctx, grandchild.ID)
	r.code("one that fell", err, sandbox.CodeNotFound)
}

// TestDamagedTokens holds that an admin gets a report of files that hold no token, and
// no other caller does.
func TestDamagedTokens(t *testing.T) {
	dir := t.TempDir()
	store, err := token.Open(filepath.Join(dir, "tokens"))
	if err != nil {
		t.Fatal(err)
	}
	r := &managerRig{T: t, ctx: t.Context(), Rig: served.New(t, served.Options{Resources: func(*served.Rig) []resource.Resource {
		return []resource.Resource{resource.NewTokens(store)}
	}})}
	if err := os.WriteFile(filepath.Join(dir, "tokens", "00112233445566778899.json"), []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for as, want := range map[string]int{"": 1, "acme": 0} {
		if l, err := r.as(as).Tokens().List(r.ctx); err != nil || len(l.Damaged) != want {
			t.Errorf("%q: %+v, %v", as, l, err)
		}
	}
}

// TestTokensOfLiars holds that what is shown as it is has no signs that a
// terminal would obey.
func TestTokensOfLiars(t *testing.T) {
	for name, lie := range map[string]string{
		"a secret": `{"secret":"\u001b]0;x\u0007","id":"aa"}`, "none": `{}`, "an id": `{"secret":"s","id":"\u001b[2J"}`,
		"a parent": `{"secret":"s","id":"aa","parent":"a b"}`, "a long one": `{"secret":"` + strings.Repeat("a", 300) + `","id":"aa"}`,
	} {
		_, _, err := liar(t, "application/json", lie).Tokens().Create(t.Context(), token.Claims{Role: token.Admin})
		if sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := liar(t, "application/json", `{"items":[{"id":"\u001b"}]}`).Tokens().List(t.Context()); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("a list: %v", err)
	}
	if _, err := liar(t, "application/json", `{"revoked":["a","\u001b"]}`).Tokens().Revoke(t.Context(), "a"); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("revoked: %v", err)
	}
}
