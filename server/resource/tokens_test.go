package resource_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

func tokensNewRig(t *testing.T) *served.Rig {
	return served.New(t, served.Options{Resources: func(r *served.Rig) []resource.Resource { return []resource.Resource{resource.NewTokens(r.Tokens)} }})
}

func TestChildren(t *testing.T) {
	t.Parallel()
	r := tokensNewRig(t)
	made := served.JSON[api.NewToken](t, r.Want(201, "acme", "POST", "/v1/tokens", `{"role":"session","session":"s9","ttlSeconds":600,"note":"for a test"}`))
	if made.Secret == "" || made.Parent != r.IDs["acme"] || made.Tenant != "acme" || made.Session != "s9" || made.Expires.IsZero() {
		t.Errorf("%+v", made)
	}
	list := r.Want(200, "acme", "GET", "/v1/tokens", "")
	items := served.JSON[api.TokenList](t, list).Items
	if len(items) != 1 || items[0].ID != made.ID || items[0].Note != "for a test" {
		t.Errorf("%+v", items)
	}
	if strings.Contains(list.Body, made.Secret) || strings.Contains(list.Body, "secret") {
		t.Error("a secret is shown again")
	}
	for as, status := range map[string]int{"acme": 200, made.Secret: 200, "root": 200, "evil": 404, "acme-s1": 404} {
		a := r.Want(status, as, "GET", "/v1/tokens/"+made.ID, "")
		if one := served.JSON[api.Token](t, a); status == 200 && (one.ID != made.ID || one.Note != "for a test" || strings.Contains(a.Body, made.Secret)) {
			t.Errorf("%s: %s", as, a.Body)
		}
	}
	grandchild := served.JSON[api.NewToken](t, r.Want(201, made.Secret, "POST", "/v1/tokens", `{"role":"session","session":"s9","ttlSeconds":60}`))
	for _, as := range []string{"evil", "acme-s1", "acme-s2"} {
		if got := served.JSON[api.TokenList](t, r.Want(200, as, "GET", "/v1/tokens", "")).Items; len(got) != 0 {
			t.Errorf("%s sees %+v", as, got)
		}
		r.Want(404, as, "DELETE", "/v1/tokens/"+made.ID, "")
		r.Want(404, as, "DELETE", "/v1/tokens/"+r.IDs["acme"], "")
	}
	r.Want(404, made.Secret, "DELETE", "/v1/tokens/"+r.IDs["acme"], "")
	r.Want(404, "acme", "DELETE", "/v1/tokens/none", "")
	fallen := served.JSON[api.Revoked](t, r.Want(200, "acme", "DELETE", "/v1/tokens/"+made.ID, ""))
	if len(fallen.Revoked) != 2 {
		t.Errorf("%+v", fallen)
	}
	r.Want(401, made.Secret, "GET", "/v1/tokens", "")
	r.Want(401, grandchild.Secret, "GET", "/v1/tokens", "")
	if all := served.JSON[api.TokenList](t, r.Want(200, "root", "GET", "/v1/tokens", "")).Items; len(all) < 4 {
		t.Errorf("%+v", all)
	}
	r.Want(200, "acme-s1", "DELETE", "/v1/tokens/"+r.IDs["acme-s1"], "") // the caller's own
	r.Want(401, "acme-s1", "GET", "/v1/tokens", "")
}

