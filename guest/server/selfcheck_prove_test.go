//go:build linux

package server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// TestMissesAreFound checks that each kind of check notices a missing
// restriction, and leaves nothing behind. What holds is tested inside a
// sandbox.
func TestMissesAreFound(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	selfcheckMust(t, os.WriteFile(file, []byte("content"), 0o600))
	selfcheckMust(t, os.Mkdir(filepath.Join(dir, "empty"), 0o700))
	selfcheckMust(t, os.Symlink("nowhere", filepath.Join(dir, "air")))
	selfcheckMust(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	before := tree(t, dir)
	for _, tt := range []struct {
		name  string
		check wire.Check
		errno unix.Errno
		holds bool
	}{
		{"readable file", wire.Check{Path: file, Want: wire.Unreadable}, 0, false},
		{"readable folder", wire.Check{Path: dir, Want: wire.Unreadable}, 0, false},
		{"readable empty folder", wire.Check{Path: dir + "/empty", Want: wire.Unreadable}, 0, false},
		{"readable pipe", wire.Check{Path: dir + "/pipe", Want: wire.Unreadable}, 0, false},
		{"missing, not to be read", wire.Check{Path: dir + "/none", Want: wire.Unreadable}, 0, true},
		{"writable file", wire.Check{Path: file, Want: wire.Unwritable}, 0, false},
		{"writable folder", wire.Check{Path: dir, Want: wire.Unwritable}, 0, false},
		{"missing file", wire.Check{Path: dir + "/none", Want: wire.Unwritable}, 0, false},
		{"missing folders", wire.Check{Path: dir + "/none/none/none", Want: wire.Unwritable}, 0, false},
		{"link in the air", wire.Check{Path: dir + "/air", Want: wire.Unwritable}, 0, false},
		{"below a file", wire.Check{Path: file + "/x", Want: wire.Unwritable}, 0, true},
		{"writable", wire.Check{Path: dir, Want: wire.Writable}, 0, true},
		{"a file is no folder", wire.Check{Path: file, Want: wire.Writable}, unix.ENOTDIR, false},
		{"not there", wire.Check{Path: dir + "/none", Want: wire.Writable}, unix.ENOENT, false},
		{"proc is not writable", wire.Check{Path: "/proc", Want: wire.Writable}, unix.ENOENT, false},
		{"proc is a mount point", wire.Check{Path: "/proc", Want: wire.Pinned}, 0, true},
		{"the root is", wire.Check{Path: "/", Want: wire.Pinned}, 0, true},
		{"a folder is not", wire.Check{Path: dir + "/empty/", Want: wire.Pinned}, unix.EINVAL, false},
		{"what is missing is not", wire.Check{Path: dir + "/none", Want: wire.Pinned}, unix.ENOENT, false},
	} {
		got := runSelfcheck([]wire.Check{{Path: "/none", Want: wire.Unreadable}, tt.check})
		if tt.holds != (len(got) == 0) || !tt.holds && got[0] != (wire.Miss{Index: 1, Errno: uint32(tt.errno)}) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	if after := tree(t, dir); after != before {
		t.Errorf("it was %s and is %s", before, after)
	}
}

func tree(t *testing.T, dir string) (all string) {
	t.Helper()
	selfcheckMust(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		all += path + " "
		if err == nil && d.Type().IsRegular() {
			b, err := os.ReadFile(path)
			selfcheckMust(t, err)
			all += string(b) + " "
		}
		return err
	}))
	return all
}

func selfcheckMust(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
