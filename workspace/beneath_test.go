package workspace_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox/workspace"
	"golang.org/x/sys/unix"
)

// tree is a root with what code inside could have put there.
func tree(t *testing.T) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "a/b"), 0o755),
		os.WriteFile(filepath.Join(dir, "a/b/file"), []byte("x"), 0o644),
		os.Symlink("a", filepath.Join(dir, "inside")),
		os.Symlink("/etc", filepath.Join(dir, "outside")),
		os.Symlink("b/file", filepath.Join(dir, "a/link")),
		unix.Mkfifo(filepath.Join(dir, "a/pipe"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func TestDescend(t *testing.T) {
	for _, tt := range []struct {
		rel  string
		want error
	}{
		{".", nil},
		{"a/b", nil},
		{"inside", workspace.ErrChanged},
		{"inside/b", workspace.ErrChanged},
		{"outside", workspace.ErrChanged},
		{"a/b/file", workspace.ErrChanged},
		{"a/pipe", workspace.ErrChanged},
		{"a/none/b", fs.ErrNotExist},
	} {
		dir, err := workspace.Descend(tree(t), tt.rel)
		if !errors.Is(err, tt.want) {
			t.Errorf("Descend(%q) = %v, want %v", tt.rel, err, tt.want)
		}
		if err == nil {
			dir.Close()
		}
	}
	if dir, err := workspace.Descend(tree(t), "../"); err == nil {
		dir.Close()
		t.Error("a root was left")
	}
}

func TestFile(t *testing.T) {
	dir, err := workspace.Descend(tree(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for name, want := range map[string]error{"link": workspace.ErrChanged, "pipe": workspace.ErrChanged, "b": workspace.ErrChanged, "none": fs.ErrNotExist} {
		if _, _, err := workspace.File(dir, name); !errors.Is(err, want) {
			t.Errorf("File(%q) = %v, want %v", name, err, want)
		}
	}
	f, fi, err := workspace.File(dir, "b/file")
	if err != nil || fi.Size() != 1 {
		t.Fatalf("File = %v, %v", fi, err)
	}
	f.Close()
}