// TestNeverMore holds that a token cannot make one with more rights than its
// own.
func TestNeverMore(t *testing.T) {
	t.Parallel()
	r := tokensNewRig(t)
	for _, tt := range []struct {
		as, body string
		status   int
	}{
		{"acme", `{"role":"admin"}`, 403}, {"acme", `{"role":"tenant","tenant":"evil"}`, 403}, {"acme", `{"role":"session","tenant":"evil","session":"s1","ttlSeconds":60}`, 403},
		{"acme-s1", `{"role":"tenant"}`, 403}, {"acme-s1", `{"role":"admin"}`, 403}, {"acme-s1", `{"role":"session","session":"s2","ttlSeconds":60}`, 403},
		{"acme-s1", `{"role":"session","session":"s1","ttlSeconds":86400}`, 403},
		{"acme", `{"role":"root"}`, 422}, {"acme", `{}`, 422}, {"acme", `{"role":"session","ttlSeconds":60}`, 422}, {"acme", `{"role":"session","session":"s1","endless":true}`, 422},
		{"acme", `{"role":"tenant","endless":true}`, 403}, {"root", `{"role":"tenant","tenant":"new","endless":true,"ttlSeconds":60}`, 422},
		{"acme", `{"role":"tenant","ttlSeconds":-1}`, 422}, {"acme", `{"role":"tenant","ttlSeconds":99999999999}`, 422}, {"acme", `{"role":"tenant","parent":"x"}`, 404}, {"acme", `{"role":"tenant","parent":"` + r.IDs["evil"] + `"}`, 404}, {"acme", `{"role":"tenant","parent":"` + r.IDs["root"] + `"}`, 404},
		{"acme", `{"role":"tenant","budget":{"calls":-1}}`, 422}, {"acme", `{"role":"tenant","agent":"../x"}`, 422}, {"nobody", `{"role":"session"}`, 401},
	} {
		r.Want(tt.status, tt.as, "POST", "/v1/tokens", tt.body)
	}
	r.Want(201, "root", "POST", "/v1/tokens", `{"role":"tenant","tenant":"new"}`)
	r.Want(201, "", "POST", "/v1/tokens", `{"role":"tenant","tenant":"new"}`) // the user that the daemon runs as
	agent := served.JSON[api.NewToken](t, r.Want(201, "acme", "POST", "/v1/tokens", `{"role":"tenant","agent":"researcher"}`))
	r.Want(403, agent.Secret, "POST", "/v1/tokens", `{"role":"tenant","agent":"main"}`)
}

// TestBoundToTheAgent holds that a token is valid for the agent of the request
// that made it, and for no other, unless a caller with the right to it asks for
// that.
func TestBoundToTheAgent(t *testing.T) {
	t.Parallel()
	r := tokensNewRig(t)
	const agent = api.HeaderAgent
	child := func(as, body string, headers ...string) api.NewToken {
		t.Helper()
		return served.JSON[api.NewToken](t, r.Want(201, as, "POST", "/v1/tokens", body, headers...))
	}
	plain := child("acme", `{"role":"session","session":"s"}`)
	of := child("acme", `{"role":"session","session":"s"}`, agent, "coder")
	asked := child("acme", `{"role":"session","session":"s","agent":"writer"}`, agent, "coder")
	tenant := child("acme", `{"role":"tenant"}`, agent, "coder")
	all := child("acme", `{"role":"tenant"}`)
	below := child(of.Secret, `{"role":"session"}`)
	parent := child("acme", `{"role":"session","session":"s","parent":"`+tenant.ID+`"}`)
	local := child("", `{"role":"session","tenant":"acme","session":"s"}`)
	for _, tt := range []struct {
		what string
		made api.NewToken
		want string
	}{
		{"of a request without a header", plain, "main"}, {"of a request for coder", of, "coder"}, {"that was asked for writer", asked, "writer"},
		{"for a tenant, of a request for coder", tenant, "coder"}, {"for a tenant", all, ""}, {"below one for coder", below, "coder"},
		{"with a parent for coder", parent, "coder"}, {"of the daemon's own user", local, "main"},
	} {
		if tt.made.Agent != tt.want {
			t.Errorf("a token %s is bound to %q, want %q", tt.what, tt.made.Agent, tt.want)
		}
		for _, other := range []string{"main", "coder", "writer", "nowhere"} {
			status := 403
			if tt.want == "" || tt.want == other {
				status = 200
			}
			r.Want(status, tt.made.Secret, "GET", "/v1/tokens", "", agent, other)
		}
	}
	for _, as := range []string{plain.Secret, of.Secret, tenant.Secret, "acme-s1"} {
		r.Want(403, as, "POST", "/v1/tokens", `{"role":"session","session":"s1","agent":"nowhere"}`)
		r.Want(403, as, "POST", "/v1/tokens", `{"role":"tenant","agent":"nowhere"}`)
	}
	r.Want(403, plain.Secret, "POST", "/v1/tokens", `{"role":"session"}`, agent, "coder")
	r.Want(403, "acme", "POST", "/v1/tokens", `{"role":"session","session":"s","agent":"main","parent":"`+tenant.ID+`"}`)
}

