package statedir_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// TestSyncDir checks that a folder that is there can be synced, and that one
// that is missing is an error: callers say then that nothing was kept.
func TestSyncDir(t *testing.T) {
	dir := t.TempDir()
	if err := statedir.SyncDir(dir); err != nil {
		t.Errorf("a folder: %v", err)
	}
	if err := statedir.SyncDir(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
}
