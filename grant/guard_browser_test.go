package grant_test

import (
	"slices"
	"testing"

	"github.com/bulkhead-dev/sandbox/grant"
)

// operator are parties that allow every action of a browser.
func operator() (grant.Grant, grant.Manifest, grant.Policy) {
	g, m, p := aGrant(), aManifest(), aPolicy()
	more := append(everything(), grant.Capability{Kind: grant.Browser, Actions: []string{"upload", "pdf", "wait"}})
	g.Capabilities, m.Capabilities, p.Capabilities = more, more, more
	return g, m, p
}

func upload(selector, path string) grant.Operation {
	return grant.Operation{Kind: grant.OpBrowserUpload, Selector: selector, Path: path}
}

func wait(selector, text string, gone bool) grant.Operation {
	return grant.Operation{Kind: grant.OpBrowserWait, Selector: selector, Text: text, Gone: gone}
}

func TestGuardBrowserMore(t *testing.T) {
	g, m, p := operator()
	guard := guarded(t, g, m, p)
	tests := []judgement{
		{"pdf", grant.Operation{Kind: grant.OpBrowserPDF}, "", ""},
		{"pdf of a part", grant.Operation{Kind: grant.OpBrowserPDF, Selector: "a"}, malformed, "op.selector"},
		{"wait for an element", wait("a", "", false), "", ""},
		{"wait until it is gone", wait("a", "", true), "", ""},
		{"wait for a text", wait("", "done", false), "", ""},
		{"wait for nothing", wait("", "", false), malformed, "op.selector"},
		{"wait for both", wait("a", "done", false), malformed, "op.selector"},
		{"wait until a text is gone", wait("", "done", true), malformed, "op.selector"},
		{"wait for NUL", wait("", "a\x00", false), malformed, "op.text"},
		{"gone of another", grant.Operation{Kind: grant.OpBrowserClick, Selector: "a", Gone: true}, malformed, "op.gone"},
		{"upload", upload("input", "/workspace/a.txt"), "", ""},
		{"upload to nowhere", upload("", "/workspace/a.txt"), malformed, "op.selector"},
		{"upload nothing", upload("input", ""), malformed, "op.path"},
		{"upload a folder", upload("input", "/workspace/a/"), malformed, "op.path"},
		{"upload what is denied", upload("input", "/workspace/secret/a"), isBlocked, "policy.denied.paths[0]"},
		{"upload from outside", upload("input", "/etc/passwd"), isBlocked, "policy.mappings"},
		{"upload upwards", upload("input", "/workspace/../etc/passwd"), isBlocked, "op.path"},
		{"download to temporary space", grant.Operation{Kind: grant.OpBrowserDownload, Selector: "a", Path: "/tmp/call/x"}, isBlocked, "policy.mappings"},
		{"upload from temporary space", upload("input", "/tmp/call/a"), noGrant, "grant.capabilities"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { refused(t, guard.Validate(tt.op, now()), tt.code, tt.field) })
	}
}

// TestUploadNeedsReading checks that only what may be read as a file goes to a
// page, and that it counts as writing, which needs consent.
func TestUploadNeedsReading(t *testing.T) {
	g, m, p := operator()
	g.Capabilities = []grant.Capability{{Kind: grant.Browser, Actions: []string{"upload", "pdf"}}}
	blind := guarded(t, g, m, p)
	refused(t, blind.Validate(upload("input", "/workspace/a.txt"), now()), noGrant, "grant.capabilities")
	refused(t, blind.Validate(wait("a", "", false), now()), noGrant, "grant.capabilities")
	refused(t, blind.Validate(grant.Operation{Kind: grant.OpBrowserPDF}, now()), "", "")

	g, m, p = operator()
	all := guarded(t, g, m, p)
	allowed, err := all.Check(upload("input", "/workspace/a.txt"), now())
	if err != nil || !slices.Contains(allowed.Effects, grant.EffectWrite) || !slices.Contains(allowed.Effects, grant.EffectRead) {
		t.Errorf("%+v, %v", allowed.Effects, err)
	}
}

func TestVettedBrowser(t *testing.T) {
	g, m, p := operator()
	guard := guarded(t, g, m, p)
	tests := map[string]grant.Operation{
		"browser:upload:/workspace/a": upload("a", "/workspace//a"),
		"browser:pdf":                 {Kind: grant.OpBrowserPDF},
		"browser:wait":                wait("", "x", false),
	}
	for want, op := range tests {
		if v, err := guard.Check(op, now()); err != nil || v.Capability != want || v.Domain != grant.DomainBrowser {
			t.Errorf("%+v is %+v, %v; want %s", op, v, err, want)
		}
	}
}
