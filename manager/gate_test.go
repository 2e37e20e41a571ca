package manager

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// TestPlacement checks which calls may run without a sandbox: only those that two
// settings permit to.
func TestPlacement(t *testing.T) {
	missing := errors.New("no bubblewrap")
	tests := []struct {
		name, settings string
		wall           error
		noHost         bool
		want           Place
		field, reason  string
		wsl            bool
		call           outing
	}{
		{"defaults", ``, nil, false, Sandboxed, "", "mode is all", false, outing{}},
		{"defaults, no sandbox", ``, missing, false, Refused, "failIfUnavailable", "failIfUnavailable is true", false, outing{}},
		{"allowed, with a sandbox", `"commands": {"allowUnsandboxed": true}`, nil, false, Sandboxed, "", "mode is all", false, outing{}},
		{"allowed, no sandbox", `"commands": {"allowUnsandboxed": true}`, missing, false, Refused, "failIfUnavailable", "failIfUnavailable is true", false, outing{}},
		{"need not be, no sandbox", `"failIfUnavailable": false`, missing, false, Refused, "failIfUnavailable", "allowUnsandboxed is false", false, outing{}},
		{"need not be and allowed, no sandbox", `"failIfUnavailable": false, "commands": {"allowUnsandboxed": true}`, missing, false, Unsandboxed, "failIfUnavailable", "no bubblewrap", false, outing{}},
		{"need not be and allowed, with a sandbox", `"failIfUnavailable": false, "commands": {"allowUnsandboxed": true}`, nil, false, Sandboxed, "", "", false, outing{}},
		{"not enabled", `"enabled": false`, nil, false, Refused, "enabled", "allowUnsandboxed is false", false, outing{}},
		{"not enabled, no sandbox either", `"enabled": false`, missing, false, Refused, "enabled", "enabled is false", false, outing{}},
		{"not enabled and allowed", `"enabled": false, "commands": {"allowUnsandboxed": true}`, nil, false, Unsandboxed, "enabled", "enabled is false", false, outing{}},
		{"off and allowed", `"mode": "off", "commands": {"allowUnsandboxed": true}`, nil, false, Unsandboxed, "mode", "mode is off", false, outing{}},
		{"main session and allowed", `"mode": "non-main", "commands": {"allowUnsandboxed": true}`, nil, false, Unsandboxed, "mode", "main session", false, outing{}},
		{"platform", `"enabledPlatforms": ["darwin"]`, nil, false, Refused, "enabledPlatforms", "does not name linux", false, outing{}},
		{"in windows", `"enabledPlatforms": ["wsl"]`, nil, false, Sandboxed, "", "", true, outing{}},
		{"in windows, linux alone", `"enabledPlatforms": ["linux"]`, nil, false, Refused, "enabledPlatforms", "does not name wsl", true, outing{}},
		{"not in windows", `"enabledPlatforms": ["wsl"]`, nil, false, Refused, "enabledPlatforms", "does not name linux", false, outing{}},
		{"platform and allowed", `"enabledPlatforms": ["darwin"], "commands": {"allowUnsandboxed": true}`, nil, false, Unsandboxed, "enabledPlatforms", "does not name linux", false, outing{}},
		{"allowed, and no way", `"enabled": false, "commands": {"allowUnsandboxed": true}`, nil, true, Refused, "enabled", "cannot run commands without a sandbox", false, outing{}},
		{"excluded", ``, nil, false, Sandboxed, "", "commands.excluded matches, but commands.allowUnsandboxed is false", false, outing{excluded: true}},
		{"excluded and allowed", `"commands": {"allowUnsandboxed": true}`, nil, false, Unsandboxed, "commands.excluded", "matches every command", false, outing{excluded: true}},
		{"excluded and allowed, no sandbox", `"commands": {"allowUnsandboxed": true}`, missing, false, Unsandboxed, "commands.excluded", "matches every command", false, outing{excluded: true}},
		{"excluded and allowed, and no way", `"commands": {"allowUnsandboxed": true}`, nil, true, Sandboxed, "", "cannot run commands without a sandbox", false, outing{excluded: true}},
		{"excluded, no sandbox", ``, missing, false, Refused, "failIfUnavailable", "failIfUnavailable is true", false, outing{excluded: true}},
		{"asked for", ``, nil, false, Refused, "dangerouslyDisableSandbox", "allowUnsandboxed is false", false, outing{asked: true}},
		{"asked for and excluded", ``, nil, false, Refused, "dangerouslyDisableSandbox", "allowUnsandboxed is false", false, outing{asked: true, excluded: true}},
		{"asked for and allowed", `"commands": {"allowUnsandboxed": true}`, nil, false, Unsandboxed, "dangerouslyDisableSandbox", "allowUnsandboxed is true", false, outing{asked: true}},
		{"asked for and allowed, and no way", `"commands": {"allowUnsandboxed": true}`, nil, true, Refused, "dangerouslyDisableSandbox", "cannot run commands without a sandbox", false, outing{asked: true}},
		{"asked for, not enabled", `"enabled": false`, nil, false, Refused, "enabled", "allowUnsandboxed is false", false, outing{asked: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := config.Parse("t", []byte(`{"agents": {"defaults": {"sandbox": {`+tt.settings+`}}}}`))
			if err != nil {
				t.Fatal(err)
			}
			res, err := config.Resolve(s, config.Who{Agent: "main", Session: "main"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			g := placement(res, platform{"linux", tt.wsl}, tt.wall, !tt.noHost, tt.call)
			if g.Place != tt.want || g.Field != tt.field || !strings.Contains(g.Reason, tt.reason) {
				t.Errorf("got %+v", g)
			}
		})
	}
}

// TestGatesFollowTheSettings holds that a gate is never kept for settings that
// it was not made of: another call may change them in between.
func TestGatesFollowTheSettings(t *testing.T) {
	var m Manager
	m.gates, m.settings = &gates{m: &m}, &atomic.Pointer[config.Settings]{}
	judge := func(s *config.Settings) policy.Verdict {
		t.Helper()
		res, err := config.Resolve(s, config.Who{Agent: "main", Session: "s"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		g, err := m.gates.gate(s, res, nil)
		if err != nil {
			t.Fatal(err)
		}
		return g.Judge(gate.Call{Line: "make"}).Verdict
	}
	before, err := config.NewBuilder().BlockCommand("make").Build()
	if err != nil {
		t.Fatal(err)
	}
	after, err := config.NewBuilder().Build()
	if err != nil {
		t.Fatal(err)
	}
	m.settings.Store(after)
	for range 2 {
		if v := judge(before); v != policy.Deny {
			t.Errorf("before: %s", v)
		}
		if v := judge(after); v != policy.Allow {
			t.Errorf("after: %s", v)
		}
	}
}
