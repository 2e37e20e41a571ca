package config_test

import (
	"slices"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy"
)

// TestFolderAccess holds that a folder that a flag names is the workspace, unless
// private is asked for by any layer, or ro by a flag.
func TestFolderAccess(t *testing.T) {
	for _, c := range []struct {
		file  string
		flags config.Overrides
		want  sandbox.Access
	}{
		{"none", config.Overrides{}, sandbox.AccessNone},
		{"ro", config.Overrides{}, sandbox.AccessRO},
		{"rw", config.Overrides{}, sandbox.AccessRW},
		{"private", config.Overrides{}, sandbox.AccessPrivate},
		{"none", config.Overrides{Workspace: "/srv/x"}, sandbox.AccessRW},
		{"ro", config.Overrides{Workspace: "/srv/x"}, sandbox.AccessRW},
		{"private", config.Overrides{Workspace: "/srv/x"}, sandbox.AccessPrivate},
		{"rw", config.Overrides{Access: sandbox.AccessPrivate}, sandbox.AccessPrivate},
		{"rw", config.Overrides{Workspace: "/srv/x", Access: sandbox.AccessPrivate}, sandbox.AccessPrivate},
		{"rw", config.Overrides{Workspace: "/srv/x", Access: sandbox.AccessRO}, sandbox.AccessRO},
		{"private", config.Overrides{Workspace: "/srv/x", Access: sandbox.AccessRW}, sandbox.AccessRW},
	} {
		r := resolve(t, inDefaults(`"workspaceAccess":"`+c.file+`"`), ann, c.flags)
		if got := r.FolderAccess(); got != c.want || r.Private() != (c.want == sandbox.AccessPrivate) {
			t.Errorf("%s with %+v: %s; want %s", c.file, c.flags, got, c.want)
		}
	}
}

// TestPrivateSettings holds what settings mean for a private view: rules for the
// folder by its path on the host are rules for the workspace, which may be written,
// and what bounds or keeps ready other workspaces is named as being without effect.
func TestPrivateSettings(t *testing.T) {
	r := resolve(t, inDefaults(`"workspaceAccess":"private","workspaceQuota":"1g","pool":{"size":1},"filesystem":{"denyRead":["/srv/x/secret"]}`), ann, config.Overrides{Workspace: "/srv/x"})
	p, err := config.PathPolicy(r, config.Inside{Home: "/root", HostHome: "/root"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]policy.Verdict{"/workspace/secret/a": policy.Deny, "/workspace/open": policy.Allow} {
		if got := p.Judge(sandbox.OpRead, path); got.Verdict != want {
			t.Errorf("%s: %+v", path, got)
		}
	}
	tools, err := config.ToolPolicy(r)
	if err != nil || tools.Changes().Err() != nil {
		t.Errorf("%v, %v", err, tools.Changes().Err())
	}
	for _, path := range []string{"workspaceQuota", "pool.size"} {
		if !slices.ContainsFunc(r.NoEffect, func(n config.Notice) bool {
			return strings.HasSuffix(n.Path, path) && strings.Contains(n.Why, "workspaceAccess is private")
		}) {
			t.Errorf("%s is not said to be without effect: %+v", path, r.NoEffect)
		}
	}
	list, err := config.WritableFolders(&config.Settings{Agents: &config.Agents{List: []config.AgentSettings{
		{ID: new("a"), Workspace: new("/srv/x"), Sandbox: &config.SandboxSettings{WorkspaceAccess: new(sandbox.AccessPrivate)}},
	}}}, "/root", nil)
	if err != nil || len(list) > 0 {
		t.Errorf("folders that a sandbox can write: %v, %v", list, err)
	}
}
