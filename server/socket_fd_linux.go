package server

import "golang.org/x/sys/unix"

// newSocket returns a Unix socket that no program which we start inherits.
func newSocket() (int, error) {
	return unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}
