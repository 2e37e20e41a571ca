//go:build linux

package launch

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A program is a list of system calls that is made before any of them is done,
// so that it can be done where no Go code may run that allocates, waits or
// grows its stack: in a process that shares the memory of this one.
type program struct {
	steps   []step
	results []uintptr
	keep    []any // what arguments point to

	failed int // the step that failed, or -1
	errno  syscall.Errno
}

// newProgram returns an empty program with room for the steps of a tree of that
// many mounts: growing a list step by step touches three times the memory.
func newProgram(mounts int) *program {
	return &program{steps: make([]step, 0, 128+10*mounts), keep: make([]any, 0, 128+10*mounts)}
}

// A step is one system call.
type step struct {
	what  string
	nr    uintptr
	args  [6]uintptr
	from  [6]int32      // where above 0, the argument is the result of that number, from 1
	to    int32         // where above 0, the number under which the result is kept
	allow syscall.Errno // an error that counts as success
}

// A result stands for what a step will return.
type result int

// add appends a system call. Its arguments are ints, results, texts, and
// pointers to what it reads.
func (p *program) add(what string, nr uintptr, args ...any) *step {
	s := step{what: what, nr: nr}
	for i, a := range args {
		switch a := a.(type) {
		case int:
			s.args[i] = uintptr(a)
		case uint64:
			s.args[i] = uintptr(a)
		case result:
			s.from[i] = int32(a)
		case string:
			s.args[i] = p.text(a)
		case unsafe.Pointer:
			s.args[i] = uintptr(a)
			p.keep = append(p.keep, a)
		default:
			panic(fmt.Sprintf("no argument of a system call: %T", a))
		}
	}
	p.steps = append(p.steps, s)
	return &p.steps[len(p.steps)-1]
}

// get is add, and names what the call will return.
func (p *program) get(what string, nr uintptr, args ...any) result {
	s := p.add(what, nr, args...)
	p.results = append(p.results, 0)
	s.to = int32(len(p.results))
	return result(s.to)
}

// text keeps s, ended by a zero byte, and returns where it is. What has a zero
// byte itself ends there, so callers check what others have written.
func (p *program) text(s string) uintptr {
	b := append([]byte(s), 0)
	p.keep = append(p.keep, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// texts keeps a list of texts in the form of execve(2).
func (p *program) texts(list []string) unsafe.Pointer {
	all := make([]uintptr, len(list)+1)
	for i, s := range list {
		all[i] = p.text(s)
	}
	return unsafe.Pointer(&all[0])
}

// run does the steps until one fails. It is called in a process that shares
// memory and stack with this one, too: it must call nothing but system calls.
//
//go:nosplit
//go:norace
func (p *program) run() {
	for i := range p.steps {
		s := &p.steps[i]
		var a [6]uintptr
		for j := range a {
			a[j] = s.args[j]
			if s.from[j] > 0 {
				a[j] = p.results[s.from[j]-1]
			}
		}
		r, _, errno := syscall.RawSyscall6(s.nr, a[0], a[1], a[2], a[3], a[4], a[5])
		if errno != 0 && errno != s.allow {
			p.failed, p.errno = i, errno
			return
		}
		if s.to > 0 {
			p.results[s.to-1] = r
		}
	}
	p.failed = -1
}

// err says which step has failed, or nothing.
func (p *program) err() error {
	if p.failed < 0 {
		return nil
	}
	return &unbuilt{what: p.steps[p.failed].what, cause: p.errno}
}

// An unbuilt error says that the mounts of a [Tree] could not be made. The sandbox
// is built without then.
type unbuilt struct {
	what  string
	cause error
}

// Error implements error.
func (u *unbuilt) Error() string { return "mount " + u.what + ": " + u.cause.Error() }

// Unwrap returns the cause.
func (u *unbuilt) Unwrap() error { return u.cause }

// fork starts a process with the given flags that does p, and returns its
// number when it has executed a program or has ended because a step failed.
// Signals are blocked meanwhile, in the process for good: p has to set its mask
// before it executes a program.
func (p *program) fork(flags int) (pid int, err error) {
	p.failed = 0
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	all, old := ^uint64(0), uint64(0)
	if _, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0); errno != 0 {
		return 0, errno
	}
	got, errno := forkAndRun(p, uintptr(flags|unix.CLONE_VM|unix.CLONE_VFORK|int(unix.SIGCHLD)))
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
	if errno != 0 {
		return 0, &unbuilt{what: "in namespaces of our own", cause: syscall.Errno(errno)}
	}
	if p.done() {
		return int(got), nil
	}
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(int(got), &status, 0, nil); err != syscall.EINTR {
			break
		}
	}
	return 0, p.err()
}

// done reports whether the last step, which executes another program and so
// does not return, was not the one to fail.
func (p *program) done() bool { return p.errno == 0 }

// forkAndRun is the part of fork that both processes run, on one stack.
//
//go:noinline
//go:nosplit
//go:norace
func forkAndRun(p *program, flags uintptr) (pid, errno uintptr) {
	pid, errno = vfork(flags)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	p.run()
	for {
		syscall.RawSyscall6(unix.SYS_EXIT_GROUP, 1, 0, 0, 0, 0, 0)
	}
}
