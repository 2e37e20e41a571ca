package hostpath_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

func TestOpening(t *testing.T) {
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
	must(os.MkdirAll(root+"/a/b", 0o755))
	must(os.WriteFile(root+"/a/b/f", []byte("text"), 0o644))
	must(os.Symlink("a", root+"/l"))
	must(os.Symlink("f", root+"/a/b/l"))
	must(unix.Mkfifo(root+"/a/b/p", 0o600))

	for path, ok := range map[string]bool{
		"/": true, root: true, root + "/a//b/": true, root + "/l/b": false, root + "/l": false, root + "/a/b/f": false, root + "/none": false,
	} {
		fd, err := hostpath.Folder(path, unix.O_RDONLY)
		if err == nil {
			unix.Close(fd)
		}
		if (err == nil) != ok || err != nil && !hostpath.Gone(err) {
			t.Errorf("folder %q: %v", path, err)
		}
	}
	if data, err := hostpath.File(root+"/a/b/f", 4); err != nil || string(data) != "text" {
		t.Errorf("%q, %v", data, err)
	}
	for _, path := range []string{"/a/b/l", "/l/b/f", "/none"} {
		if _, err := hostpath.File(root+path, 9); err == nil || !hostpath.Gone(err) {
			t.Errorf("file %q: %v", path, err)
		}
	}
	for _, path := range []string{"/a/b/p", "/a/b", "/a/b/f"} {
		if _, err := hostpath.File(root+path, 3); !errors.Is(err, hostpath.ErrOdd) {
			t.Errorf("file %q: %v, want %v", path, err, hostpath.ErrOdd)
		}
	}
}
