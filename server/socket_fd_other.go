//go:build !linux

package server

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// newSocket returns a Unix socket that programs started by this process do not
// inherit.
func newSocket() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	return fd, err
}
