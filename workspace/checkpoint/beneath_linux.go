package checkpoint

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// openAtOnce opens the folder rel by one openat2(2). done is false where the
// kernel has none, or the path is too long for it.
func openAtOnce(root int, rel string) (fd int, err error, done bool) {
	how := unix.OpenHow{Flags: folderFlags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV}
	for range 64 {
		fd, err = unix.Openat2(root, rel, &how)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM), errors.Is(err, unix.ENAMETOOLONG):
			return -1, nil, false
		}
		return fd, err, true
	}
	return -1, err, true
}

// cloneFile makes the open file dst share the blocks of src.
func cloneFile(dst, src int) error { return unix.IoctlFileClone(dst, src) }

// nextData returns the first span of data from the offset at on, which ends at
// size at most. In a file without data it is empty.
func nextData(fd int, at, size int64) (from, to int64, err error) {
	from, err = unix.Seek(fd, at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return size, size, nil
	}
	if err != nil {
		return at, size, nil //nolint:nilerr // no holes are known here
	}
	to, err = unix.Seek(fd, from, unix.SEEK_HOLE)
	if err != nil {
		to = size
	}
	return min(from, size), min(to, size), nil
}

func isWhiteout(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 }

func makeWhiteout(dir int, name string) error { return unix.Mknodat(dir, name, unix.S_IFCHR, 0) }

// probeReflink clones a file in the folder dir.
func probeReflink(dir string) error {
	a, err := os.Create(filepath.Join(dir, "a"))
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := os.Create(filepath.Join(dir, "b"))
	if err != nil {
		return err
	}
	defer b.Close()
	if _, err := a.WriteString("probe"); err != nil {
		return err
	}
	if err := cloneFile(int(b.Fd()), int(a.Fd())); err != nil {
		return errors.New("the file system cannot share blocks: " + err.Error())
	}
	return nil
}

// ordersRenames reports whether the file system at path writes the content of a
// file before the name that it takes from another.
func ordersRenames(path string) bool {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return false
	}
	return st.Type == unix.EXT4_SUPER_MAGIC || st.Type == unix.BTRFS_SUPER_MAGIC || st.Type == unix.TMPFS_MAGIC
}

// pathOnly opens a file to name it alone.
const pathOnly = unix.O_PATH
