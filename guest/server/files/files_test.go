//go:build linux

package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// kernels are the ways in which paths are resolved: one where there is no
// openat2, as under gVisor.
func kernels(t *testing.T) map[string]Kernel {
	t.Helper()
	k := Probe()
	walks := k
	walks.Openat2 = false
	if !k.Openat2 {
		return map[string]Kernel{"walk": walks}
	}
	return map[string]Kernel{"openat2": k, "walk": walks}
}

// both runs f with a mount, resolved in each way, and its folder.
func both(t *testing.T, f func(t *testing.T, r *Root, dir string)) {
	t.Helper()
	for name, k := range kernels(t) {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			dir := filepath.Join(base, "mount")
			must(t, os.Mkdir(dir, 0o755))
			must(t, os.Mkdir(filepath.Join(base, "outside"), 0o755))
			must(t, os.WriteFile(filepath.Join(base, "outside", "secret"), []byte("secret"), 0o644))
			f(t, open(t, k, dir), dir)
		})
	}
}

func open(t testing.TB, k Kernel, dir string) *Root {
	t.Helper()
	r, err := NewRoots(k).Get(dir)
	must(t, err)
	t.Cleanup(func() { unix.Close(r.fd) })
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, target, name string) {
	t.Helper()
	must(t, os.Symlink(target, name))
}

// read returns the content of what rel leads to.
func read(r *Root, rel string) (string, error) {
	fd, _, err := r.Open(rel)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	b := make([]byte, 1<<10)
	n, err := ReadAt(fd, b, 0)
	return string(b[:n]), err
}

// put writes content the way the server does.
func put(r *Root, rel, content string, exclusive bool) error {
	s, err := r.Stage(rel, 0o640, exclusive)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Write([]byte(content)); err != nil {
		return err
	}
	return s.Commit(func() error { return nil })
}

