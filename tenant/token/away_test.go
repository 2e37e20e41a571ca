package token

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// TestFolderIsBack checks that a token whose file was not found, because its folder
// was away, is not said to be missing when the folder is back.
func TestFolderIsBack(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "tokens")
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, id, err := s.Create(Claims{Role: Admin})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.missing(id, fs.ErrNotExist); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("the folder is back: %v", err)
	}
	if err := s.missing("0de007125e615ceb8a2f", fs.ErrNotExist); err != errMissing {
		t.Errorf("there is no such token: %v", err)
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := s.missing(id, fs.ErrNotExist); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("the folder is away: %v", err)
	}
}
