//go:build linux

package stage

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Steps between fork and exec, as a Failed report names them.
const (
	StepRequest = iota + 1 // the request makes no sense
	StepFork
	StepSession
	StepTerminal
	StepDir
	StepLimits
	StepLandlock
	StepStreams
	StepExec      // the program is there and cannot be executed
	StepExecGone  // the program is not there
	stepUndefined // no step: keep last
)

// The runtime's own bracket around fork, as package syscall uses it. The
// runtime keeps these names for programs that, like this one, have to do
// more between fork and exec than syscall.SysProcAttr can say.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// start forks and executes p. On failure no child is left.
func start(p *plan) (pid int, failure *Report) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, failed(StepFork, err.(syscall.Errno))
	}
	defer unix.Close(pipe[0])
	pid, errno := fork(p, pipe[1])
	unix.Close(pipe[1])
	if errno != 0 {
		return 0, failed(StepFork, errno)
	}
	var buf [8]byte
	n, err := unix.Read(pipe[0], buf[:])
	for err == unix.EINTR {
		n, err = unix.Read(pipe[0], buf[:])
	}
	if err == nil && n == 0 {
		return pid, nil // closed by exec
	}
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(pid, &status, 0, nil); err != unix.EINTR {
			break
		}
	}
	if n != len(buf) {
		return 0, failed(StepFork, syscall.EIO)
	}
	words := (*[2]uint32)(unsafe.Pointer(&buf))
	return 0, failed(uint8(words[0]), syscall.Errno(words[1]))
}

func failed(step uint8, errno syscall.Errno) *Report {
	return &Report{Kind: Failed, Step: step, Errno: uint32(errno)}
}

// fork makes the child, a copy with its own memory, which never returns
// from here. The child has one thread and a stack that cannot grow, so it
// may do nothing but raw system calls on what was prepared.
//
//go:norace
//go:noinline
func fork(p *plan, report int) (int, syscall.Errno) {
	syscall.ForkLock.Lock()
	beforeFork()
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		child(p, report)
	}
	afterFork()
	syscall.ForkLock.Unlock()
	return int(pid), errno
}
