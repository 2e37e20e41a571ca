//go:build !linux

package ledger

import "golang.org/x/sys/unix"

// syncData brings a file onto the disk.
func syncData(fd int) error { return unix.Fsync(fd) }
