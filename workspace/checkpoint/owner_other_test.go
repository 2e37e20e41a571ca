//go:build !linux

package checkpoint

import (
	"os"
	"testing"

	"github.com/bulkhead-dev/sandbox/workspace"
)

// asOwner runs fn as this process's user, of whom the files are.
func asOwner(t testing.TB, _ workspace.Owner, dir string, fn func(*os.Root) error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	must(t, fn(root))
}
