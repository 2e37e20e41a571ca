//go:build linux || darwin

package sandboxexec

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// TestProfile is what macOS is told of a Spec.
func TestProfile(t *testing.T) {
	at := hostscan.Place{Home: "/Users/me", Workspaces: []string{"/Users/me/state/workspaces"}, Sensitive: []string{"/Users/me/state"}}
	base := sandbox.Spec{
		Name: "sbx-a", Tmpfs: []sandbox.Tmpfs{{Target: "/tmp", Size: 1}},
		Mounts: []sandbox.Mount{{Source: "/Users/me/state/workspaces/sbx-a", Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace}},
		Filesystem: sandbox.FilesystemRules{
			AllowWrite: []string{"/Users/me/work"}, AllowRead: []string{"/Users/me/docs"},
			DenyRead: []string{"/Users/me/.ssh", "**/.env"}, DenyWrite: []string{"/Users/me/work/fixed"},
		},
	}
	tests := []struct {
		name   string
		change func(*sandbox.Spec)
		bad    string // in the error
		holds  []string
	}{
		{"typical", func(*sandbox.Spec) {}, "", []string{
			`(subpath "/Users/me/work")`, `(subpath "/Users/me/docs")`, `(subpath "/Users/me/state/workspaces/sbx-a")`,
			`(subpath "/Users/me/.ssh")`, `(subpath "/Users/me/work/fixed")`, `(subpath "/private/tmp/sbx-a")`,
		}},
		{"the agent's own folder", func(s *sandbox.Spec) { s.Mounts[0].Source = "/Users/me/project" }, "", []string{`(subpath "/Users/me/project")`, `(subpath "/Users/me/state")`}},
		{"a bind at another place", func(s *sandbox.Spec) {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: "/data", Target: "/other", Role: sandbox.RoleBind})
		}, "another place", nil},
		{"certificates", func(s *sandbox.Spec) {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: "/Users/me/state/egress/trust", Target: sandbox.TrustDir, ReadOnly: true, Role: sandbox.RoleTrust})
		}, "cannot be bound", nil},
		{"settings of an agent", func(s *sandbox.Spec) {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: "/Users/me/state/agents/0123456789abcdef0123456789abcdef", Target: sandbox.SettingsDir, ReadOnly: true, Role: sandbox.RoleSettings})
		}, "settings files of a coding agent cannot be shown", nil},
		{"our own state", func(s *sandbox.Spec) { s.Filesystem.AllowRead = []string{"/"} }, "our own state", nil},
		{"a deny above the workspace", func(s *sandbox.Spec) { s.Filesystem.DenyRead = []string{"/Users/me"} }, "workspace lies in", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := base
			s.Mounts = append([]sandbox.Mount(nil), base.Mounts...)
			tt.change(&s)
			pic, err := hostscan.Of(s, at, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			p, err := profile(s, pic, hostscan.Rules{Denies: []plan.Deny{{Path: "/Users/me/.zshrc"}}}, "/private/tmp/sbx-a")
			if tt.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tt.bad) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := plan.Profile(p.tagged("t"))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range append(tt.holds, `(subpath "/Users/me/.zshrc")`) {
				if !strings.Contains(text, want) {
					t.Errorf("%s is missing in\n%s", want, text)
				}
			}
			if p.workdir != s.Mounts[0].Source {
				t.Errorf("commands start in %s", p.workdir)
			}
		})
	}
}

// TestProfileOpens holds that a Spec's paths that stay open inside denies reach
// the Judge with their rules, those below a mount too, and open no writing in a
// folder that is mounted read-only.
func TestProfileOpens(t *testing.T) {
	s := sandbox.Spec{
		Name: "sbx-a",
		Mounts: []sandbox.Mount{
			{Source: "/Users/me/project", Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace},
			{Source: "/Users/me/agent", Target: sandbox.AgentDir, ReadOnly: true, Role: sandbox.RoleAgent},
		},
		Filesystem: sandbox.FilesystemRules{
			AllowRead:   []string{"/workspace/private/notes", "/agent/private/notes"},
			AllowWrite:  []string{"/workspace/private/notes/out", "/agent/private/notes"},
			DenyRead:    []string{"/workspace/private/notes/.ssh", "/workspace/private", "/agent/private"},
			YieldRead:   []string{"/workspace/private", "/agent/private"},
			ReopenRead:  []string{"/workspace/private/notes", "/agent/private/notes"},
			ReopenWrite: []string{"/workspace/private/notes/out", "/agent/private/notes"},
		},
	}
	pic, err := hostscan.Of(s, hostscan.Place{Home: "/Users/me", Sensitive: []string{"/Users/me/state"}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile(s, pic, hostscan.Rules{}, "/private/tmp/sbx-a")
	if err != nil {
		t.Fatal(err)
	}
	j, err := plan.NewJudge(p.tagged("t"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		op      sandbox.Operation
		path    string
		allowed bool
		rule    string
	}{
		{sandbox.OpRead, "/workspace/private/x", false, "filesystem.denyRead: /workspace/private"},
		{sandbox.OpRead, "/workspace/private/notes/x", true, "filesystem.allowRead: /workspace/private/notes"},
		{sandbox.OpWrite, "/workspace/private/notes/x", false, "filesystem.denyRead: /workspace/private"},
		{sandbox.OpWrite, "/workspace/private/notes/out/x", true, "filesystem.allowWrite: /workspace/private/notes/out"},
		{sandbox.OpRead, "/workspace/private/notes/.ssh/id", false, "filesystem.denyRead: /workspace/private/notes/.ssh"},
		{sandbox.OpRead, "/agent/private/notes/x", true, "filesystem.allowRead: /agent/private/notes"},
		{sandbox.OpWrite, "/agent/private/notes/x", false, "filesystem.denyRead: /agent/private"},
	} {
		if v := j.Judge(tt.op, p.place(tt.path)); v.Allowed != tt.allowed || v.Rule != tt.rule || v.Builtin == tt.allowed {
			t.Errorf("%s %s: %+v, want %v by %s", tt.op, tt.path, v, tt.allowed, tt.rule)
		}
	}
}
