package scan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bufSize holds some 800 names, so that most folders take two calls: one
// that fills it and one that says that there are no more.
const bufSize = 32 << 10

// list calls fn for each name in the open folder fd. Name is valid during the
// call only; kind is a DT constant and may be unknown.
func list(fd int, buf []byte, fn func(name []byte, kind uint8, ino uint64) error) error {
	for {
		var n int
		err := eintr(func() (err error) { n, err = unix.ReadDirent(fd, buf); return err })
		if err != nil || n <= 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			size := int(binary.NativeEndian.Uint16(rest[unsafe.Offsetof(unix.Dirent{}.Reclen):]))
			const at = int(unsafe.Offsetof(unix.Dirent{}.Name))
			if size < at || size > len(rest) {
				return errors.New("the kernel lists a folder in a form that is not known")
			}
			entry := rest[:size]
			rest = rest[size:]
			name, _, _ := bytes.Cut(entry[at:], []byte{0})
			ino := binary.NativeEndian.Uint64(entry[unsafe.Offsetof(unix.Dirent{}.Ino):])
			if ino == 0 || len(name) == 0 || string(name) == "." || string(name) == ".." {
				continue
			}
			if err := fn(name, entry[unsafe.Offsetof(unix.Dirent{}.Type)], ino); err != nil {
				return err
			}
		}
	}
}

// kindOf returns the DT constant for a file mode.
func kindOf(mode uint32) uint8 { return uint8(mode & unix.S_IFMT >> 12) }

// statAt looks at name in the folder fd, not through a link.
func statAt(fd int, name string, st *unix.Stat_t) error {
	return eintr(func() error { return unix.Fstatat(fd, name, st, unix.AT_SYMLINK_NOFOLLOW) })
}

// openAt opens the folder name in the folder fd, never through a link.
func openAt(fd int, name string, how int) (int, error) {
	sub := -1
	err := eintr(func() (err error) {
		sub, err = unix.Openat(fd, name, how|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	return sub, err
}

// openPath opens the folder at path step by step, so that none of them can be
// a link.
func openPath(path string, how int) (int, error) {
	fd, err := openAt(unix.AT_FDCWD, "/", pathOnly)
	if err != nil {
		return -1, err
	}
	for _, name := range segments(path) {
		next, err := openAt(fd, name, pathOnly)
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	if how == pathOnly {
		return fd, nil
	}
	defer unix.Close(fd)
	return openAt(fd, ".", how)
}

// gone reports whether err says that a folder is no longer there, or is
// something else by now.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ESTALE)
}

func closedTo(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }

// eintr calls fn until no signal interrupts it.
func eintr(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
