package manager

import (
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
)

// TestPassage holds who may run without a wall: nobody but whom two settings
// let out.
func TestPassage(t *testing.T) {
	missing := errors.New("no bubblewrap")
	tests := []struct {
		name, settings string
		wall           error
		noHost         bool
		want           Place
		field, reason  string
		wsl            bool
	}{
		{"defaults", ``, nil, false, InWall, "", "mode is all", false},
		{"defaults, no wall", ``, missing, false, Nowhere, "failIfUnavailable", "failIfUnavailable is true", false},
		{"allowed, with a wall", `"commands": {"allowUnsandboxed": true}`, nil, false, InWall, "", "mode is all", false},
		{"allowed, no wall", `"commands": {"allowUnsandboxed": true}`, missing, false, Nowhere, "failIfUnavailable", "failIfUnavailable is true", false},
		{"need not be, no wall", `"failIfUnavailable": false`, missing, false, Nowhere, "failIfUnavailable", "allowUnsandboxed is false", false},
		{"need not be and allowed, no wall", `"failIfUnavailable": false, "commands": {"allowUnsandboxed": true}`, missing, false, OnHost, "failIfUnavailable", "no bubblewrap", false},
		{"need not be and allowed, with a wall", `"failIfUnavailable": false, "commands": {"allowUnsandboxed": true}`, nil, false, InWall, "", "", false},
		{"not enabled", `"enabled": false`, nil, false, Nowhere, "enabled", "allowUnsandboxed is false", false},
		{"not enabled, no wall either", `"enabled": false`, missing, false, Nowhere, "enabled", "enabled is false", false},
		{"not enabled and allowed", `"enabled": false, "commands": {"allowUnsandboxed": true}`, nil, false, OnHost, "enabled", "enabled is false", false},
		{"off and allowed", `"mode": "off", "commands": {"allowUnsandboxed": true}`, nil, false, OnHost, "mode", "mode is off", false},
		{"main session and allowed", `"mode": "non-main", "commands": {"allowUnsandboxed": true}`, nil, false, OnHost, "mode", "main session", false},
		{"platform", `"enabledPlatforms": ["darwin"]`, nil, false, Nowhere, "enabledPlatforms", "does not name linux", false},
		{"in windows", `"enabledPlatforms": ["wsl"]`, nil, false, InWall, "", "", true},
		{"in windows, linux alone", `"enabledPlatforms": ["linux"]`, nil, false, Nowhere, "enabledPlatforms", "does not name wsl", true},
		{"not in windows", `"enabledPlatforms": ["wsl"]`, nil, false, Nowhere, "enabledPlatforms", "does not name linux", false},
		{"platform and allowed", `"enabledPlatforms": ["darwin"], "commands": {"allowUnsandboxed": true}`, nil, false, OnHost, "enabledPlatforms", "does not name linux", false},
		{"allowed, and no way", `"enabled": false, "commands": {"allowUnsandboxed": true}`, nil, true, Nowhere, "enabled", "cannot run commands without a wall", false},
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
			g := passage(res, platform{"linux", tt.wsl}, tt.wall, !tt.noHost)
			if g.Place != tt.want || g.Field != tt.field || !strings.Contains(g.Reason, tt.reason) {
				t.Errorf("got %+v", g)
			}
		})
	}
}
