package hostpath

import (
	"path"

	"golang.org/x/sys/unix"
)

// straight returns the canonical form of a path that leads through no link to
// something that is there, in one look: most paths are such, and a walk looks
// at each of their parts. Of any other it knows nothing, and before Linux 5.6
// of none.
func straight(p string) (canonical string, ok bool) {
	fd, err := unix.Openat2(unix.AT_FDCWD, p, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return "", false
	}
	unix.Close(fd)
	return path.Clean(p), true
}
