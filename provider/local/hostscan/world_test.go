package hostscan_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

func worldPlace() hostscan.Place {
	return hostscan.Place{
		Home: "/home/me", Workspaces: []string{"/home/me/state/workspaces"}, Sensitive: []string{"/home/me/state", "/home/me/.config/sandbox"},
	}
}

func spec(change func(*sandbox.Spec)) sandbox.Spec {
	s := sandbox.Spec{
		Name: "sbx-a", Tmpfs: []sandbox.Tmpfs{{Target: "/tmp", Size: 1}},
		Mounts: []sandbox.Mount{
			{Source: "/home/me/state/guest/x", Target: "/.sandbox/bin", ReadOnly: true, Role: sandbox.RoleGuest},
			{Source: "/home/me/state/run/a", Target: "/.sandbox/run", Role: sandbox.RoleSocket},
			{Source: "/home/me/state/workspaces/sbx-a", Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace},
		},
	}
	change(&s)
	return s
}

func of(t *testing.T, s sandbox.Spec) hostscan.Picture {
	t.Helper()
	p, err := hostscan.Of(s, worldPlace(), []plan.View{{Source: "/usr", Target: "/usr"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func views(p hostscan.Picture) (out []string) {
	for _, v := range p.World.Views {
		kind := " r "
		if v.Write {
			kind = " w "
		}
		out = append(out, v.Source+kind+v.Target)
	}
	return out
}

func TestViews(t *testing.T) {
	tests := []struct {
		name   string
		change func(*sandbox.Spec)
		want   []string // in addition to guest and system
		own    string
	}{
		{"scratch workspace", func(*sandbox.Spec) {}, []string{"/home/me/state/workspaces/sbx-a w /workspace"}, ""},
		{"the agent's own folder", func(s *sandbox.Spec) { s.Mounts[2].Source = "/home/me/project" },
			[]string{"/home/me/project w /workspace", "/home/me/project w /home/me/project"}, "/home/me/project"},
		{"certificates", func(s *sandbox.Spec) {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: "/home/me/state/egress/trust", Target: sandbox.TrustDir, ReadOnly: true, Role: sandbox.RoleTrust})
		}, []string{"/home/me/state/workspaces/sbx-a w /workspace", "/home/me/state/egress/trust r /.sandbox/trust"}, ""},
		{"rules", func(s *sandbox.Spec) {
			s.Filesystem = sandbox.FilesystemRules{AllowRead: []string{"/srv/data/", "~/x"}, AllowWrite: []string{"/srv/out"}}
		}, []string{"/home/me/state/workspaces/sbx-a w /workspace", "/srv/data r /srv/data", "/srv/out w /srv/out"}, ""},
		{"grants", func(s *sandbox.Spec) {
			s.Grants = []sandbox.Grant{{Operation: sandbox.OpRead, Path: "/srv/a"}, {Operation: sandbox.OpWrite, Path: "/srv/b"}}
		}, []string{"/home/me/state/workspaces/sbx-a w /workspace", "/srv/a r /srv/a", "/srv/b w /srv/b"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := of(t, spec(tt.change))
			want := append([]string{"/usr r /usr", "/home/me/state/guest/x r /.sandbox/bin"}, tt.want...)
			if got := views(p); !slices.Equal(got, want) {
				t.Errorf("views\n%q, want\n%q", got, want)
			}
			if p.Protect.Own != tt.own {
				t.Errorf("the agent's own folder is %q", p.Protect.Own)
			}
		})
	}
}

func TestRulesBecomeDeniesAndGlobs(t *testing.T) {
	p := of(t, spec(func(s *sandbox.Spec) {
		s.Filesystem = sandbox.FilesystemRules{DenyRead: []string{"/srv/secret", "**/.env", "~/.ssh", "relative"}, DenyWrite: []string{"/srv/fixed"}}
	}))
	denied := map[string]bool{}
	for _, d := range p.World.Denies {
		denied[d.Path] = d.Read
	}
	if read, ok := denied["/srv/secret"]; !ok || !read {
		t.Error("a path that is closed is missing")
	}
	if read, ok := denied["/srv/fixed"]; !ok || read {
		t.Error("a path that is closed for writing is missing, or closed altogether")
	}
	for _, secret := range []string{"/etc/shadow", "/etc/ssl/private", "/home/me/.config/sandbox"} {
		if !denied[secret] {
			t.Errorf("%s is not closed", secret)
		}
	}
	if len(p.Scan.Globs) != 2 || p.Scan.Globs[0].Pattern != "**/.env" || p.Scan.Globs[1].Pattern != "relative" {
		t.Errorf("globs %+v", p.Scan.Globs)
	}
}

// TestOurOwnStateIsHidden shows folders that contain this program's state.
func TestOurOwnStateIsHidden(t *testing.T) {
	covered := func(p hostscan.Picture) bool {
		return slices.ContainsFunc(p.World.Tmpfs, func(t sandbox.Tmpfs) bool { return t.Target == "/home/me/state" })
	}
	if covered(of(t, spec(func(*sandbox.Spec) {}))) {
		t.Error("what nothing shows is covered")
	}
	for _, shown := range []string{"/", "/home", "/home/me"} {
		p := of(t, spec(func(s *sandbox.Spec) { s.Filesystem.AllowRead = []string{shown} }))
		if !covered(p) {
			t.Errorf("with %s to be read it is open", shown)
		}
	}
}

func TestWhereToLook(t *testing.T) {
	p := of(t, spec(func(s *sandbox.Spec) { s.Filesystem.AllowWrite = []string{"/srv/out"} }))
	if want := []string{"/home/me/state/workspaces/sbx-a", "/srv/out"}; !slices.Equal(p.Scan.Roots, want) {
		t.Errorf("roots %q, want %q", p.Scan.Roots, want)
	}
	if want := []string{"/srv/out"}; !slices.Equal(p.Protect.Writable, want) {
		t.Errorf("in danger %q, want %q", p.Protect.Writable, want)
	}
}

func TestRefusedRules(t *testing.T) {
	for rule, code := range map[string]sandbox.Code{"/srv/*": sandbox.CodeUnsupported, "relative": "", "/workspace/x": ""} {
		s := spec(func(s *sandbox.Spec) { s.Filesystem.AllowRead = []string{rule} })
		p, err := hostscan.Of(s, worldPlace(), nil, nil)
		if sandbox.CodeOf(err) != code {
			t.Errorf("%s: %v", rule, err)
		}
		for _, v := range p.World.Views {
			if strings.Contains(v.Why, rule) {
				t.Errorf("what lies in the workspace is shown once more: %+v", v)
			}
		}
	}
}

func TestALinkInTheWayIsRefused(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"a/b", "other/b"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	list := []plan.View{{Source: filepath.Join(dir, "a/b")}, {Source: filepath.Join(dir, "missing")}}
	if err := hostscan.Unmoved(list); err != nil {
		t.Errorf("plain folders: %v", err)
	}
	if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "was")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("other", filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if err := hostscan.Unmoved(list); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("after it was exchanged: %v", err)
	}
}
