//go:build linux

// This file checks from inside whether a sandbox is confined as it was meant to
// be. Its process is confined by everything that confines commands; the checks
// leave nothing changed behind.

package server

import (
	"encoding/hex"
	"os"
	"path"
	"strings"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// Run makes the checks and returns those that do not hold, in their order.
func runSelfcheck(checks []wire.Check) []wire.Miss {
	var misses []wire.Miss
	for i, c := range checks {
		if errno, holds := checkOne(c); !holds {
			misses = append(misses, wire.Miss{Index: uint32(i), Errno: uint32(errno)})
		}
	}
	return misses
}

// checkOne makes one check. The error number is what the kernel said.
func checkOne(c wire.Check) (unix.Errno, bool) {
	switch c.Want {
	case wire.Unreadable:
		errno := readSelfcheck(c.Path)
		return errno, refused(errno)
	case wire.Unwritable:
		errno := write(c.Path)
		return errno, refused(errno)
	case wire.Writable:
		errno := makeIn(c.Path)
		return errno, errno == 0
	case wire.Pinned:
		errno := pinned(c.Path)
		return errno, errno == 0
	}
	return unix.EINVAL, false
}

// refused reports whether an error is a refusal by the sandbox. Others, such as
// a lack of memory or descriptors, prove nothing.
func refused(errno unix.Errno) bool {
	switch errno {
	case unix.EACCES, unix.EPERM, unix.EROFS, unix.ENOENT, unix.ENOTDIR, unix.EBUSY, unix.ELOOP, unix.ENXIO, unix.ETXTBSY:
		return true
	}
	return false
}

// read opens a file, or lists a folder. Missing is unreadable.
func readSelfcheck(p string) unix.Errno {
	fd, errno := openSelfcheck(p, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if errno != 0 {
		return errno
	}
	defer unix.Close(fd)
	_, err := unix.Getdents(fd, make([]byte, 4<<10))
	if err == unix.ENOTDIR {
		return 0 // it is a file, and open
	}
	return selfcheckErrnoOf(err)
}

// write opens a file for writing and changes nothing of it, makes an entry in
// a folder, or makes what is missing.
func write(p string) unix.Errno {
	var st unix.Stat_t
	switch err := unix.Stat(p, &st); {
	case err == unix.ENOENT:
		return createSelfcheck(behindLinks(p))
	case err != nil:
		return selfcheckErrnoOf(err)
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return createSelfcheck(path.Join(p, name()))
	}
	fd, errno := openSelfcheck(p, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if errno == 0 {
		unix.Close(fd)
	}
	return errno
}

// behindLinks is where a path leads whose links hang in the air.
func behindLinks(p string) string {
	for range 8 {
		to, err := os.Readlink(p)
		if err != nil {
			break
		}
		if !path.IsAbs(to) {
			to = path.Join(path.Dir(p), to)
		}
		p = to
	}
	return p
}

// makeIn makes a file in a folder, without a name where that is possible.
func makeIn(folder string) unix.Errno {
	fd, errno := openSelfcheck(folder, unix.O_TMPFILE|unix.O_WRONLY)
	if errno == 0 {
		unix.Close(fd)
		return 0
	}
	if errno != unix.EOPNOTSUPP && errno != unix.EISDIR && errno != unix.EINVAL {
		return errno
	}
	return createSelfcheck(path.Join(folder, name()))
}

// create makes a file that is not there and removes it again. A folder that
// is missing too cannot be made either.
func createSelfcheck(p string) unix.Errno {
	fd, errno := openSelfcheck(p, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW)
	switch {
	case errno == 0:
		unix.Close(fd)
		_ = unix.Unlink(p) // where it stays, it is a miss that people look at
	case errno == unix.ENOENT && path.Dir(p) != p:
		return createFolder(path.Dir(p))
	}
	return errno
}

// createFolder makes the highest folder that is missing, and removes it.
func createFolder(p string) unix.Errno {
	for {
		err := unix.Mkdir(p, 0o700)
		switch {
		case err == nil:
			_ = unix.Rmdir(p)
			return 0
		case err == unix.EEXIST: // a link that hangs in the air
			return unix.ENOENT
		case err != unix.ENOENT || path.Dir(p) == p:
			return selfcheckErrnoOf(err)
		}
		p = path.Dir(p)
	}
}

// pinned reports whether a path is a mount point.
func pinned(p string) unix.Errno {
	self, errno := mountOf(p)
	if errno != 0 {
		return errno
	}
	parent, errno := mountOf(path.Dir(path.Clean(p)))
	switch {
	case errno != 0:
		return errno
	case self == parent && path.Clean(p) != "/":
		return unix.EINVAL // as unmounting it would say
	}
	return 0
}

// mountOf is the number of the mount that a path lies on.
func mountOf(p string) (uint64, unix.Errno) {
	var st unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if err := unix.Statx(unix.AT_FDCWD, p, flags, unix.STATX_MNT_ID, &st); err != nil {
		return 0, selfcheckErrnoOf(err)
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return 0, unix.ENOSYS
	}
	return st.Mnt_id, 0
}

func openSelfcheck(p string, flags int) (int, unix.Errno) {
	for {
		fd, err := unix.Open(p, flags|unix.O_CLOEXEC, 0o600)
		if err != unix.EINTR {
			return fd, selfcheckErrnoOf(err)
		}
	}
}

func selfcheckErrnoOf(err error) unix.Errno {
	errno, _ := err.(unix.Errno)
	return errno
}

// name returns a name that no other program has.
func name() string {
	var b [8]byte
	_, _ = unix.Getrandom(b[:], 0) // does not fail for so few
	return strings.Join([]string{".sandbox-check", hex.EncodeToString(b[:])}, "-")
}
