//go:build !sandbox_front

package main

import (
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// TestAttackIsAlone holds that the self-test hits no sandbox and no folder
// in use, whatever the settings say.
func TestAttackIsAlone(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, file string }{
		{"defaults", `{}`},
		{"off", `{"enabled": false, "mode": "off"}`},
		{"on the host", `{"failIfUnavailable": false, "enabledPlatforms": ["darwin"], "commands": {"allowUnsandboxed": true}}`},
		{"shared by all", `{"scope": "shared", "mode": "non-main"}`},
		{"the agent's own folder", `{"scope": "agent", "workspaceAccess": "rw"}`},
		{"a view of the agent's own folder", `{"workspaceAccess": "private"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := config.Parse("test", []byte(`{"agents": {"defaults": {"sandbox": `+tt.file+`}}}`))
			if err != nil {
				t.Fatal(err)
			}
			who := config.Who{Agent: "main", Session: "doctor-x"}
			flags := config.Overrides{Provider: "docker"}.Layer()
			before, err := config.Resolve(s, who, flags)
			if err != nil {
				t.Fatal(err)
			}
			got, err := config.Resolve(s, who, alone(flags, before))
			if err != nil {
				t.Fatal(err)
			}
			if !got.Sandboxed || got.ScopeKey != "doctor-x" || got.Scope != sandbox.ScopeSession || got.WorkspaceAccess == sandbox.AccessRW || got.Private() || got.Provider != "docker" || got.Commands.AllowUnsandboxed || !got.FailIfUnavailable {
				t.Errorf("the attack would hit %+v", got.Values)
			}
			if flags.Scope != nil {
				t.Error("the caller's flags were changed")
			}
		})
	}
}
