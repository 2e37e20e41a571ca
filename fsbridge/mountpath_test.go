package fsbridge_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
)

func mounts() []sandbox.Mount {
	return []sandbox.Mount{
		{Source: "/state/workspaces/s1", Target: "/workspace", Base: "/home/u/project", Role: sandbox.RoleWorkspace},
		{Source: "/home/u/agent", Target: "/agent", ReadOnly: true, Role: sandbox.RoleAgent},
		{Source: "/data", Target: "/data", ReadOnly: true, Role: sandbox.RoleBind},
		{Source: "/elsewhere/cache", Target: "/data/cache", Role: sandbox.RoleBind},
		{Source: "/tmp/t/ws", Target: "/bound", Role: sandbox.RoleBind},
		{Source: "/state/guest", Target: "/.sandbox/bin", ReadOnly: true, Role: sandbox.RoleGuest},
		{Source: "/state/sock", Target: "/.sandbox/run", Role: sandbox.RoleSocket},
		{Source: "/state/egress/trust", Target: "/.sandbox/trust", ReadOnly: true, Role: sandbox.RoleTrust},
		{Source: "/state/passwd", Target: "/etc/passwd", ReadOnly: true, Role: sandbox.RoleIdentity},
	}
}

func table(t testing.TB) *fsbridge.MountTable {
	t.Helper()
	tab, err := fsbridge.NewMountTable(mounts(), []sandbox.Tmpfs{{Target: "/tmp"}, {Target: "/home/sandbox"}, {Target: "/data"}})
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestLocate(t *testing.T) {
	for _, c := range []struct{ name, in, root, rel string }{
		{"inside", "/workspace/a/b", "/workspace", "a/b"},
		{"the mount itself", "/workspace", "/workspace", ""},
		{"trailing slashes", "/workspace/a//", "/workspace", "a"},
		{"empty and dot elements", "//workspace/./a///b/.", "/workspace", "a/b"},
		{"relative", "a/b", "/workspace", "a/b"},
		{"dot", ".", "/workspace", ""},
		{"host path", "/state/workspaces/s1/x", "/workspace", "x"},
		{"host path of the mount", "/state/workspaces/s1", "/workspace", ""},
		{"host path of what is viewed", "/home/u/project/x", "/workspace", "x"},
		{"host path below a tmpfs target", "/tmp/t/ws/f", "/bound", "f"},
		{"tmpfs", "/tmp/t/other", "/tmp", "t/other"},
		{"home", "/home/sandbox/.cache", "/home/sandbox", ".cache"},
		{"outer of nested mounts", "/data/x", "/data", "x"},
		{"inner of nested mounts", "/data/cache/x", "/data/cache", "x"},
		{"name with the prefix of a mount", "/data/cachex", "/data", "cachex"},
		{"dots inside stay for the kernel", "a/link/../b", "/workspace", "a/link/../b"},
		{"dots down to the mount", "a/..", "/workspace", "a/.."},
		{"dots in a host path", "/state/workspaces/s1/a/../b", "/workspace", "a/../b"},
		{"dash", "-rf", "/workspace", "-rf"},
		{"at sign is a name", "@/etc/passwd", "/workspace", "@/etc/passwd"},
		{"tilde is a name", "~/x", "/workspace", "~/x"},
		{"scheme is a name", "file:///etc/passwd", "/workspace", "file:/etc/passwd"},
		{"backslash is a name", `a\b`, "/workspace", `a\b`},
		{"colon is a name", "ab:c", "/workspace", "ab:c"},
		{"newline is a name", "a\nb", "/workspace", "a\nb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := table(t).Locate(c.in)
			if err != nil || p.Root.Target != c.root || p.Rel != c.rel {
				t.Errorf("%q is %q in %q, %v; want %q in %q", c.in, p.Rel, p.Root.Target, err, c.rel, c.root)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	blocked, invalid := sandbox.CodeCapabilityBlocked, sandbox.CodeValidation
	for _, c := range []struct {
		name, in string
		code     sandbox.Code
	}{
		{"outside", "/etc/shadow", blocked},
		{"root", "/", blocked},
		{"leading dots", "../x", blocked},
		{"only dots", "..", blocked},
		{"dots later", "a/../../x", blocked},
		{"dots above the mount and back", "/workspace/../workspace/x", blocked},
		{"dots before the mount", "/x/../workspace/y", blocked},
		{"dots to a sibling mount", "/data/cache/../x", blocked},
		{"dots in a host path", "/state/workspaces/s1/../s2/x", blocked},
		{"host path beside", "/state/workspaces/s10", blocked},
		{"host path above", "/state/workspaces", blocked},
		{"guest's folder", "/.sandbox/bin/sandbox-guest", blocked},
		{"guest's socket", "/.sandbox/run/s", blocked},
		{"certificates", "/.sandbox/trust/ca.crt", blocked},
		{"certificates by the host's path", "/state/egress/trust/ca.crt", blocked},
		{"guest's folder by host path", "/state/guest/x", blocked},
		{"identity file", "/etc/passwd", blocked},
		{"empty", "", invalid},
		{"nul", "a\x00b", invalid},
		{"drive", `C:\x`, invalid},
		{"drive with slash", "z:/x", invalid},
		{"bare drive", "C:", invalid},
		{"unc", `\\server\share`, invalid},
		{"device", `\\.\pipe\x`, invalid},
		{"long name", strings.Repeat("a", 256), invalid},
		{"long path", "/workspace" + strings.Repeat("/a", 2100), invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := table(t).Locate(c.in)
			if sandbox.CodeOf(err) != c.code {
				t.Fatalf("%q is %+v, %v; want %s", c.in, p, err, c.code)
			}
			var e *sandbox.Error
			if !errors.As(err, &e) || e.Field != "path" || e.Hint == "" || (c.in != "" && e.Resource == "") {
				t.Errorf("the error lacks field, resource or hint: %#v", err)
			}
			if c.code == blocked && !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%v is no fs.ErrPermission", err)
			}
		})
	}
}

func TestInsideKnowsNoHostPaths(t *testing.T) {
	if p, err := table(t).Inside("/state/workspaces/s1/x"); err == nil {
		t.Errorf("a host path was taken: %+v", p)
	}
	// This is a path in the tmpfs, although a host path looks like it.
	if p, err := table(t).Inside("/tmp/t/ws/f"); err != nil || p.Root.Target != "/tmp" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestLaterMountWins(t *testing.T) {
	p, err := table(t).Locate("/data/x")
	if err != nil || !p.Root.ReadOnly || p.Root.Source != "/data" {
		t.Errorf("the tmpfs at /data counts over the bind: %+v, %v", p, err)
	}
}

func TestBadMounts(t *testing.T) {
	bind := func(target string) []sandbox.Mount {
		return []sandbox.Mount{{Source: "/x", Target: target, Role: sandbox.RoleBind}}
	}
	for name, m := range map[string][]sandbox.Mount{
		"root": bind("/"), "relative": bind("x"), "empty": bind(""), "not clean": bind("/x/../y"), "control": bind("/x\n"),
		"around the certificates": append(bind("/.sandbox"), sandbox.Mount{Target: sandbox.TrustDir, Role: sandbox.RoleTrust}),
		"around the guest":        append(bind("/.sandbox"), sandbox.Mount{Target: "/.sandbox/bin", Role: sandbox.RoleGuest}),
	} {
		if _, err := fsbridge.NewMountTable(m, nil); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSplit(t *testing.T) {
	for rel, want := range map[string][2]string{
		"": {"", "."}, "a": {"", "a"}, "a/b": {"a", "b"}, "a/..": {"a/..", "."}, "a/../b": {"a/..", "b"},
	} {
		dir, base := fsbridge.Place{Rel: rel}.Split()
		if got := [2]string{dir, base}; got != want {
			t.Errorf("%q splits to %q, want %q", rel, got, want)
		}
	}
}

// FuzzLocate holds that no path leads above its root by its text, and that a
// place names itself.
func FuzzLocate(f *testing.F) {
	for _, s := range []string{"/workspace/a", "../x", "a/../..", "/data/cache/../../x", "//", "C:\\", "/tmp/t/ws/../x", "\xff/.."} {
		f.Add(s)
	}
	tab := table(f)
	f.Fuzz(func(t *testing.T, name string) {
		p, err := tab.Locate(name)
		if err != nil {
			if c := sandbox.CodeOf(err); c != sandbox.CodeCapabilityBlocked && c != sandbox.CodeValidation {
				t.Fatalf("code %s", c)
			}
			return
		}
		clean := path.Clean(p.Path())
		if clean != p.Root.Target && !strings.HasPrefix(clean, p.Root.Target+"/") {
			t.Fatalf("%q is %q, beyond %s", name, clean, p.Root.Target)
		}
		if strings.IndexByte(p.Rel, 0) >= 0 || strings.HasPrefix(p.Rel, "/") {
			t.Fatalf("%q gives %q", name, p.Rel)
		}
		dir, base := p.Split()
		if strings.Contains(base, "/") || base == "" || base == ".." || strings.HasPrefix(dir, "/") {
			t.Fatalf("%q splits into %q and %q", p.Rel, dir, base)
		}
	})
}

func ExampleMountTable_Locate() {
	t, err := fsbridge.NewMountTable([]sandbox.Mount{
		{Source: "/srv/work/chat-42", Target: "/workspace", Role: sandbox.RoleWorkspace},
	}, nil)
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"notes.txt", "/workspace/notes.txt", "/srv/work/chat-42/notes.txt", "../notes.txt"} {
		p, err := t.Locate(name)
		if err != nil {
			fmt.Println(sandbox.CodeOf(err))
			continue
		}
		fmt.Println(p.Path())
	}
	// Output:
	// /workspace/notes.txt
	// /workspace/notes.txt
	// /workspace/notes.txt
	// SANDBOX.CAPABILITY_BLOCKED
}
