//go:build !linux

package hostpath

import "golang.org/x/sys/unix"

// PathOnly opens a folder to go through it.
const PathOnly = unix.O_RDONLY

// whole cannot be had here.
func whole(string, int) (int, error) { return -1, unix.ENOSYS }
