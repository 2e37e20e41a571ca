package config_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// resolved parses a file and resolves it for the agent researcher.
func resolved(t *testing.T, name, in string) config.Resolved {
	t.Helper()
	s, err := config.Parse(name, []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	r, err := config.Resolve(s, ann, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPermissionsBecomeSettings(t *testing.T) {
	r := resolved(t, "/etc/team/sandbox.json", `{"agents":{
		"defaults":{"sandbox":{
			"network":{"allowedDomains":["a.example"],"deniedDomains":["b.example"]},"commands":{"block":["x"]},
			"permissions":{"allow":["WebFetch(domain:c.example)","Read(/docs/**)","Edit(~/out)","Bash(npm test)"],"deny":["WebFetch(domain:d.example)","Read(./.env)","Edit(//srv/x/**)","Bash(sudo:*)"]}}},
		"list":[{"id":"researcher","sandbox":{
			"network":{"allowedDomains":["e.example"],"deniedDomains":["f.example"]},"commands":{"allow":["y"],"block":["z"]},
			"permissions":{"allow":["WebFetch(domain:g.example)","Bash"]}}}]}}`)
	for name, got := range map[string]struct {
		have []string
		want string
	}{
		"allowedDomains": {r.Network.AllowedDomains, "e.example g.example"}, // the agent's list replaces, as ever
		"deniedDomains":  {r.Network.DeniedDomains, "f.example d.example"},  // a denial stays
		"allowRead":      {r.Filesystem.AllowRead, "/etc/team/docs"},
		"allowWrite":     {r.Filesystem.AllowWrite, "~/out"},
		"allow":          {r.Commands.Allow, "y"},
		"block":          {r.Commands.Block, "z sudo:*"},
	} {
		if strings.Join(got.have, " ") != got.want {
			t.Errorf("%s: %q, want %q", name, got.have, got.want)
		}
	}
	if !slices.Contains(r.Filesystem.DenyRead, ".env") || !slices.Contains(r.Filesystem.DenyRead, "~/.ssh") || !slices.Contains(r.Filesystem.DenyWrite, "/srv/x") {
		t.Errorf("denied: %q and %q", r.Filesystem.DenyRead, r.Filesystem.DenyWrite)
	}
	for path, want := range map[string]string{
		"network.allowedDomains[1]": "agents.list[researcher] permissions.allow[0]", "network.allowedDomains[0]": "agents.list[researcher]",
		"network.deniedDomains[1]": "agents.defaults permissions.deny[0]", "filesystem.allowRead[0]": "agents.defaults permissions.allow[1]",
		"commands.block[1]": "agents.defaults permissions.deny[3]", "filesystem.denyRead[0]": "default",
	} {
		if got := r.Origin(path); got != want {
			t.Errorf("%s is from %q, want %q", path, got, want)
		}
	}
	i := slices.IndexFunc(r.NoEffect, func(n config.Notice) bool { return n.Path == "agents.list[0].sandbox.permissions.allow[1]" })
	if i < 0 || r.NoEffect[i].Value != `"Bash"` || !strings.Contains(r.NoEffect[i].Why, "strictness") {
		t.Errorf("notices: %+v", r.NoEffect)
	}
}

func TestPermissionErrors(t *testing.T) {
	const at = "agents.defaults.sandbox.permissions."
	tests := []struct{ name, file, rules, field, message string }{
		{"malformed", "/s", `"allow":["Read("]`, at + "allow[0]", "parenthesis"},
		{"second of two", "/s", `"deny":["Bash(x)","WebSearch"]`, at + "deny[1]", "tool"},
		{"folder not known", "settings.json", `"allow":["Bash(x)"],"deny":["Read(/x)"]`, at + "deny[0]", "not known"},
		{"ask of a command", "/s", `"ask":["Bash(git push:*)"]`, at + "ask[0]", "no setting"},
		{"hidden", "/s", `"allow":["Bash(a\u202eb)"]`, at + "allow[0]", "invisible"},
		{"unknown list", "/s", `"permit":[]`, at + "permit", "unknown key"},
		{"host", "/s", `"allow":["WebFetch(domain:a b)"]`, at + "allow[0]", "no host has"},
	}
	for _, tt := range tests {
		_, err := config.Parse(tt.file, []byte(inDefaults(`"permissions":{`+tt.rules+`}`)))
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Field != tt.field || !strings.Contains(e.Message, tt.message) || e.Code != sandbox.CodeValidation {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	// Settings that a program made are judged too.
	made := &config.Settings{Agents: &config.Agents{Defaults: &config.AgentDefaults{Sandbox: &config.SandboxSettings{
		Permissions: &config.PermissionSettings{Deny: []string{"Read(//a\x00b)", "Edit(/x)"}},
	}}}}
	_, err := config.Resolve(made, ann, nil)
	if err == nil || !strings.Contains(err.Error(), at+"deny[0]") || !strings.Contains(err.Error(), at+"deny[1]") {
		t.Errorf("made by a program: %v", err)
	}
	made.Agents.Defaults.Sandbox.Permissions.Deny = []string{"Edit(/x)"}
	made.Dir = "/etc/team"
	if r, err := config.Resolve(made, ann, nil); err != nil || !slices.Contains(r.Filesystem.DenyWrite, "/etc/team/x") {
		t.Errorf("made by a program: %v", err)
	}
}
