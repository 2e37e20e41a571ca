package hostscan

import (
	"errors"
	"os"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

// rename renames from to to in the folder dir. It returns EEXIST if to exists.
// On a file system that cannot do that atomically it uses two steps.
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

// Locks of an open file, see fcntl(2): they do not end when the process closes
// another descriptor of the same file.
const (
	setLock = unix.F_OFD_SETLK
	getLock = unix.F_OFD_GETLK
)

// lookPlaceholder returns the status of name in the folder dir, without
// following a link.
func lookPlaceholder(dir int, name string) (status, error) {
	var x unix.Statx_t
	err := hostpath.Retry(func() error {
		return unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &x)
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // an old kernel, or a seccomp filter
		var st unix.Stat_t
		if err := hostpath.Stat(dir, name, &st); err != nil {
			return status{}, err
		}
		return status{
			dev: uint64(st.Dev), ino: st.Ino, nlink: uint64(st.Nlink), mode: st.Mode, size: st.Size, mtime: st.Mtim.Nano(),
		}, nil
	}
	if err != nil {
		return status{}, err
	}
	s := status{
		dev: unix.Mkdev(x.Dev_major, x.Dev_minor), ino: x.Ino, nlink: uint64(x.Nlink), mode: uint32(x.Mode), size: int64(x.Size),
		mtime: x.Mtime.Sec*1e9 + int64(x.Mtime.Nsec),
	}
	if x.Mask&unix.STATX_BTIME != 0 {
		s.birth = x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
	}
	return s, nil
}

// makeSocket creates a Unix socket in the folder dir, to which no process
// listens.
func makeSocket(dir int, name string) error { return unix.Mknodat(dir, name, unix.S_IFSOCK, 0) }
