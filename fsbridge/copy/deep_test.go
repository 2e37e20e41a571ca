package copy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDeepFolders checks that folders which are deeper than any path are left
// out and named once, and that everything else arrives.
func TestDeepFolders(t *testing.T) {
	from, to := newFolder(t), newFolder(t)
	must(t, os.MkdirAll(filepath.Join(from.dir, "top"), 0o755))
	must(t, os.WriteFile(filepath.Join(from.dir, "top", "zlast"), []byte("x"), 0o644))
	name := strings.Repeat("d", 200)
	at, err := unix.Open(filepath.Join(from.dir, "top"), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for range 30 {
		must(t, unix.Mkdirat(at, name, 0o755))
		next, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(at)
		at = next
	}
	unix.Close(at)
	for _, target := range []Target{{Files: to, Name: "same"}, {Files: to, Dir: "other", Name: strings.Repeat("long", 20)}} {
		var tally Tally
		must(t, Copy(t.Context(), Source{Files: from, Path: "top"}, target, &tally))
		left := tally.Left()
		if len(left) < 1 || len(left) > 2 || left[0].Reason != leftDeep || len(left[0].Path) > 400 {
			t.Errorf("left out: %v", left)
		}
		if tally.Count().Folders < 15 || tally.Count().Files != 1 {
			t.Errorf("moved %+v", tally.Count())
		}
	}
}
