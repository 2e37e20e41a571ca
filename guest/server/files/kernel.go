//go:build linux

package files

import (
	"errors"

	"golang.org/x/sys/unix"
)

// What an operation may fail with, beside a syscall.Errno.
var (
	// ErrEscape says that a link leads out of the mount.
	ErrEscape = errors.New("the path leads out of its mount through a link")
	// ErrIrregular says that something is a pipe, a socket or a device.
	ErrIrregular = errors.New("this is not a regular file")
	// ErrSwapped says that user code has replaced new content on its way.
	ErrSwapped = errors.New("the new content was replaced while it was written")
	// ErrLink says that a link is on the way where none may be followed.
	ErrLink = errors.New("a link is on the way")
	// ErrNoRoot says that the mount is not there, or is nothing to serve.
	ErrNoRoot = errors.New("the mount cannot be entered")
	// ErrWatches says that the kernel serves no further watch.
	ErrWatches = errors.New("the kernel serves no further watch of this user (fs.inotify.max_user_instances)")
	// ErrWatchedFolders says that a watch would take in too many folders.
	ErrWatchedFolders = errors.New("there are more folders than one watch takes in (16384) or than the kernel watches for this user (fs.inotify.max_user_watches)")
)

// A Kernel says what the kernel can do here, and how it makes files for us.
type Kernel struct {
	Openat2 bool
	Proc    bool   // there is /proc
	Umask   uint32 // of this process; it stays what it is
}

// Probe asks the kernel. It must be called before anything else makes files,
// because the umask can only be read by setting it.
func Probe() Kernel {
	mask := unix.Umask(0o022)
	unix.Umask(mask)
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err == nil {
		unix.Close(fd)
	}
	proc := unix.Access("/proc/self/fd", unix.X_OK) == nil
	return Kernel{Openat2: err == nil, Proc: proc, Umask: uint32(mask)}
}

// maxAgain bounds how often openat2 is asked again that could not tell,
// because something was renamed meanwhile, whether a path stays beneath.
const maxAgain = 32

// openat2 opens path from dir. It returns ENOSYS where there is no openat2.
func (k Kernel) openat2(dir int, path string, flags, resolve uint64) (int, error) {
	if !k.Openat2 {
		return -1, unix.ENOSYS
	}
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: resolve}
	for again := 0; ; {
		fd, err := unix.Openat2(dir, path, &how)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN && again < maxAgain:
			again++
		default:
			return fd, err
		}
	}
}

// openat opens name in the folder dir, never following a link.
func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// lstat describes name in the folder dir.
func lstat(dir int, name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

func kind(st *unix.Stat_t) uint32 { return st.Mode & unix.S_IFMT }

// same reports whether two descriptions are of one file.
func same(a, b *unix.Stat_t) bool { return a.Dev == b.Dev && a.Ino == b.Ino }

// readlink returns where the link name in dir points to.
func readlink(dir int, name string) (string, error) {
	for size := 256; ; size *= 4 {
		b := make([]byte, size)
		n, err := unix.Readlinkat(dir, name, b)
		if err != nil {
			return "", err
		}
		if n < size {
			return string(b[:n]), nil
		}
	}
}

// randomName returns an unpredictable and recognisable name for a file that is
// being written.
func randomName() (string, error) {
	const digits = "0123456789abcdef"
	var b [16]byte
	for done := 0; done < len(b); {
		n, err := unix.Getrandom(b[done:], 0)
		if err != nil && err != unix.EINTR {
			return "", err
		}
		done += max(n, 0)
	}
	name := append(make([]byte, 0, 48), ".sbx-"...)
	for _, c := range b {
		name = append(name, digits[c>>4], digits[c&15])
	}
	return string(append(name, ".tmp"...)), nil
}
