package server

import "golang.org/x/sys/unix"

// newSocket returns a Unix socket that programs started by this process do not
// inherit.
func newSocket() (int, error) {
	return unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}
