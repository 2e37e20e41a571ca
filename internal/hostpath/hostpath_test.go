package hostpath_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
)

// tree makes a folder with links and returns its path, itself canonical.
func tree(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(root, "real/sub"), 0o755))
	must(os.WriteFile(filepath.Join(root, "real/file"), nil, 0o644))
	for name, target := range map[string]string{
		"abs":       filepath.Join(root, "real"),
		"rel":       "real",
		"chain":     "rel",
		"up":        "real/sub/..",
		"dangling":  "nowhere/deep",
		"dangling2": "dangling/x",
		"loop":      "loop2",
		"loop2":     "loop",
		"top":       "/",
		"etc":       "/etc",
		"over":      "../../../../../../../../../../../../etc",
	} {
		must(os.Symlink(target, filepath.Join(root, name)))
	}
	return root
}

func TestCanonical(t *testing.T) {
	root := tree(t)
	tests := []struct{ name, in, want string }{
		{"root", "/", "/"},
		{"slashes and dots", root + "//./real/./", root + "/real"},
		{"plain file", root + "/real/file", root + "/real/file"},
		{"absolute link", root + "/abs/sub", root + "/real/sub"},
		{"relative link", root + "/rel/sub", root + "/real/sub"},
		{"link to link", root + "/chain/file", root + "/real/file"},
		{"dotdot after a link goes to the target's parent", root + "/abs/..", root},
		{"dotdot in a link", root + "/up/file", root + "/real/file"},
		{"dotdot above the top", "/../../..", "/"},
		{"link above the top", root + "/over/passwd", "/etc/passwd"},
		{"missing leaf", root + "/real/new", root + "/real/new"},
		{"missing leaf behind a link", root + "/abs/new/er", root + "/real/new/er"},
		{"missing leaf behind a link to /etc", root + "/etc/new", "/etc/new"},
		{"dangling link counts as its target", root + "/dangling", root + "/nowhere/deep"},
		{"below a dangling link", root + "/dangling/y", root + "/nowhere/deep/y"},
		{"dangling link through a dangling link", root + "/dangling2", root + "/nowhere/deep/x"},
		{"below a file", root + "/real/file/x", root + "/real/file/x"},
		{"dotdot out of what is missing", root + "/none/../abs/sub", root + "/real/sub"},
		{"link to the top", root + "/top/etc", "/etc"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := hostpath.Canonical(tt.in)
			if err != nil || got != tt.want {
				t.Fatalf("Canonical(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
			}
		})
	}
}

func TestTrace(t *testing.T) {
	root := tree(t)
	if err := os.Symlink("../real/sub/../../real/file", filepath.Join(root, "real/round")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, in, want string
		via            []string // below root
	}{
		{"plain", "real/file", "real/file", []string{"real", "real/file"}},
		{"link", "rel/sub", "real/sub", []string{"rel", "real", "real/sub"}},
		{"links in a row", "chain", "real", []string{"chain", "rel", "real"}},
		{"what dotdot leaves", "real/sub/../file", "real/file", []string{"real", "real/sub", "real/file"}},
		{"what dotdot in a link leaves", "real/round", "real/file",
			[]string{"real", "real/round", "real", "real/sub", "real", "real/file"}},
		{"missing rest", "rel/new/er", "real/new/er", []string{"rel", "real", "real/new", "real/new/er"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, via, err := hostpath.Trace(root + "/" + tt.in)
			if err != nil || got != root+"/"+tt.want {
				t.Fatalf("Trace = %q, %v; want %q", got, err, tt.want)
			}
			var below []string
			for _, p := range via {
				if rest, ok := strings.CutPrefix(p, root+"/"); ok {
					below = append(below, rest)
				}
			}
			if !slices.Equal(below, tt.via) {
				t.Errorf("passed %q; want %q", below, tt.via)
			}
		})
	}
}

func TestCanonicalRefuses(t *testing.T) {
	root := tree(t)
	for name, in := range map[string]string{
		"empty": "", "relative": "real", "NUL": "/a\x00b", "loop": root + "/loop/x",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := hostpath.Canonical(in); sandbox.CodeOf(err) != sandbox.CodeValidation {
				t.Fatalf("Canonical(%q) = %q, %v; want %s", in, got, err, sandbox.CodeValidation)
			}
		})
	}
}

func TestCanonicalAgreesWithTheKernel(t *testing.T) {
	root := tree(t)
	for _, p := range []string{"abs/sub", "chain", "up", "rel/../rel/file", "real/sub"} {
		want, err := filepath.EvalSymlinks(filepath.Join(root, p))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := hostpath.Canonical(root + "/" + p); err != nil || got != want {
			t.Errorf("Canonical(%q) = %q, %v; EvalSymlinks says %q", p, got, err, want)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	root, err := filepath.EvalSymlinks(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	if err := os.Symlink("b", filepath.Join(root, "a")); err != nil {
		f.Fatal(err)
	}
	f.Add("a/../x")
	f.Add("//./a")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := hostpath.Canonical(root + "/" + s)
		if err != nil {
			return
		}
		if got != filepath.Clean(got) || !strings.HasPrefix(got, "/") {
			t.Fatalf("Canonical(%q) = %q is not clean and absolute", s, got)
		}
		if again, err := hostpath.Canonical(got); err != nil || again != got {
			t.Fatalf("Canonical(%q) = %q, %v; want the same again", got, again, err)
		}
	})
}

func ExampleCanonical() {
	p, err := hostpath.Canonical("/usr/./bin/../bin//no-such-program")
	fmt.Println(strings.HasSuffix(p, "bin/no-such-program"), err)
	// Output: true <nil>
}

func TestWithin(t *testing.T) {
	for _, tt := range []struct {
		path, dir string
		want      bool
	}{
		{"/a", "/a", true},
		{"/a/b", "/a", true},
		{"/a/b/c", "/a", true},
		{"/a/b", "/a/", true},
		{"/", "/", true},
		{"/a", "/", true},
		{"/ab", "/a", false},
		{"/a", "/a/b", false},
		{"/A/b", "/a", false},
		{"/", "/a", false},
	} {
		if got := hostpath.Within(tt.path, tt.dir); got != tt.want {
			t.Errorf("Within(%q, %q) = %v, want %v", tt.path, tt.dir, got, tt.want)
		}
	}
}
