//go:build linux

package stage

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// restrict sets the filter of system calls, which all children inherit. A
// stage that cannot do so does not serve.
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
	b.program = program{size: uint16(b.birth.filter), instructions: uintptr(unsafe.Pointer(b)) + filterAt}
	if b.birth.observe == 0 {
		_, errno := setFilter(b, 0)
		return errno == 0
	}
	// A signal that comes while the guest has the call in its hands would
	// have it made anew; newer kernels can hold signals back.
	const listen = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	fd, errno := setFilter(b, listen|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if errno == unix.EINVAL {
		fd, errno = setFilter(b, listen)
	}
	return errno == 0 && handOver(b, fd)
}

//go:norace
//go:nosplit
func setFilter(b *workbench, flags uintptr) (fd uintptr, errno syscall.Errno) {
	fd, _, errno = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&b.program)))
	return fd, errno
}

// handOver gives the listener to the guest and closes it here.
//
//go:norace
//go:nosplit
func handOver(b *workbench, listener uintptr) bool {
	const one = 4 // bytes of a descriptor
	b.rights = rights{size: unsafe.Offsetof(b.rights.fds) + one, level: unix.SOL_SOCKET, kind: unix.SCM_RIGHTS}
	b.rights.fds[0] = int32(listener)
	b.vector = vector{uintptr(unsafe.Pointer(&b.report)), 1} // any byte
	b.message = message{
		vector: uintptr(unsafe.Pointer(&b.vector)), vectors: 1,
		control: uintptr(unsafe.Pointer(&b.rights)), controlLen: b.rights.size,
	}
	for {
		n, _, errno := syscall.RawSyscall(unix.SYS_SENDMSG, controlFD, uintptr(unsafe.Pointer(&b.message)), unix.MSG_NOSIGNAL)
		if errno == unix.EINTR {
			continue
		}
		syscall.RawSyscall(unix.SYS_CLOSE, listener, 0, 0)
		return n == 1
	}
}
