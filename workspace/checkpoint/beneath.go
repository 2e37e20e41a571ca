package checkpoint

import (
	"errors"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const folderFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// open is openat(2), tried again when a signal interrupts it.
func open(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, mode)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// openBeneath opens the folder rel below an open folder, and passes no link.
func openBeneath(root *os.File, rel string) (int, error) {
	if fd, err, done := openAtOnce(int(root.Fd()), rel); done {
		return fd, err
	}
	fd, err := open(int(root.Fd()), ".", folderFlags, 0)
	if err != nil || rel == "." {
		return fd, err
	}
	for part := range strings.SplitSeq(rel, "/") {
		next, err := open(fd, part, folderFlags, 0)
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// linkInto makes the hard link name in the open folder dst of the file rel
// below src.
func linkInto(src *os.File, rel string, dst int, name string) error {
	dir, err := openBeneath(src, path.Dir(rel))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.Linkat(dir, path.Base(rel), dst, name, 0)
}

// linkBeneath makes the hard link to below dst of the file from below src.
func linkBeneath(src *os.File, from string, dst *os.File, to string) error {
	dir, err := openBeneath(dst, path.Dir(to))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return linkInto(src, from, dir, path.Base(to))
}

// setTimes sets the time of the last change of content of a name in an open
// folder, of a link itself. The time of the last access becomes the same.
func setTimes(dir int, name string, mtime int64) error {
	ts := unix.NsecToTimespec(mtime)
	return unix.UtimesNanoAt(dir, name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}

func nanos(ts unix.Timespec) int64 { return time.Unix(ts.Unix()).UnixNano() }

// getxattr reads a short extended attribute, of a link itself.
func getxattr(path, name string) (string, error) {
	buf := make([]byte, 256)
	n, err := unix.Lgetxattr(path, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
