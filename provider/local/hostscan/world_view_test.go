package hostscan_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// viewing is a Spec with a private view of base.
func viewing(source, base string, change func(*sandbox.Spec)) sandbox.Spec {
	return spec(func(s *sandbox.Spec) {
		s.Mounts[2].Source, s.Mounts[2].Base = source, base
		change(s)
	})
}

// TestPrivateViews holds that the folder behind a private view is shown nowhere,
// whatever rules and grants say, and that it is searched beside the view.
func TestPrivateViews(t *testing.T) {
	const base, view = "/home/me/project", "/home/me/state/workspaces/sbx-a-private"
	p := of(t, viewing(view, base, func(s *sandbox.Spec) {
		s.Filesystem.AllowWrite = []string{base, base + "/out", "/home/me/other"}
		s.Filesystem.AllowRead = []string{base + "/sub"}
		s.Grants = []sandbox.Grant{{Path: base + "/granted", Operation: sandbox.OpWrite}, {Path: "/home/me/granted", Operation: sandbox.OpRead}}
	}))
	want := []string{
		"/usr r /usr", "/home/me/state/guest/x r /.sandbox/bin", view + " w /workspace", view + " w " + base,
		"/home/me/other w /home/me/other", "/home/me/granted r /home/me/granted",
	}
	if d := cmp.Diff(want, views(p)); d != "" {
		t.Error(d)
	}
	if p.Protect.Own != "" || !slices.Equal(p.Protect.Writable, []string{"/home/me/other"}) {
		t.Errorf("what is protected: %+v", p.Protect)
	}
	for _, root := range []string{base, view} {
		if !slices.Contains(p.Scan.Roots, root) {
			t.Errorf("%s is not searched: %v", root, p.Scan.Roots)
		}
	}
}

// TestRulesOfPrivateViews holds that a rule for paths of the folder behind a
// private view is one for the view.
func TestRulesOfPrivateViews(t *testing.T) {
	const base, view = "/home/me/pro{j}ect", "/state/v"
	for rule, want := range map[string]struct{ paths, globs []string }{
		base[:8]:                      {paths: []string{"/home/me", view}},
		"/home/me/x":                  {paths: []string{"/home/me/x"}},
		"/workspace/sub":              {paths: []string{"/workspace/sub", view + "/sub"}},
		"**/*.pem":                    {globs: []string{"**/*.pem"}},
		"*.pem":                       {globs: []string{"*.pem"}},
		"/home/me/*/*.pem":            {globs: []string{"/home/me/*/*.pem", view + "/*.pem"}},
		"/home/**/*.pem":              {globs: []string{"/home/**/*.pem", view + "/**/*.pem"}},
		"/home/me/{a,pro*}/s/**":      {globs: []string{"/home/me/{a,pro*}/s/**", view + "/s"}},
		"/home/me/pro*":               {globs: []string{"/home/me/pro*", view}},
		"/home/*":                     {globs: []string{"/home/*", view}},
		"**/pro*":                     {globs: []string{"**/pro*", view}},
		"/srv/*/x":                    {globs: []string{"/srv/*/x"}},
		"/home/me/PRO*/x":             {globs: []string{"/home/me/PRO*/x", view + "/x"}},
		`/home/me/pro\{j\}ect/[ab]/c`: {globs: []string{`/home/me/pro\{j\}ect/[ab]/c`, view + "/[ab]/c"}},
	} {
		paths, globs := hostscan.Denied(viewing(view, base, func(s *sandbox.Spec) { s.Filesystem.DenyRead = []string{rule} }))
		var gotPaths, gotGlobs []string
		for _, d := range paths {
			gotPaths = append(gotPaths, d.Path)
		}
		for _, g := range globs {
			gotGlobs = append(gotGlobs, g.Pattern)
		}
		slices.Sort(gotGlobs[min(1, len(gotGlobs)):])
		if d := cmp.Diff(want.paths, gotPaths) + cmp.Diff(want.globs, gotGlobs); d != "" {
			t.Errorf("%s:\n%s", rule, d)
		}
	}
}

// TestViewed holds that what is found in the folder behind a private view is
// closed in the view, but not where code inside has put a link in its way.
func TestViewed(t *testing.T) {
	base, view := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(view, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(view, "out")); err != nil {
		t.Fatal(err)
	}
	deny := func(p string) plan.Deny { return plan.Deny{Path: p, Read: true, Rule: "r"} }
	s := viewing(view, base, func(*sandbox.Spec) {})
	got := hostscan.Viewed(s, []plan.Deny{deny(base + "/d/.env"), deny(view + "/d/.env"), deny(base + "/out/.env"), deny(base), deny("/x")})
	if d := cmp.Diff([]plan.Deny{deny(view + "/d/.env"), deny(view), deny("/x")}, got); d != "" {
		t.Error(d)
	}
	plain := []plan.Deny{deny("/x"), deny("/x")}
	if d := cmp.Diff(plain, hostscan.Viewed(spec(func(*sandbox.Spec) {}), plain)); d != "" {
		t.Error(d)
	}
}
