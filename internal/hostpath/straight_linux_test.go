package hostpath

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestStraightAgreesWithTheWalk holds that one look says what a walk says, or
// nothing: of links, of what is not there, and of what the walk has to judge.
func TestStraightAgreesWithTheWalk(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.MkdirAll(filepath.Join(root, "a/b"), 0o755), os.WriteFile(filepath.Join(root, "a/file"), nil, 0),
		os.Symlink("a", filepath.Join(root, "link")), unix.Mkfifo(filepath.Join(root, "pipe"), 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := straight("/"); !ok {
		testenv.Lack(t, "openat2", "this kernel cannot tell it in one look")
	}
	for in, known := range map[string]bool{
		"/a/b": true, "/a//./b/": true, "/a/b/..": true, "/a/file": true, "/pipe": true, "": true, "/../" + filepath.Base(root) + "/a": true,
		"/link": false, "/link/b": false, "/link/../a": false, "/none": false, "/a/none/..": false, "/a/file/": false, "/a/file/x": false,
	} {
		got, ok := straight(root + in)
		if ok != known {
			t.Errorf("%q is known: %v", in, ok)
		}
		want, _, err := Trace(root + in)
		if ok && (err != nil || got != want) {
			t.Errorf("%q leads to %q, and step by step to %q, %v", in, got, want, err)
		}
	}
	if got, ok := straight("/proc/self/fd/0"); ok {
		t.Errorf("an open file leads to %q", got)
	}
}

func BenchmarkCanonical(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "one", "two", "three")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	b.Run("straight", func(b *testing.B) {
		for b.Loop() {
			if _, err := Canonical(dir); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("walk", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := Trace(dir); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("missing", func(b *testing.B) {
		for b.Loop() {
			if _, err := Canonical(dir + "/none"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