// TestParents holds that a token that is named as parent becomes the parent,
// with its bounds.
func TestParents(t *testing.T) {
	t.Parallel()
	r := tokensNewRig(t)
	made := served.JSON[api.NewToken](t, r.Want(201, "acme", "POST", "/v1/tokens", `{"role":"tenant","ttlSeconds":600,"quota":{"sandboxes":5,"commands":-1,"memory":-1,"nanoCpus":-1,"disk":-1,"requestsPerSecond":-1,"requestBurst":-1}}`))
	for _, as := range []string{"acme", "root", ""} {
		child := served.JSON[api.NewToken](t, r.Want(201, as, "POST", "/v1/tokens", `{"role":"tenant","parent":"`+made.ID+`"}`))
		if child.Parent != made.ID || child.Tenant != "acme" || child.Quota == nil || child.Quota.Sandboxes != 5 || !child.Expires.Equal(made.Expires) {
			t.Errorf("%s: %+v", as, child)
		}
		r.Want(403, as, "POST", "/v1/tokens", `{"role":"tenant","parent":"`+made.ID+`","ttlSeconds":6000}`)
	}
	r.Want(404, made.Secret, "POST", "/v1/tokens", `{"role":"tenant","parent":"`+r.IDs["acme"]+`"}`)
}

// TestEnds holds that a token without an expiry has to be requested explicitly.
func TestEnds(t *testing.T) {
	t.Parallel()
	r := tokensNewRig(t)
	usual := served.JSON[api.NewToken](t, r.Want(201, "", "POST", "/v1/tokens", `{"role":"tenant","tenant":"new"}`))
	if in := time.Until(usual.Expires); in < token.Usual-time.Hour || in > token.Usual {
		t.Errorf("%+v", usual)
	}
	endless := served.JSON[api.NewToken](t, r.Want(201, "", "POST", "/v1/tokens", `{"role":"tenant","tenant":"new","endless":true}`))
	if !endless.Expires.IsZero() {
		t.Errorf("%+v", endless)
	}
	if child := served.JSON[api.NewToken](t, r.Want(201, endless.Secret, "POST", "/v1/tokens", `{"role":"session","session":"s"}`)); child.Expires.IsZero() {
		t.Errorf("%+v", child)
	}
}

// TestNotGoodAnyMore holds that an expired token is listed and can be revoked
// like any other, by the token that it was made from.
func TestNotGoodAnyMore(t *testing.T) {
	t.Parallel()
	r := tokensNewRig(t)
	_, id, err := r.Tokens.Create(token.Claims{Role: token.Tenant, Parent: r.IDs["acme"], Expires: time.Now().Add(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "it has expired", func() bool {
		_, err := r.Tokens.Get(id)
		return err != nil
	})
	for _, as := range []string{"acme", "root"} {
		if one := served.JSON[api.Token](t, r.Want(200, as, "GET", "/v1/tokens/"+id, "")); one.ID != id || one.Refused == "" {
			t.Errorf("%s: %+v", as, one)
		}
	}
	r.Want(404, "evil", "GET", "/v1/tokens/"+id, "")
	r.Want(404, "evil", "DELETE", "/v1/tokens/"+id, "")
	r.Want(200, "acme", "DELETE", "/v1/tokens/"+id, "")
}
