//go:build linux

package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWithoutLinks tries what follows links on every kind of them.
func TestWithoutLinks(t *testing.T) {
	both(t, func(t *testing.T, r *Root, dir string) {
		must(t, os.MkdirAll(filepath.Join(dir, "real/sub"), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "real/f"), []byte("old"), 0o644))
		link(t, "real", filepath.Join(dir, "d"))
		link(t, "real/f", filepath.Join(dir, "f"))
		link(t, dir+"/real", filepath.Join(dir, "absolute"))
		link(t, "nowhere", filepath.Join(dir, "dangling"))
		v, err := r.WithoutLinks()
		must(t, err)
		for _, rel := range []string{"d", "d/", "d/.", "d/f", "d/sub/..", "real/../d/f", "f", "absolute", "absolute/f", "dangling"} {
			_, stat := v.Stat(rel)
			_, reading := read(v, rel)
			_, listing := v.OpenDir(rel)
			for what, err := range map[string]error{"stat": stat, "read": reading, "list": listing} {
				if !errors.Is(err, ErrLink) {
					t.Errorf("%s %s: %v", what, rel, err)
				}
			}
		}
		for _, rel := range []string{"d/f", "d/new", "f", "absolute/new/f", "dangling", "d/sub/new"} {
			if err := put(v, rel, "x", false); !errors.Is(err, ErrLink) {
				t.Errorf("write %s: %v", rel, err)
			}
		}
		for what, err := range map[string]error{
			"mkdir": v.Mkdir("d/new", 0o755), "symlink": v.Symlink("x", "d/new"), "remove": v.Remove("d/f"),
			"rename from": v.Rename("d/f", "moved"), "rename to": v.Rename("real/f", "d/moved"),
			"clear": v.Clear("d/sub", func() error { return nil }),
		} {
			if !errors.Is(err, ErrLink) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if got, err := read(v, "real/../real/./f"); got != "old" || err != nil {
			t.Errorf("without links on the way: %q, %v", got, err)
		}
		if got, err := read(r, "d/f"); got != "old" || err != nil {
			t.Errorf("the mount itself follows none any more: %q, %v", got, err)
		}
	})
}

// TestLinkedMount asks for a mount by a path with a link, which code inside can
// put there where it may rename a folder above the mount.
func TestLinkedMount(t *testing.T) {
	for name, k := range kernels(t) {
		base := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(base, "real/mount"), 0o755))
		must(t, os.WriteFile(filepath.Join(base, "real/mount/f"), []byte("x"), 0o644))
		link(t, "real", filepath.Join(base, "way"))
		for rel, linked := range map[string]bool{"real/mount": false, "way/mount": true, "way/mount/f": true, "real/mount/f": false} {
			r := open(t, k, filepath.Join(base, rel))
			if _, err := r.WithoutLinks(); errors.Is(err, ErrLink) != linked {
				t.Errorf("%s: %s: %v", name, rel, err)
			}
		}
	}
}

// TestClearLeavesModesAlone exchanges what is closed for a link to a closed
// folder elsewhere: that one stays closed.
func TestClearLeavesModesAlone(t *testing.T) {
	both(t, func(t *testing.T, r *Root, dir string) {
		outside := filepath.Join(filepath.Dir(dir), "outside", "closed")
		must(t, os.Mkdir(outside, 0))
		must(t, os.MkdirAll(filepath.Join(dir, "t/closed/in"), 0o755))
		link(t, outside, filepath.Join(dir, "t/link"))
		s := &sweep{k: r.k, opens: true, pause: func() error { return nil }}
		fd, err := unix.Open(filepath.Join(dir, "t"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(fd)
		var st unix.Stat_t
		must(t, unix.Fstat(fd, &st))
		if err := s.unlock(fd, "link", st.Dev); err == nil {
			t.Error("a link was opened as a folder")
		}
		must(t, os.Chmod(filepath.Join(dir, "t/closed"), 0))
		must(t, s.unlock(fd, "closed", st.Dev))
		must(t, r.Clear("t", func() error { return nil }))
		if _, err := os.Lstat(filepath.Join(dir, "t")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the tree is there: %v", err)
		}
		info, err := os.Stat(outside)
		must(t, err)
		if info.Mode().Perm() != 0 {
			t.Errorf("beyond the tree a folder has mode %v now", info.Mode())
		}
	})
}
