//go:build linux && amd64

package probe

import "golang.org/x/sys/unix"

// foreignCall returns getpid as x32 programs number it.
func foreignCall() (nr uintptr, known bool) { return 0x40000000 | unix.SYS_GETPID, true }
