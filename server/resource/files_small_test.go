package resource_test

import (
	"context"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// counted counts what is asked of a folder of the host.
type counted struct {
	*fsbridge.Files
	calls []string
}

func (c *counted) Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	c.calls = append(c.calls, "stat")
	return c.Files.Stat(ctx, path)
}

func (c *counted) Read(ctx context.Context, path string, offset, limit int64) (io.ReadCloser, error) {
	c.calls = append(c.calls, "read")
	return c.Files.Read(ctx, path, offset, limit)
}

// TestSmallFileIsOneCall holds which calls to the sandbox the answer for a file
// makes: one for a small file, and none that is not needed for others.
func TestSmallFileIsOneCall(t *testing.T) {
	t.Parallel()
	const small = 16 << 10
	dir := t.TempDir()
	for name, size := range map[string]int{"empty": 0, "small": small - 1, "more": small, "large": 2 << 20} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat("x", size)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, tt := range []struct {
		name, calls string
		size        int // -1 is an error
	}{
		{"empty", "read", 0},
		{"small", "read", small - 1},
		{"more", "read stat read", small},
		{"large", "read stat read", 2 << 20},
		{"missing", "read", -1},
		{"folder", "read stat", -1},
	} {
		tree := &counted{Files: fsbridge.NewHostFiles(root, "")}
		w := httptest.NewRecorder()
		err := resource.NewFiles(resource.Limits{}).Get(w, httptest.NewRequest("GET", "/", nil), tree, "/"+tt.name)
		if calls := strings.Join(tree.calls, " "); calls != tt.calls || (err != nil) != (tt.size < 0) || err == nil && w.Body.Len() != tt.size {
			t.Errorf("%s: calls %q, want %q; %d bytes, %v", tt.name, calls, tt.calls, w.Body.Len(), err)
		}
	}
}
