package hostscan

import (
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

// rename renames from to to in the folder dir. It returns EEXIST if to exists.
func rename(dir int, from, to string) error {
	return hostpath.Retry(func() error { return unix.RenameatxNp(dir, from, dir, to, unix.RENAME_EXCL) })
}

// Locks of an open file, F_OFD_SETLK and F_OFD_GETLK of <sys/fcntl.h>: they do
// not end when the process closes another descriptor of the same file.
const (
	setLock = 90
	getLock = 92
)

// lookPlaceholder returns the status of name in the folder dir, without
// following a link.
func lookPlaceholder(dir int, name string) (status, error) {
	var st unix.Stat_t
	if err := hostpath.Stat(dir, name, &st); err != nil {
		return status{}, err
	}
	return status{
		dev: uint64(st.Dev), ino: st.Ino, nlink: uint64(st.Nlink), mode: uint32(st.Mode), size: st.Size,
		mtime: st.Mtim.Nano(), birth: st.Btim.Nano(),
	}, nil
}

// makeSocket creates a Unix socket in the folder dir, which on macOS only root
// can do.
func makeSocket(int, string) error { return unix.EPERM }
