package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/confighash"
)

// TestBrowserDrift checks that a change of a browser is reported in terms of
// its settings, for every variable that the browser is started with.
func TestBrowserDrift(t *testing.T) {
	old := browser.Settings{CDPPort: 9222, VNCPort: 5900, NoVNCPort: 6080, Headless: true, NoSandbox: true, Schemes: []string{"http", "https", "data"}}
	changed := browser.Settings{CDPPort: 9333, VNCPort: 5901, NoVNCPort: 6081, VNC: true, Direct: true, Schemes: []string{"http", "https"}, Downloads: true}
	spec := func(s browser.Settings, network string) sandbox.Spec {
		out := sandbox.Spec{Kind: sandbox.KindBrowser, Network: network, Env: s.Environment()}
		delete(out.Env, "SANDBOX_BROWSER_START_TIMEOUT") // no part of the container
		out.Env["OTHER"] = network
		return out
	}
	a, b := spec(old, "none"), spec(changed, "own")
	got := browserDrift(confighash.Diff(a, b), a.Env, b.Env)
	want := []confighash.Change{
		{Field: "browser.network", From: "none", To: "own"},
		{Field: "docker.env.OTHER", From: "set", To: "changed"},
		{Field: "browser.cdpPort", From: "9222", To: "9333"},
		{Field: "browser.allowDownloads", From: "false", To: "true"},
		{Field: "browser.headless", From: "true", To: "false"},
		{Field: "browser.noVncPort", From: "6080", To: "6081"},
		{Field: "browser.dangerouslyNoSandbox", From: "true", To: "false", Tightens: true},
		{Field: "browser.allowDataUrls", From: "true", To: "false", Tightens: true},
		{Field: "browser.enableNoVnc", From: "false", To: "true"},
		{Field: "browser.vncPort", From: "5900", To: "5901"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(keptDangers(got)) != 1 || len(keptDangers(browserDrift(confighash.Diff(b, a), b.Env, a.Env))) != 0 {
		t.Error("what a kept browser lacks is not told, or told of one that lacks nothing")
	}
}
