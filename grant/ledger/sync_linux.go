//go:build linux

package ledger

import "golang.org/x/sys/unix"

// syncData brings the content of a file onto the disk, and of its times nothing.
func syncData(fd int) error { return unix.Fdatasync(fd) }
