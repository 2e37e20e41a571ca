package grant_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox/grant"
)

// TestGrantNarrows checks that limits and lists of a grant make the profile narrower
// than the settings do and never wider, and that the refusal names whose list it is.
func TestGrantNarrows(t *testing.T) {
	g := aGrant()
	g.Limits = grant.Limits{MaxBytesIn: 1 << 40, MaxFiles: 1, MaxDepth: 2, MaxConcurrency: 1, Timeout: time.Second}
	g.Lists = grant.Granted{Paths: []string{"/workspace/docs", "/elsewhere"}, Tools: []string{"git", "rm"}, MIME: []string{"text/html", "*/*"}, Methods: []string{"*"}}
	p := built(t, g, aManifest(), aPolicy())
	plain := built(t, aGrant(), aManifest(), aPolicy())
	if p.Limits.MaxBytesIn != plain.Limits.MaxBytesIn || p.Limits.MaxFiles != 1 || p.Limits.MaxDepth != 2 || p.Limits.MaxConcurrency != 1 || p.Limits.Timeout != time.Second {
		t.Errorf("limits %+v", p.Limits)
	}
	if p.Hash == plain.Hash {
		t.Error("the hash is that of the profile without them")
	}
	want := grant.Lists{
		Domains: plain.Lists.Domains, Paths: []string{"/workspace/docs"}, Tools: []string{"git"},
		MIME: []string{"application/json", "text/*", "text/html"}, Methods: []string{"GET", "POST"},
	}
	if diff := cmp.Diff(want, p.Lists); diff != "" {
		t.Error(diff)
	}
	g.Lists = grant.Granted{Paths: []string{}, Tools: []string{"make"}, MIME: []string{"text/html"}, Methods: []string{"POST"}}
	guard := guarded(t, g, aManifest(), aPolicy())
	for rule, err := range map[string]error{
		"grant.lists.paths":   guard.Validate(grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a"}, now()),
		"grant.lists.tools":   guard.Validate(grant.Operation{Kind: grant.OpProcExec, Tool: "git", Args: []string{"log"}}, now()),
		"grant.lists.methods": guard.Validate(request("GET", "https://api.example.com/"), now()),
		"grant.lists.mime":    guard.ValidateMIME("text/plain"),
		"policy.lists.mime":   guarded(t, aGrant(), aManifest(), aPolicy()).ValidateMIME("image/png"),
	} {
		if got := grant.Audit(err).Rule; got != rule {
			t.Errorf("the rule is %q, want %q: %v", got, rule, err)
		}
	}
	for field, change := range map[string]func(*grant.Grant){
		"grant.limits.maxDepth":  func(g *grant.Grant) { g.Limits.MaxDepth = -1 },
		"grant.lists.mime[0]":    func(g *grant.Grant) { g.Lists.MIME = []string{"text"} },
		"grant.lists.tools[1]":   func(g *grant.Grant) { g.Lists.Tools = []string{"git", "a b"} },
		"grant.lists.methods[0]": func(g *grant.Grant) { g.Lists.Methods = []string{"get"} },
		"grant.lists.paths[0]":   func(g *grant.Grant) { g.Lists.Paths = []string{"a/.."} },
	} {
		bad := aGrant()
		change(&bad)
		if got := grant.Public(bad.Check(noon())).Field; got != field {
			t.Errorf("the field is %q, want %q", got, field)
		}
	}
}
