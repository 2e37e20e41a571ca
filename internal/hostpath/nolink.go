// This file opens paths of the host without following any link on the way. Code
// in a sandbox can replace a folder that it may write with a link at any
// moment; these functions open what the path named, or nothing.

package hostpath

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Folder opens the folder at path, which is absolute, with the flags how: one
// name after the other, none of them a link (ENOTDIR or ELOOP then). The
// caller closes it.
func Folder(path string, how int) (int, error) {
	if fd, err := whole(path, how|unix.O_DIRECTORY|unix.O_CLOEXEC); err == nil {
		return fd, nil
	}
	// Where the kernel cannot do it at once, or has found something odd, which
	// is to have the name of what is odd.
	fd, err := At(unix.AT_FDCWD, "/", PathOnly)
	if err != nil {
		return -1, err
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" {
			continue
		}
		next, err := At(fd, name, PathOnly)
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	if how == PathOnly {
		return fd, nil
	}
	defer unix.Close(fd)
	return At(fd, ".", how)
}

// At opens the folder name in the folder fd, which must not be a link.
func At(fd int, name string, how int) (int, error) {
	sub := -1
	err := Retry(func() (err error) {
		sub, err = unix.Openat(fd, name, how|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	return sub, err
}

// ErrOdd says that a file is no regular file or longer than expected.
var ErrOdd = errors.New("is no regular file, or too long")

// File returns the content of the regular file at path, at most limit bytes;
// anything else, and a longer one, is [ErrOdd].
func File(path string, limit int64) ([]byte, error) {
	i := strings.LastIndexByte(path, '/') + 1
	dir, err := Folder(path[:i], PathOnly)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd := -1
	err = Retry(func() (err error) {
		fd, err = unix.Openat(dir, path[i:], unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if errors.Is(err, unix.ENXIO) { // a socket
		return nil, ErrOdd
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > limit {
		return nil, ErrOdd
	}
	data := make([]byte, 0, st.Size+1) // one byte more tells the end
	for {
		n := 0
		err := Retry(func() (err error) {
			n, err = unix.Read(fd, data[len(data):cap(data)])
			return err
		})
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return data, nil
		}
		if data = data[:len(data)+n]; int64(len(data)) > limit {
			return nil, ErrOdd
		}
		if len(data) == cap(data) { // it grows
			data = append(data, 0)[:len(data)]
		}
	}
}

// Stat looks at name in the folder fd, not through a link.
func Stat(fd int, name string, st *unix.Stat_t) error {
	return Retry(func() error { return unix.Fstatat(fd, name, st, unix.AT_SYMLINK_NOFOLLOW) })
}

// Self is a path that leads to what the descriptor fd refers to, in this
// process, for calls that take no descriptor.
func Self(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// Gone reports whether err says that something is not there, or that
// something else is there by now.
func Gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ESTALE)
}

// Retry calls fn until no signal interrupts it.
func Retry(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
