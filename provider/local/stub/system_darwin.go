package stub

import (
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

// rename gives the thing called from in the folder dir the name to, and
// replaces nothing: the error is EEXIST then.
func rename(dir int, from, to string) error {
	return hostpath.Retry(func() error { return unix.RenameatxNp(dir, from, dir, to, unix.RENAME_EXCL) })
}

// birth returns when name in the folder dir was made, in nanoseconds, or 0.
func birth(dir int, name string) int64 {
	var st unix.Stat_t
	if hostpath.Stat(dir, name, &st) != nil {
		return 0
	}
	return st.Btim.Nano()
}

// makeSocket makes a Unix socket in the folder dir; only root can here.
func makeSocket(int, string) error { return unix.EPERM }
