package hardening_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

func TestOurWorkspaceIsNoBindAndNoAgentFolder(t *testing.T) {
	w := world()
	w.Name = "sbx-a"
	open := hardening.Switches{BindSources: []string{"/srv/state/workspaces/sbx-a"}}
	for _, role := range []sandbox.Role{sandbox.RoleBind, sandbox.RoleAgent} {
		err := hardening.Source("f", "/srv/state/workspaces/sbx-a", role, w, open)
		wantRefusal(t, err, "f", "/srv/state/workspaces/sbx-a", "workspaces of other sandboxes")
	}
}

func TestSourceRefusesWhatASandboxCanExchange(t *testing.T) {
	w := world()
	w.Exposed = []string{"/work/a", "/work/b/c"}
	tests := []struct {
		name, source string
		refused      bool
	}{
		{"below", "/work/a/data", true},
		{"far below", "/work/b/c/d/e", true},
		{"below in other case", "/Work/A/data", true},
		{"the folder itself", "/work/a", false},
		{"the folder itself with slash", "/work/a/", false},
		{"above", "/work/b", false},
		{"beside", "/work/ab/data", false},
	}
	for _, tt := range tests {
		for _, role := range []sandbox.Role{sandbox.RoleBind, sandbox.RoleAgent, sandbox.RoleWorkspace} {
			t.Run(tt.name+" as "+string(role), func(t *testing.T) {
				open := hardening.Switches{BindSources: []string{tt.source}}
				err := hardening.Source("f", tt.source, role, w, open)
				if !tt.refused {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				wantRefusal(t, err, "f", tt.source, "which a sandbox can write")
			})
		}
	}
}

func TestSourceRefusesWaysThroughWhatASandboxCanExchange(t *testing.T) {
	root, w := links(t)
	for _, dir := range []string{"open/sub", "state/workspaces/other/sub"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"open/link":     filepath.Join(root, "own"),
		"into":          "open/link",
		"through":       "open/sub/../../own",
		"openlink":      "open",
		"througha":      "state/workspaces/other/sub/../../../../own",
		"state/outside": filepath.Join(root, "own"),
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.Exposed = []string{filepath.Join(root, "open")}
	w.Via = func(p string) ([]string, error) {
		_, via, err := hostpath.Trace(p)
		return via, err
	}
	tests := []struct{ name, source, reason string }{
		{"link in the folder", "open/link", "which a sandbox can write"},
		{"link to that link", "into", "which a sandbox can write"},
		{"folder that is left again", "through", "which a sandbox can write"},
		{"below a link to the folder", "openlink/sub", "which a sandbox can write"},
		{"through another's workspace", "througha", "workspaces of other sandboxes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			source := filepath.Join(root, tt.source)
			err := hardening.Source("f", source, sandbox.RoleBind, w, hardening.Switches{})
			wantRefusal(t, err, "f", source, tt.reason)
		})
	}
	for _, fine := range []string{"openlink", "data/fine", "own"} {
		if err := hardening.Source("f", filepath.Join(root, fine), sandbox.RoleBind, w, hardening.Switches{}); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
}

func TestCheckRefusesNestedSources(t *testing.T) {
	mount := func(source, target string, role sandbox.Role, readOnly bool) sandbox.Mount {
		return sandbox.Mount{Source: source, Target: target, Role: role, ReadOnly: readOnly}
	}
	tests := []struct {
		name, field string // field is empty when it is fine
		mounts      []sandbox.Mount
		exposed     []string
	}{
		{"bind in a writable workspace", "mounts[1].source", []sandbox.Mount{
			mount("/w", "/workspace", sandbox.RoleWorkspace, false), mount("/w/data", "/data", sandbox.RoleBind, true)}, nil},
		{"bind in a read-only workspace", "", []sandbox.Mount{
			mount("/w", "/workspace", sandbox.RoleWorkspace, true), mount("/w/data", "/data", sandbox.RoleBind, true)}, nil},
		{"bind in a writable bind that comes later", "mounts[0].source", []sandbox.Mount{
			mount("/w/data", "/data", sandbox.RoleBind, true), mount("/w", "/w", sandbox.RoleBind, false)}, nil},
		{"workspace in a writable bind", "mounts[0].source", []sandbox.Mount{
			mount("/w/a", "/workspace", sandbox.RoleWorkspace, false), mount("/w", "/w", sandbox.RoleBind, false)}, nil},
		{"agent's folder in the workspace", "mounts[1].source", []sandbox.Mount{
			mount("/w", "/workspace", sandbox.RoleWorkspace, false), mount("/w/a", "/agent", sandbox.RoleAgent, true)}, nil},
		{"one folder twice", "", []sandbox.Mount{
			mount("/w", "/workspace", sandbox.RoleWorkspace, false), mount("/w", "/w", sandbox.RoleBind, true)}, nil},
		{"workspace that another agent can exchange", "mounts[0].source", []sandbox.Mount{
			mount("/w/a", "/workspace", sandbox.RoleWorkspace, false)}, []string{"/w"}},
		{"workspace that the agent itself has writable", "", []sandbox.Mount{
			mount("/w", "/workspace", sandbox.RoleWorkspace, false)}, []string{"/w"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, w := goodSpec(), world()
			s.Mounts, w.Exposed = tt.mounts, tt.exposed
			err := hardening.Check(s, w)
			if tt.field == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			es := refusals(err)
			if len(es) != 1 || es[0].Field != tt.field || !strings.Contains(es[0].Message, "which a sandbox can write") {
				t.Fatalf("Check says %v; want one refusal of %s", err, tt.field)
			}
			if len(w.Exposed) != len(tt.exposed) {
				t.Error("the caller's list was changed")
			}
		})
	}
}

func TestWritableSource(t *testing.T) {
	tests := []struct{ name, source, reason string }{
		{"usr", "/usr", "programs"},
		{"local programs", "/usr/local/bin", "programs"},
		{"libraries in other case", "/LIB/x86_64-linux-gnu", "programs"},
		{"libraries", "/lib64", "programs"},
		{"programs", "/bin", "programs"},
		{"programs of root", "/sbin/", "programs"},
		{"cron", "/var/spool/cron", "jobs"},
		{"spool", "/var/spool", "jobs"},
		{"all of opt", "/opt", "programs"},
		{"state of services", "/var/lib", "services"},
		{"through a link", "/data/link", `leads to "/usr/bin"`},
		{"folder in opt", "/opt/project", ""},
		{"folder in var lib", "/var/lib/app", ""},
		{"source tree", "/usr/src/app", ""},
		{"data", "/data/x", ""},
	}
	w := world()
	w.Canonical = func(p string) (string, error) {
		if p == "/data/link" {
			return "/usr/bin", nil
		}
		return p, nil
	}
	for _, tt := range tests {
		for _, role := range []sandbox.Role{sandbox.RoleBind, sandbox.RoleWorkspace} {
			t.Run(tt.name+" as "+string(role), func(t *testing.T) {
				err := hardening.WritableSource("f", tt.source, role, w, hardening.Switches{})
				if tt.reason == "" {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				wantRefusal(t, err, "f", tt.source, tt.reason)
				open := hardening.Switches{BindSources: []string{strings.TrimRight(tt.source, "/")}}
				opened := hardening.WritableSource("f", tt.source, role, w, open) == nil
				if want := role == sandbox.RoleBind && tt.source != "/data/link"; opened != want {
					t.Errorf("with the switch it passes: %v; want %v", opened, want)
				}
			})
		}
	}
	t.Run("Check looks at writable mounts only", func(t *testing.T) {
		s := goodSpec()
		s.Mounts = append(s.Mounts, sandbox.Mount{Source: "/usr/local/bin", Target: "/tools", Role: sandbox.RoleBind, ReadOnly: true})
		if err := hardening.Check(s, world()); err != nil {
			t.Fatal(err)
		}
		s.Mounts[len(s.Mounts)-1].ReadOnly = false
		wantRefusal(t, refusals(hardening.Check(s, world()))[0], "mounts[6].source", "/usr/local/bin", "writable")
	})
}
