package hostscan

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFoldersOfOthersKeepTheirMode verifies that a folder which another process
// moves into the place of a stub during its creation keeps its mode.
func TestFoldersOfOthersKeepTheirMode(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	widened := func(want os.FileMode, ok bool) {
		t.Helper()
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		err = widen(f)
		st, statErr := os.Stat(dir)
		if (err == nil) != ok || statErr != nil || st.Mode().Perm() != want {
			t.Errorf("%v; mode %v, %v", err, st.Mode(), statErr)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	widened(0o755, true)
	if err := os.WriteFile(filepath.Join(dir, "secret"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	widened(0o700, false)
}
