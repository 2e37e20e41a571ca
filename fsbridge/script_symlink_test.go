package fsbridge

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestSymlinkCrossing has others make something under the name of a link just
// before it is made: the link goes nowhere else, least of all into a folder.
func TestSymlinkCrossing(t *testing.T) {
	const (
		small = `[ "${1#*T}" = "$1" ] || { echo "ln: invalid option -- 'T'" >&2; return 1; };`
		folds = `mkdir ./name;`
	)
	for name, tt := range map[string]struct {
		text  string // what ln does first
		there bool   // something is, by then
	}{
		"nothing":                      {"", false},
		"a folder":                     {folds, true},
		"a link to a folder":           {`mkdir ./other; command ln -s other ./name;`, true},
		"a file":                       {`: >./name;`, true},
		"an ln without -T":             {small, false},
		"a folder, an ln without -T":   {folds + small, true},
		"a dead link, one without -T":  {`command ln -s nowhere ./name;` + small, true},
		"a folder is its target's too": {`mkdir ./name ./to;`, true},
	} {
		for _, shell := range []string{"dash", "bash", "busybox"} {
			t.Run(name+"/"+shell, func(t *testing.T) {
				path, err := exec.LookPath(shell)
				if err != nil {
					testenv.Lack(t, shell, "it is not installed")
				}
				dir := t.TempDir()
				table, err := NewMountTable([]sandbox.Mount{{Target: dir, Role: sandbox.RoleWorkspace}}, nil)
				must(t, err)
				f := &scriptFiles{starter: crossed{path, `ln() { ` + tt.text + ` command ln "$@"; }`}, table: table}
				err = f.Symlink(context.Background(), "to", dir+"/name")
				if tt.there != errors.Is(err, fs.ErrExist) || !tt.there && err != nil {
					t.Errorf("got %v", err)
				}
				if to, err := os.Readlink(dir + "/name"); !tt.there && (err != nil || to != "to") {
					t.Errorf("the link leads to %q, %v", to, err)
				}
				if _, err := os.Lstat(dir + "/name/to"); err == nil {
					t.Error("the link was made inside of what is there")
				}
			})
		}
	}
}
