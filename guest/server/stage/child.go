//go:build linux

package stage

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	lastSignal    = 64
	sigactionSize = 8 // bytes of the kernel's signal set
	umask         = 0o022
	closeOnExec   = 1 << 2 // CLOSE_RANGE_CLOEXEC

	// nice lets the guest and the stages run before what they have to keep
	// in check. Inside a container it decides among its own processes only.
	nice = 10
)

// child turns the forked child into the command. The order matters: the
// Landlock domain comes before anything that another process of the same
// user could use to get at this one, above all before it becomes dumpable
// again, which it must be to write its own oom_score_adj and will be after
// exec anyway.
//
//go:norace
//go:nosplit
func child(p *plan, report int) {
	afterForkInChild()
	step, errno := enter(p)
	if errno == 0 {
		step, errno = confine(p)
	}
	if errno == 0 {
		if p.landlock >= 0 {
			expose()
		}
		step, errno = streams(p)
	}
	if errno == 0 {
		resetSignals()
		step, errno = execute(p)
	}
	message := [2]uint32{step, uint32(errno)}
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(report), uintptr(unsafe.Pointer(&message)), unsafe.Sizeof(message))
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 127, 0, 0)
	}
}

// enter makes the session, takes the terminal and changes the directory.
//
//go:norace
//go:nosplit
func enter(p *plan) (uint32, syscall.Errno) {
	if _, _, errno := syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); errno != 0 {
		return StepSession, errno
	}
	if p.tty {
		if _, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(p.fds[0]), unix.TIOCSCTTY, 0); errno != 0 {
			return StepTerminal, errno
		}
	}
	if p.dir != nil {
		if _, _, errno := syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(p.dir)), 0, 0); errno != 0 {
			return StepDir, errno
		}
	}
	syscall.RawSyscall(unix.SYS_UMASK, umask, 0, 0)
	syscall.RawSyscall(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, nice)
	return 0, 0
}

// confine sets limits, no_new_privs and the Landlock domain. A hard limit
// that is below the wanted one already stays, and becomes the soft one too.
//
//go:norace
//go:nosplit
func confine(p *plan) (uint32, syscall.Errno) {
	var old, want unix.Rlimit
	for i := range p.limits {
		l := &p.limits[i]
		want = l.value
		_, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(l.resource), 0, uintptr(unsafe.Pointer(&old)), 0, 0)
		if errno == 0 {
			if want.Max > old.Max {
				want.Max = old.Max
			}
			if want.Cur > want.Max {
				want.Cur = want.Max
			}
			_, _, errno = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(l.resource), uintptr(unsafe.Pointer(&want)), 0, 0, 0)
		}
		if errno != 0 {
			return StepLimits, errno
		}
	}
	if _, _, errno := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return StepLandlock, errno
	}
	if p.landlock >= 0 {
		if _, _, errno := syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(p.landlock), 0, 0); errno != 0 {
			return StepLandlock, errno
		}
	}
	return 0, 0
}

// expose makes the process the first choice of the out-of-memory killer,
// as far as the kernel lets it.
//
//go:norace
//go:nosplit
func expose() {
	path := [...]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'o', 'o', 'm', '_', 's', 'c', 'o', 'r', 'e', '_', 'a', 'd', 'j', 0}
	score := [...]byte{'1', '0', '0', '0'}
	cwd := unix.AT_FDCWD
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0, 0)
	fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(cwd), uintptr(unsafe.Pointer(&path)), unix.O_WRONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno == 0 {
		syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&score)), uintptr(len(score)))
	}
}

// streams puts the three descriptors in place and leaves nothing else open
// for the program. All our own descriptors close on exec; close_range is
// for what somebody else may have left.
//
//go:norace
//go:nosplit
func streams(p *plan) (uint32, syscall.Errno) {
	for i := range p.fds {
		if _, _, errno := syscall.RawSyscall(unix.SYS_DUP3, uintptr(p.fds[i]), uintptr(i), 0); errno != 0 {
			return StepStreams, errno
		}
	}
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 3, uintptr(^uint32(0)), closeOnExec)
	return 0, 0
}

// resetSignals gives every signal its default action and unblocks all.
//
//go:norace
//go:nosplit
func resetSignals() {
	var action [4]uint64 // all zero: SIG_DFL, no flags, empty mask
	for sig := uintptr(1); sig <= lastSignal; sig++ {
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, sigactionSize, 0, 0)
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&action)), 0, sigactionSize, 0, 0)
}

// execute tries the candidates in order, as execvp(3) does: one that may
// not be executed is remembered, one that is not there is passed over.
//
//go:norace
//go:nosplit
func execute(p *plan) (uint32, syscall.Errno) {
	step, result := uint32(StepExecGone), syscall.ENOENT
	cwd := unix.AT_FDCWD
	for i := range p.candidates {
		_, _, errno := syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(p.candidates[i])),
			uintptr(unsafe.Pointer(&p.argv[0])), uintptr(unsafe.Pointer(&p.envv[0])))
		switch errno {
		case syscall.ENOENT:
			// The file itself may be there and its interpreter missing.
			_, _, gone := syscall.RawSyscall(unix.SYS_FACCESSAT, uintptr(cwd), uintptr(unsafe.Pointer(p.candidates[i])), 0)
			if gone == 0 {
				return StepExec, errno
			}
		case syscall.ENOTDIR:
		case syscall.EACCES:
			step, result = StepExec, errno
		default:
			return StepExec, errno
		}
	}
	return step, result
}
