//go:build linux || darwin

package sandboxexec

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
	"github.com/bulkhead-dev/sandbox/provider/local/protect"
	"github.com/bulkhead-dev/sandbox/provider/local/seatbelt"
	"github.com/bulkhead-dev/sandbox/provider/local/world"
)

// TestProfile is what macOS is told of a Spec.
func TestProfile(t *testing.T) {
	at := world.Place{Home: "/Users/me", Workspaces: []string{"/Users/me/state/workspaces"}, Sensitive: []string{"/Users/me/state"}}
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
		{"our own state", func(s *sandbox.Spec) { s.Filesystem.AllowRead = []string{"/"} }, "our own state", nil},
		{"a deny above the workspace", func(s *sandbox.Spec) { s.Filesystem.DenyRead = []string{"/Users/me"} }, "workspace lies in", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := base
			s.Mounts = append([]sandbox.Mount(nil), base.Mounts...)
			tt.change(&s)
			pic, err := world.Of(s, at, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			p, err := profile(s, pic, protect.Rules{Denies: []plan.Deny{{Path: "/Users/me/.zshrc"}}}, "/private/tmp/sbx-a")
			if tt.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tt.bad) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := seatbelt.Profile(p.tagged("t"))
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
