package stub

import (
	"errors"
	"os"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

// rename gives the thing called from in the folder dir the name to, and
// replaces nothing: the error is EEXIST then. A file system that cannot do
// that in one step does it in two.
func rename(dir int, from, to string) error {
	err := hostpath.Retry(func() error { return unix.Renameat2(dir, from, dir, to, unix.RENAME_NOREPLACE) })
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	var st unix.Stat_t
	if err := hostpath.Stat(dir, to, &st); err == nil {
		return os.ErrExist
	} else if !errors.Is(err, unix.ENOENT) {
		return err
	}
	return hostpath.Retry(func() error { return unix.Renameat(dir, from, dir, to) })
}

// birth returns when name in the folder dir was made, in nanoseconds, or 0.
func birth(dir int, name string) int64 {
	var st unix.Statx_t
	err := hostpath.Retry(func() error {
		return unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st)
	})
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}

// makeSocket makes a Unix socket in the folder dir, to which no process
// listens.
func makeSocket(dir int, name string) error { return unix.Mknodat(dir, name, unix.S_IFSOCK, 0) }
