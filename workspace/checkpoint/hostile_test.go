package checkpoint

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"golang.org/x/sys/unix"
)

// TestHostileWorkspace holds that what untrusted code leaves in a workspace
// leads no operation out of it, and can be removed.
func TestHostileWorkspace(t *testing.T) {
	eachMeans(t, func(t *testing.T, s *Store) {
		outside := filepath.Join(t.TempDir(), "outside")
		must(t, os.MkdirAll(filepath.Join(outside, "d"), 0o755))
		must(t, os.WriteFile(filepath.Join(outside, "d", "secret"), []byte("untouched"), 0o600))
		want := snapshot(t, outside)
		plain(t, s, ws, map[string]string{"d/secret": "mine", "e/d/secret": "mine", "f": "file"})
		dir := s.Path(ws)
		r := create(t, s, ws, CreateOptions{})

		// Links take the place of folders and files of the checkpoint.
		must(t, os.RemoveAll(filepath.Join(dir, "d")))
		must(t, os.Symlink(filepath.Join(outside, "d"), filepath.Join(dir, "d")))
		must(t, os.RemoveAll(filepath.Join(dir, "e")))
		must(t, os.Symlink(outside, filepath.Join(dir, "e")))
		must(t, os.Remove(filepath.Join(dir, "f")))
		must(t, os.Symlink(filepath.Join(outside, "d", "secret"), filepath.Join(dir, "f")))
		must(t, os.Symlink("..", filepath.Join(dir, "up")))
		must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
		must(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
		must(t, os.Mkdir(filepath.Join(dir, restoreDir+"x"), 0o700))
		r2 := create(t, s, ws, CreateOptions{})
		var file bytes.Buffer
		_, err := s.Export(t.Context(), r2.ID, &file)
		must(t, err)
		_, err = s.Import(t.Context(), &file, ImportOptions{Name: "moved"})
		must(t, err)
		must(t, s.Fork(t.Context(), r2.ID, "sbx-b", user()))
		must(t, s.Fork(t.Context(), "moved", "sbx-c", user()))
		rollback(t, s, ws, r.ID)
		if data, err := os.ReadFile(filepath.Join(dir, "d", "secret")); err != nil || string(data) != "mine" {
			t.Errorf("after the rollback there is %q, %v", data, err)
		}
		rollback(t, s, ws, r2.ID)
		same(t, "the folder outside", snapshot(t, outside), want)
		if to, err := os.Readlink(filepath.Join(s.Path("sbx-c"), "e")); err != nil || to != outside {
			t.Errorf("the link leads to %q, %v", to, err)
		}
		for _, name := range []string{ws, "sbx-b", "sbx-c"} {
			must(t, s.Drop(t.Context(), name))
		}
		for _, id := range []string{r.ID, r2.ID, "moved"} {
			must(t, s.Remove(t.Context(), id))
		}
		same(t, "the folder outside", snapshot(t, outside), want)
		if n := layersIn(t, s); n != 0 {
			t.Errorf("%d layers are left", n)
		}
	})
}

// TestDeepWorkspace holds that folders nested deeper than the bound are refused
// by copies, and that layers with them can be removed.
func TestDeepWorkspace(t *testing.T) {
	t.Parallel()
	eachMeans(t, func(t *testing.T, s *Store) {
		plain(t, s, ws, map[string]string{"a": "a"})
		dir, err := os.Open(s.Path(ws))
		must(t, err)
		fd, err := unix.Openat(int(dir.Fd()), ".", folderFlags, 0)
		must(t, err)
		dir.Close()
		for range 3 * maxDepth {
			must(t, unix.Mkdirat(fd, "d", 0o700))
			next, err := unix.Openat(fd, "d", folderFlags, 0)
			unix.Close(fd)
			must(t, err)
			fd = next
		}
		unix.Close(fd)
		m, _, err := s.MeansOf(t.Context(), ws)
		must(t, err)
		r, w, err := s.Create(t.Context(), ws, CreateOptions{})
		if m != Overlay {
			wantCode(t, "a copy", err, sandbox.CodeBudgetExceeded)
			if layersIn(t, s) != 0 {
				t.Error("something is left")
			}
			return
		}
		must(t, err)
		commit(t, w)
		must(t, s.Drop(t.Context(), ws))
		must(t, s.Remove(t.Context(), r.ID))
		if names, err := readNames(s.path("trash"), 1); err != nil || len(names) > 0 {
			t.Errorf("left is %v, %v", names, err)
		}
	})
}

// TestDamagedStore holds that files of the store that cannot be read are
// errors, and that nothing is removed because of them.
func TestDamagedStore(t *testing.T) {
	s := newStore(t, Options{Means: Copy})
	plain(t, s, ws, someFiles())
	r := create(t, s, ws, CreateOptions{})
	n := layersIn(t, s)
	for _, p := range []string{s.recordPath(r.ID), s.headPath(ws)} {
		data, err := os.ReadFile(p)
		must(t, err)
		must(t, os.WriteFile(p, data[:len(data)/2], 0o600))
		_, err = s.Prune(t.Context(), PruneOptions{})
		wantCode(t, "prune", err, sandbox.CodeUnavailable)
		if !strings.Contains(err.Error(), p) {
			t.Errorf("the error does not name the file: %v", err)
		}
		if layersIn(t, s) != n {
			t.Error("a layer was removed")
		}
		must(t, os.WriteFile(p, data, 0o600))
	}
	// Without the list of files all are copied again.
	must(t, os.WriteFile(s.filesPath(ws), []byte("something else\n"), 0o600))
	create(t, s, ws, CreateOptions{})
}
