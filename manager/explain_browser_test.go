package manager_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestExplainTellsTheBrowser holds that explain names every sandbox of the
// browser that settings take away, and what its pages reach.
func TestExplainTellsTheBrowser(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		settings string // of the sandbox
		uses     string
		isolated bool
		own      bool // Chromium's own sandbox
		network  string
		reach    string
		danger   string
		path     string // of a setting that is shown with value and layer
		value    string
		layer    string
	}{
		{"off", `{}`, "nothing", true, false, "none", "there is none", "", "browser.enabled", "false", "default"},
		{"switches of one that is off are no danger", `{"browser":{"dangerouslyNoSandbox":true}}`, "nothing", true, false, "none", "there is none", "", "browser.enabled", "false", "default"},
		{"on", `{"browser":{"enabled":true}}`, "container", true, true, "none", "no host", "", "browser.enabled", "true", "agents.defaults"},
		{"with hosts", `{"browser":{"enabled":true},"network":{"allowedDomains":["a.example","b.example"]}}`, "container", true, true, "none", "(a.example, b.example)", "", "browser.headless", "true", "default"},
		{"with the public", `{"browser":{"enabled":true},"network":{"allowPublic":true}}`, "container", true, true, "none", "any public host", "", "browser.allowDownloads", "false", "default"},
		{"with a network of its own", `{"browser":{"enabled":true,"network":"own"}}`, "container", true, true, "own", "services of the host itself and of its cloud", "", "browser.network", "own", "agents.defaults"},
		{"with a network of the engine", `{"browser":{"enabled":true,"network":"web"}}`, "container", true, true, "web", "need not use the proxy", "", "browser.network", "web", "agents.defaults"},
		{"without Chromium's sandbox", `{"browser":{"enabled":true,"dangerouslyNoSandbox":true}}`, "container", true, false, "none", "no host", "browser.dangerouslyNoSandbox", "browser.dangerouslyNoSandbox", "true", "agents.defaults"},
		{"a browser of the host", `{"browser":{"enabled":true,"allowHostControl":true,"hostCdpUrl":"http://127.0.0.1:9222"}}`, "host", false, false, "", "this host reaches", "browser.allowHostControl", "browser.hostCdpUrl", "http://127.0.0.1:9222", "agents.defaults"},
		{"allowed and not named", `{"browser":{"enabled":true,"allowHostControl":true}}`, "container", true, true, "none", "no host", "", "browser.allowHostControl", "true", "agents.defaults"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			settings := `{"agents":{"defaults":{"sandbox":` + tt.settings + `}}}`
			e, err := newMachine(t).manager(settings, "").Explain(t.Context(), config.Who{Agent: "main", Session: "s"}, nil, manager.Questions{})
			must(t, err)
			p := e.Browser
			if p.Uses != tt.uses || p.Isolated != tt.isolated || p.Sandbox != tt.own || p.Network != tt.network || !strings.Contains(p.Reach, tt.reach) {
				t.Errorf("%+v", p)
			}
			if want := tt.danger != ""; want && !slices.Contains(e.Dangerous, tt.danger) || !want && len(e.Dangerous) > 0 {
				t.Errorf("dangerous: %q", e.Dangerous)
			}
			if !slices.ContainsFunc(p.Settings, func(s manager.Setting) bool { return s.Path == tt.path && s.Value == tt.value && s.Layer == tt.layer }) {
				t.Errorf("%s is not %s by %s: %+v", tt.path, tt.value, tt.layer, p.Settings)
			}
			if p.Settings == nil || p.Drift == nil || p.Problems == nil {
				t.Error("a list is null")
			}
		})
	}
}
