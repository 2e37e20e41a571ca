//go:build linux

package server

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nice lets the guest and the shims run before what they have to keep in
// check. Inside a container it decides among its own processes only.
const nice = 10

// child turns the forked child into the command. It is not dumpable until
// execve(2) makes it another program, so that no process can see or change what
// happens here.
//
//go:norace
//go:nosplit
func child(b *workbench) {
	r := requestOf(b)
	step, errno := enter(b, r)
	if errno == 0 {
		step, errno = confine(b, r)
	}
	if errno == 0 {
		step, errno = shimStreams(b)
	}
	if errno == 0 {
		unblock()
		step, errno = execute(r)
	}
	*outcomeOf(b) = outcome{step, uint32(errno)}
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 127, 0, 0)
	}
}

// enter makes the session, takes the terminal and changes the directory.
//
//go:norace
//go:nosplit
func enter(b *workbench, r *request) (uint32, syscall.Errno) {
	if _, _, errno := syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); errno != 0 {
		return stepSession, errno
	}
	if r.tty != 0 {
		if _, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(b.rights.fds[0]), unix.TIOCSCTTY, 0); errno != 0 {
			return stepTerminal, errno
		}
	}
	if r.dir != 0 {
		if _, _, errno := syscall.RawSyscall(unix.SYS_CHDIR, r.dir, 0, 0); errno != 0 {
			return stepDir, errno
		}
	}
	syscall.RawSyscall(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, nice)
	return 0, 0
}

// confine sets limits, no_new_privs and the Landlock domain.
//
//go:norace
//go:nosplit
func confine(b *workbench, r *request) (uint32, syscall.Errno) {
	for i := range r.limits {
		if uintptr(i) >= r.nlimits {
			break
		}
		l := &r.limits[i]
		_, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, l.resource, uintptr(unsafe.Pointer(&l.value)), 0, 0, 0)
		if errno != 0 {
			return stepLimits, errno
		}
	}
	if _, _, errno := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return stepLandlock, errno
	}
	if b.birth.fds[rulesetFD] >= 0 {
		if _, _, errno := syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rulesetFD, 0, 0); errno != 0 {
			return stepLandlock, errno
		}
	}
	return 0, 0
}

// streams puts the three descriptors in place. All others of a shim close
// on exec.
//
//go:norace
//go:nosplit
func shimStreams(b *workbench) (uint32, syscall.Errno) {
	for i := range b.rights.fds {
		if _, _, errno := syscall.RawSyscall(unix.SYS_DUP3, uintptr(b.rights.fds[i]), uintptr(i), 0); errno != 0 {
			return stepStreams, errno
		}
	}
	return 0, 0
}

// unblock lets signals in. Their actions are the default ones already.
//
//go:norace
//go:nosplit
func unblock() {
	var none uint64
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&none)), 0, sigactionSize, 0, 0)
}

// execute tries the candidates in order, as execvp(3) does: one that may
// not be executed is remembered, one that is not there is passed over.
//
//go:norace
//go:nosplit
func execute(r *request) (uint32, syscall.Errno) {
	step, result := uint32(stepExecGone), syscall.ENOENT
	cwd := unix.AT_FDCWD
	for list := unsafe.Add(unsafe.Pointer(r), r.candidates); ; list = unsafe.Add(list, unsafe.Sizeof(uintptr(0))) {
		path := *(*uintptr)(list)
		if path == 0 {
			return step, result
		}
		_, _, errno := syscall.RawSyscall(unix.SYS_EXECVE, path, r.argv, r.envv)
		switch errno {
		case syscall.ENOENT:
			// The file itself may be there and its interpreter missing.
			_, _, gone := syscall.RawSyscall(unix.SYS_FACCESSAT, uintptr(cwd), path, 0)
			if gone == 0 {
				return stepExec, errno
			}
		case syscall.ENOTDIR:
		case syscall.EACCES:
			step, result = stepExec, errno
		default:
			return stepExec, errno
		}
	}
}
