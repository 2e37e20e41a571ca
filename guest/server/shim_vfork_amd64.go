//go:build linux

package server

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// arch_prctl(2)
const archSetFS = 0x1002

// vfork is clone(2) for a child that shares our memory and our stack, while
// we wait. It takes its own return address through the registers, because
// the child goes on to use the stack.
//
//go:noescape
func vfork(flags uintptr) (pid, errno uintptr)

// forkChild forks the child. Like us it never returns from here, so that
// the frames above are as we left them when it is our turn again: it may not
// be inlined.
//
//go:norace
//go:nosplit
//go:noinline
func forkChild(b *workbench) (pid uintptr, errno syscall.Errno) {
	pid, e := vfork(unix.CLONE_VM | unix.CLONE_VFORK | uintptr(unix.SIGCHLD))
	if e == 0 && pid == 0 {
		child(b)
	}
	return pid, syscall.Errno(e)
}

// anchor gives the thread memory of its own behind the register that code
// after a call of assembly reads the current goroutine from. The guest's is
// gone, and there is no goroutine.
//
//go:norace
//go:nosplit
func anchor(b *workbench) {
	syscall.RawSyscall(unix.SYS_ARCH_PRCTL, archSetFS, uintptr(unsafe.Pointer(&b.thread))+unsafe.Sizeof(b.thread), 0)
}