func TestLinksThatLeadOut(t *testing.T) {
	both(t, func(t *testing.T, r *Root, dir string) {
		must(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
		for name, target := range map[string]string{
			"relative": "../outside/secret", "absolute": filepath.Dir(dir) + "/outside/secret", "climbing": "d/../../outside/secret",
			"beside": dir + "x/secret", "back and out": dir + "/../outside/secret", "by the root": "/../../../../etc/passwd",
			"magic": "/proc/self/root/etc/passwd", "own descriptor": "/proc/self/fd/0", "own program": "/proc/self/exe",
		} {
			link(t, target, filepath.Join(dir, name))
			if got, err := read(r, name); !errors.Is(err, ErrEscape) {
				t.Errorf("%s: read gives %q, %v", name, got, err)
			}
			if _, err := r.Stat(name); !errors.Is(err, ErrEscape) {
				t.Errorf("%s: stat gives %v", name, err)
			}
			if err := put(r, name, "x", false); !errors.Is(err, ErrEscape) {
				t.Errorf("%s: write gives %v", name, err)
			}
		}
	})
}

// TestMagicLinks serves a folder whose links do not lead where they say. It
// would be no mount for the outside.
func TestMagicLinks(t *testing.T) {
	for name, k := range kernels(t) {
		fd, err := unix.Open("/proc/self", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(fd)
		r := &Root{k: k, fd: fd, names: [][]string{{"proc", "self"}}}
		for _, rel := range []string{"exe", "cwd/.", "root/etc/passwd", "fd/0", "ns/pid"} {
			if m, err := r.Stat(rel); err == nil {
				t.Errorf("%s: %s was followed: %+v", name, rel, m)
			}
			if _, err := read(r, rel); err == nil {
				t.Errorf("%s: %s was read", name, rel)
			}
		}
		if _, err := r.Lstat("exe"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLinksThatStay(t *testing.T) {
	both(t, func(t *testing.T, r *Root, dir string) {
		must(t, os.MkdirAll(filepath.Join(dir, "d", "e"), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "d", "f"), []byte("f"), 0o644))
		link(t, dir+"/d/", filepath.Join(dir, "absolute"))
		link(t, dir+"/./d//e/../f", filepath.Join(dir, "crooked"))
		link(t, "../absolute/e/..", filepath.Join(dir, "d", "round"))
		for _, rel := range []string{"absolute/f", "crooked", "d/round/f", "d/round/../absolute/f", "absolute/../d/f"} {
			if got, err := read(r, rel); got != "f" || err != nil {
				t.Errorf("%s: %q, %v", rel, got, err)
			}
			if m, err := r.Stat(rel); err != nil || m.Size != 1 {
				t.Errorf("%s: %+v, %v", rel, m, err)
			}
		}
		link(t, "d/f/", filepath.Join(dir, "slash"))
		if _, err := read(r, "slash"); err != unix.ENOTDIR {
			t.Errorf("a file with a slash: %v", err)
		}
		link(t, "self", filepath.Join(dir, "self"))
		if _, err := read(r, "self"); err != unix.ELOOP {
			t.Errorf("a circle: %v", err)
		}
	})
}

// TestRootIsHeld holds that a mount is not looked for again: what is above
// it belongs to user code.
func TestRootIsHeld(t *testing.T) {
	both(t, func(t *testing.T, r *Root, dir string) {
		must(t, os.Rename(dir, dir+".away"))
		link(t, "outside", dir)
		if got, err := read(r, "secret"); err != unix.ENOENT {
			t.Errorf("read %q, %v", got, err)
		}
		must(t, put(r, "new", "x", false))
		if _, err := os.Stat(dir + ".away/new"); err != nil {
			t.Error(err)
		}
	})
}

func TestRoots(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/file", []byte("x"), 0o644))
	link(t, "/", dir+"/top")
	link(t, "file", dir+"/link")
	// User code can put a link where it may rename the folder above a mount.
	// What /proc says of us is not for clients.
	link(t, "/proc/self", dir+"/us")
	link(t, "/proc/self/cwd", dir+"/cwd")
	must(t, unix.Mkfifo(dir+"/pipe", 0o600))
	roots := NewRoots(Probe())
	for _, target := range []string{"", "/", "relative", dir + "/", dir + "/..", dir + "/nothing", dir + "/top", dir + "/link", dir + "/pipe", "/proc", "/proc/self", dir + "/us", dir + "/us/fd", dir + "/us/maps", dir + "/cwd"} {
		if _, err := roots.Get(target); !errors.Is(err, ErrNoRoot) {
			t.Errorf("%q: %v", target, err)
		}
	}
	a, err := roots.Get(dir)
	must(t, err)
	if b, err := roots.Get(dir); b != a || err != nil {
		t.Errorf("opened twice, or %v", err)
	}
	single, err := roots.Get(dir + "/file")
	must(t, err)
	if got, err := read(single, ""); got != "x" || err != nil {
		t.Errorf("a single file: %q, %v", got, err)
	}
	for rel, want := range map[string]error{"x": unix.ENOTDIR, "../link": unix.ENOTDIR, "..": unix.ENOTDIR} {
		if _, err := single.Stat(rel); err != want {
			t.Errorf("%s below a single file: %v", rel, err)
		}
	}
	if err := put(single, "", "y", false); err != unix.EOPNOTSUPP {
		t.Errorf("write: %v", err)
	}
	if err := single.RemoveAll("", nil); err != unix.EBUSY {
		t.Errorf("remove: %v", err)
	}
}

// FuzzResolve compares walking with the kernel: where openat2 finds
// something, walking finds the same, and it never finds what lies outside.
func FuzzResolve(f *testing.F) {
	f.Add("a/b/../c", "../..", "b")
	f.Add("a/l/l/f", "../a/f", "/")
	f.Add("l/m/..", "m/./", "a//b/")
	base := f.TempDir()
	k := Probe()
	walks := k
	walks.Openat2 = false
	f.Fuzz(func(t *testing.T, rel, one, two string) {
		dir, err := os.MkdirTemp(base, "")
		must(t, err)
		defer os.RemoveAll(dir)
		must(t, os.MkdirAll(dir+"/m/a/b/c", 0o755))
		must(t, os.WriteFile(dir+"/m/a/f", []byte("in"), 0o644))
		must(t, os.WriteFile(dir+"/f", []byte("out"), 0o644))
		for name, target := range map[string]string{"l": one, "a/l": two, "a/b/l": one, "m": two} {
			if os.Symlink(target, dir+"/m/"+name) != nil {
				return // no target of a link
			}
		}
		if strings.ContainsRune(rel, 0) || strings.HasPrefix(rel, "/") || len(rel) > 1000 {
			return
		}
		fast, slow := open(t, k, dir+"/m"), open(t, walks, dir+"/m")
		a, errA := fast.Stat(rel)
		b, errB := slow.Stat(rel)
		if errA == nil && (errB != nil || a != b) {
			t.Errorf("%q with links to %q, %q: the kernel finds %+v, walking %+v, %v", rel, one, two, a, b, errB)
		}
		for _, r := range []*Root{fast, slow} {
			if got, err := read(r, rel); err == nil && got != "in" {
				t.Errorf("%q with links to %q, %q reads %q", rel, one, two, got)
			}
		}
	})
}
