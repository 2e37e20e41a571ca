//go:build linux && !amd64

package server

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// forkChild forks the child, which never returns from here, and waits until
// it has executed or ended.
//
//go:norace
//go:nosplit
//go:noinline
func forkChild(b *workbench) (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, unix.CLONE_VFORK|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		child(b)
	}
	return pid, errno
}

//go:norace
//go:nosplit
func anchor(*workbench) {}
