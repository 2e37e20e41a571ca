package local

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestRootsAlone(t *testing.T) {
	dir := t.TempDir() // below a folder in which everybody may make files
	program, link := filepath.Join(dir, "bwrap"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(program, nil, 0o755), os.Symlink("/usr/bin/env", link)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"/usr/bin/env": true, "/bin/sh": true, program: false, link: false, "/usr/bin/no-such-program": false} {
		if got := rootsAlone(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
