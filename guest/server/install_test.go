//go:build linux

package server

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestInstall holds that the copy is the program itself, that folders get their
// modes whatever the umask, and that a second run changes nothing.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	home, tmp := filepath.Join(dir, "home"), filepath.Join(dir, "tmp")
	for range 2 {
		if code := Install([]string{"--to=" + dir, "--dir=0700:" + home, "--dir=1777:" + tmp}); code != 0 {
			t.Fatalf("exit code %d", code)
		}
	}
	self, err := os.ReadFile(selfExe)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := os.ReadFile(filepath.Join(dir, "sandbox-guest"))
	if err != nil || !slices.Equal(self, copied) {
		t.Errorf("the copy has %d bytes, the program %d; %v", len(copied), len(self), err)
	}
	for path, want := range map[string]os.FileMode{
		filepath.Join(dir, "sandbox-guest"): 0o555, home: os.ModeDir | 0o700, tmp: os.ModeDir | os.ModeSticky | 0o777,
	} {
		if st, err := os.Stat(path); err != nil || st.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", path, st.Mode(), err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".sandbox-guest-*")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	for _, args := range [][]string{{"--to=" + filepath.Join(dir, "none")}, {"--dir=9:/x"}, {"--dir=0700:relative"}, {"--what"}} {
		if code := Install(args); code == 0 {
			t.Errorf("%q succeeded", args)
		}
	}
}
