//go:build linux

package probe

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// bomb forks for ever.
//
//go:nosplit
func bomb(pause *unix.Timespec) verdict {
	for {
		_, _, no := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if no != 0 {
			unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(pause)), 0, 0)
		}
	}
}

// burn makes some sixty processes that use all the time they can get.
//
//go:nosplit
func burn() verdict {
	for range 6 {
		unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	}
	for {
		unix.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
	}
}
