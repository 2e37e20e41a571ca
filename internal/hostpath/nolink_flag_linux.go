package hostpath

import "golang.org/x/sys/unix"

// PathOnly opens a folder to go through it, which needs no right to read it.
const PathOnly = unix.O_PATH

// whole opens path in one call. Kernels before 5.6 cannot.
func whole(path string, flags int) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS})
}
