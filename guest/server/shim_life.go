//go:build linux

package server

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	lastSignal    = 64
	sigactionSize = 8 // bytes of the kernel's signal set
	umask         = 0o022
	reach         = 2 << 10 // of the stack that a shim uses, both ways; a chain of nosplit functions has 800 bytes
)

// live is the whole life of a shim. It ends with the guest's end of the
// socket.
//
//go:norace
//go:nosplit
func live(b *workbench) {
	anchor(b)
	if shed(b) && furnish(b) && bound(b) {
		settle(b)
		for held := restrict(b); held && receive(b) && serve(b); {
		}
	}
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// shed gives up the guest's memory: nothing of it is a shim's business, and
// a small process forks fast. What is left is the code, the pages of the
// stack that are in use, the command line and the shim's own memory.
//
//go:norace
//go:nosplit
func shed(b *workbench) bool {
	var here byte
	at := uintptr(unsafe.Pointer(&here))
	page := b.birth.page
	stack := span{(at - reach) &^ (page - 1), (at + reach + page) &^ (page - 1)}
	from := page // the lowest one is not anybody's
	for i := range b.birth.keep {
		keep := b.birth.keep[i]
		if from <= stack.from && stack.to <= keep.from {
			if !unmap(from, stack.from) {
				return false
			}
			from = stack.to
		}
		if !unmap(from, keep.from) {
			return false
		}
		from = keep.to
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_MMAP, uintptr(unsafe.Pointer(b))+sharedAt, slot,
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS|unix.MAP_FIXED, ^uintptr(0), 0)
	return errno == 0
}

//go:norace
//go:nosplit
func unmap(from, to uintptr) bool {
	if from >= to {
		return true
	}
	_, _, errno := syscall.RawSyscall(unix.SYS_MUNMAP, from, to-from, 0)
	return errno == 0
}

// furnish gives the shim its descriptors, and closes all others. They
// close on exec but for the first three.
//
//go:norace
//go:nosplit
func furnish(b *workbench) bool {
	for i := range b.birth.fds { // out of the way: the guest's numbers may be any
		if b.birth.fds[i] < 0 {
			continue
		}
		fd, _, errno := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(b.birth.fds[i]), unix.F_DUPFD_CLOEXEC, othersFD)
		if errno != 0 {
			return false
		}
		b.birth.fds[i] = int(fd)
	}
	for i := range b.birth.fds {
		flags := uintptr(unix.O_CLOEXEC)
		if i < controlFD {
			flags = 0
		}
		if b.birth.fds[i] < 0 {
			syscall.RawSyscall(unix.SYS_CLOSE, uintptr(i), 0, 0)
			continue
		}
		if _, _, errno := syscall.RawSyscall(unix.SYS_DUP3, uintptr(b.birth.fds[i]), uintptr(i), flags); errno != 0 {
			return false
		}
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, othersFD, uintptr(^uint32(0)), 0); errno == 0 {
		return true
	}
	for fd := uintptr(othersFD); fd < uintptr(b.birth.nofile); fd++ {
		syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	}
	return true
}

// settle makes the process what a shim is: a subreaper under its own name,
// deaf to signals, which stay blocked, and, with its children, the first
// choice of the out-of-memory killer as far as the kernel lets it. The
// handlers are the guest's and have to go; a signal that is not ignored here
// is not ignored in a command either.
//
// Among processes with the same oom_score_adj the kernel takes the largest,
// and a shim is smaller than nearly every program; what is spared is the
// guest. A process must be dumpable to write its oom_score_adj. A shim is
// for a moment, with nothing in it yet; where there is Landlock no command
// can use that.
//
//go:norace
//go:nosplit
func settle(b *workbench) {
	var action [4]uint64 // all zero: SIG_DFL, no flags, empty mask
	for sig := uintptr(1); sig <= lastSignal; sig++ {
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, sigactionSize, 0, 0)
	}
	// gVisor may not have it: see Server.keepsTrees, which says so.
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0)
	syscall.RawSyscall(unix.SYS_UMASK, umask, 0, 0)

	name := [...]byte{'s', 'a', 'n', 'd', 'b', 'o', 'x', '-', 'g', 'u', 'e', 's', 't', 0, 's', 't', 'a', 'g', 'e', 0}
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0, 0, 0, 0)
	if b.birth.titleSize >= len(name) {
		for i := 0; i < b.birth.titleSize; i++ {
			var c byte
			if i < len(name) {
				c = name[i]
			}
			*(*byte)(unsafe.Add(b.birth.title, i)) = c
		}
	}

	path := [...]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'o', 'o', 'm', '_', 's', 'c', 'o', 'r', 'e', '_', 'a', 'd', 'j', 0}
	score := [...]byte{'1', '0', '0', '0'}
	cwd := unix.AT_FDCWD
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0, 0)
	fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(cwd), uintptr(unsafe.Pointer(&path)), unix.O_WRONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno == 0 {
		syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&score)), uintptr(len(score)))
		syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	}
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0, 0)
}

// bound sets the limit of processes, below that of the guest.
//
//go:norace
//go:nosplit
func bound(b *workbench) bool {
	if b.birth.processes == 0 {
		return true
	}
	limit := unix.Rlimit{Cur: b.birth.processes, Max: b.birth.processes}
	_, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NPROC, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	return errno == 0
}

// receive waits for the next request. false means that the guest let go.
//
//go:norace
//go:nosplit
func receive(b *workbench) bool {
	r := requestOf(b)
	b.vector = vector{uintptr(unsafe.Pointer(r)), requestSize}
	b.message = message{
		vector: uintptr(unsafe.Pointer(&b.vector)), vectors: 1,
		control: uintptr(unsafe.Pointer(&b.rights)), controlLen: unsafe.Sizeof(b.rights),
	}
	b.rights.size = 0
	got, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, controlFD, uintptr(unsafe.Pointer(&b.message)), unix.MSG_CMSG_CLOEXEC)
	for errno == unix.EINTR {
		got, _, errno = syscall.RawSyscall(unix.SYS_RECVMSG, controlFD, uintptr(unsafe.Pointer(&b.message)), unix.MSG_CMSG_CLOEXEC)
	}
	if errno != 0 || b.rights.size != unsafe.Offsetof(b.rights.fds)+unsafe.Sizeof(b.rights.fds) {
		return false
	}
	for got < unsafe.Sizeof(*r) || got < r.size {
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, controlFD, uintptr(unsafe.Pointer(r))+got, requestSize-got)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 || n == 0 {
			return false
		}
		got += n
	}
	return true
}

//go:norace
//go:nosplit
func requestOf(b *workbench) *request { return (*request)(unsafe.Add(unsafe.Pointer(b), requestAt)) }

//go:norace
//go:nosplit
func outcomeOf(b *workbench) *outcome { return (*outcome)(unsafe.Add(unsafe.Pointer(b), sharedAt)) }
