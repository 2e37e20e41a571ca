package grant_test

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

func aWish() grant.Wish {
	return grant.Wish{ID: "g-2", Call: "call-2", DecisionKey: "dk-2"}
}

func TestDerive(t *testing.T) {
	g := aGrant()
	child, err := g.Derive(aWish(), noon())
	if err != nil {
		t.Fatal(err)
	}
	want := g
	want.ID, want.Parent, want.Call, want.DecisionKey, want.Issued = "g-2", "g-1", "call-2", "dk-2", noon()
	want.Capabilities = normal(t, g.Capabilities)
	if !reflect.DeepEqual(child, want) {
		t.Errorf("got %+v\nwant %+v", child, want)
	}
	child.Consent.By = "mallory"
	if g.Consent.By != "alice" {
		t.Error("the consent is shared")
	}

	w := aWish()
	w.Agent = "helper"
	w.Capabilities = []grant.Capability{{Kind: grant.FSRead, Path: "/workspace/a"}, {Kind: grant.NetHTTP, Host: "b.cdn.example.com", Port: 443, Methods: []string{"GET"}}}
	w.Budget = &grant.Budget{Calls: 1, WallMs: 5}
	w.Expires = noon().Add(time.Minute)
	if child, err = g.Derive(w, noon()); err != nil {
		t.Fatal(err)
	}
	if child.Agent != "helper" || child.Budget != *w.Budget || !child.Expires.Equal(w.Expires) || len(child.Capabilities) != 2 || child.Tenant != "acme" {
		t.Errorf("%+v", child)
	}
	if _, err := grant.Build(child, aManifest(), aPolicy(), noon()); err != nil {
		t.Errorf("a derived grant is one: %v", err)
	}
	none := aWish()
	none.Capabilities = []grant.Capability{}
	if child, err = g.Derive(none, noon()); err != nil || len(child.Capabilities) != 0 {
		t.Errorf("nothing was wished for: %+v, %v", child.Capabilities, err)
	}
}

func TestDeriveRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(*grant.Grant, *grant.Wish)
		code   sandbox.Code
		field  string
	}{
		{"no parent", func(g *grant.Grant, _ *grant.Wish) { *g = grant.Grant{} }, noGrant, "grant"},
		{"expired parent", func(g *grant.Grant, _ *grant.Wish) { g.Expires = noon() }, noGrant, "grant.expires"},
		{"no id", func(_ *grant.Grant, w *grant.Wish) { w.ID = "" }, malformed, "wish.id"},
		{"parent's id", func(_ *grant.Grant, w *grant.Wish) { w.ID = "g-1" }, malformed, "wish.id"},
		{"no call", func(_ *grant.Grant, w *grant.Wish) { w.Call = "" }, malformed, "wish.call"},
		{"parent's call", func(_ *grant.Grant, w *grant.Wish) { w.Call = "call-1" }, malformed, "wish.call"},
		{"no decision", func(_ *grant.Grant, w *grant.Wish) { w.DecisionKey = "" }, malformed, "wish.decisionKey"},
		{"parent's decision", func(_ *grant.Grant, w *grant.Wish) { w.DecisionKey = "dk-1" }, noGrant, "wish.decisionKey"},
		{"longer", func(_ *grant.Grant, w *grant.Wish) { w.Expires = noon().Add(time.Hour + 1) }, noGrant, "wish.expires"},
		{"over already", func(_ *grant.Grant, w *grant.Wish) { w.Expires = noon() }, noGrant, "wish.expires"},
		{"more calls", func(_ *grant.Grant, w *grant.Wish) { w.Budget = &grant.Budget{Calls: 11} }, noGrant, "wish.budget.calls"},
		{"no bound", func(_ *grant.Grant, w *grant.Wish) { w.Budget = &grant.Budget{BytesOut: grant.Unlimited} }, noGrant, "wish.budget.bytesOut"},
		{"below 0", func(_ *grant.Grant, w *grant.Wish) { w.Budget = &grant.Budget{Files: -2} }, malformed, "wish.budget.files"},
		{"wider path", func(_ *grant.Grant, w *grant.Wish) {
			w.Capabilities = []grant.Capability{{Kind: grant.FSWrite, Path: "/workspace"}}
		}, noGrant, "wish.capabilities"},
		{"wider host", func(_ *grant.Grant, w *grant.Wish) {
			w.Capabilities = []grant.Capability{{Kind: grant.NetHTTP, Host: "*.example.com", Methods: []string{"GET"}}}
		}, noGrant, "wish.capabilities"},
		{"another method", func(_ *grant.Grant, w *grant.Wish) {
			w.Capabilities = []grant.Capability{{Kind: grant.NetHTTP, Host: "x.cdn.example.com", Methods: []string{"GET", "POST"}}}
		}, noGrant, "wish.capabilities"},
		{"more space", func(_ *grant.Grant, w *grant.Wish) { w.Capabilities = []grant.Capability{{Kind: grant.Temp}} }, noGrant, "wish.capabilities"},
		{"malformed", func(_ *grant.Grant, w *grant.Wish) { w.Capabilities = []grant.Capability{{Kind: grant.FSRead}} }, malformed, "wish.capabilities[0].path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, w := aGrant(), aWish()
			tt.change(&g, &w)
			child, err := g.Derive(w, noon())
			refused(t, err, tt.code, tt.field)
			if child.ID != "" {
				t.Errorf("refused, and yet there is %+v", child)
			}
		})
	}
}

// TestDeriveNeverMore checks that whatever is wished for, a derived grant allows
// nothing that its parent does not.
func TestDeriveNeverMore(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 4))
	all := universe()
	given := 0
	for n := range rounds(2000) {
		g, w := aGrant(), aWish()
		g.Capabilities, w.Capabilities = append(randomList(r), randomList(r)...), randomList(r)
		child, err := g.Derive(w, noon())
		if err != nil {
			continue
		}
		if len(w.Capabilities) > 0 {
			given++
		}
		for _, p := range all {
			if allows(child.Capabilities, p) && !allows(g.Capabilities, p) {
				t.Fatalf("round %d: %+v is allowed by %+v and not by %+v", n, p, child.Capabilities, g.Capabilities)
			}
			if allows(w.Capabilities, p) != allows(child.Capabilities, p) {
				t.Fatalf("round %d: %+v is not as was wished for", n, p)
			}
		}
	}
	if given < rounds(50) {
		t.Errorf("only %d wishes were granted: the test does not try enough", given)
	}
}
