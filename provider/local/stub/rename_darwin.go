package stub

import (
	"github.com/bulkhead-dev/sandbox/provider/local/nolink"
	"golang.org/x/sys/unix"
)

// rename gives the thing called from in the folder dir the name to, and
// replaces nothing: the error is EEXIST then.
func rename(dir int, from, to string) error {
	return nolink.Retry(func() error { return unix.RenameatxNp(dir, from, dir, to, unix.RENAME_EXCL) })
}
