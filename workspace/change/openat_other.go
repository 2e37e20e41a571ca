//go:build !linux

package change

import "golang.org/x/sys/unix"

// beneath is for systems that open a path without links in one step.
func beneath(int, string, bool) (int, error) { return -1, unix.ENOSYS }
