//go:build linux

package server

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// restrict sets the filter of system calls, which all children inherit. A
// shim that cannot do so does not serve.
//
//go:norace
//go:nosplit
func restrict(b *workbench) bool {
	if b.birth.filter == 0 {
		return true
	}
	if _, _, errno := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return false
	}
	b.program = program{size: uint16(b.birth.filter), instructions: uintptr(unsafe.Pointer(b)) + b.birth.filterFrom}
	if b.birth.observe == 0 {
		_, errno := setFilter(b, 0)
		return errno == 0 && tell(b, 0)
	}
	// A signal that comes while the guest has the call in its hands would
	// have it made anew; newer kernels can hold signals back.
	const listen = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	fd, errno := setFilter(b, listen|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if errno == unix.EINVAL {
		fd, errno = setFilter(b, listen)
	}
	if errno != 0 {
		return false
	}
	b.rights = rights{size: unsafe.Offsetof(b.rights.fds) + unsafe.Sizeof(b.rights.fds[0]), level: unix.SOL_SOCKET, kind: unix.SCM_RIGHTS}
	b.rights.fds[0] = int32(fd)
	reported := tell(b, b.rights.size)
	syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	return reported
}

//go:norace
//go:nosplit
func setFilter(b *workbench, flags uintptr) (fd uintptr, errno syscall.Errno) {
	fd, _, errno = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&b.program)))
	return fd, errno
}

// tell tells the guest that the filter is set, with as many bytes of rights
// as are said.
//
//go:norace
//go:nosplit
func tell(b *workbench, control uintptr) bool {
	b.vector = vector{uintptr(unsafe.Pointer(&b.report)), 1} // any byte
	b.message = message{
		vector: uintptr(unsafe.Pointer(&b.vector)), vectors: 1,
		control: uintptr(unsafe.Pointer(&b.rights)), controlLen: control,
	}
	for {
		n, _, errno := syscall.RawSyscall(unix.SYS_SENDMSG, controlFD, uintptr(unsafe.Pointer(&b.message)), unix.MSG_NOSIGNAL)
		if errno != unix.EINTR {
			return n == 1
		}
	}
}
