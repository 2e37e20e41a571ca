//go:build linux

package server

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// serve runs one command to the end of its last descendant. false means that
// the guest is gone.
//
//go:norace
//go:nosplit
func serve(b *workbench) bool {
	pid := startShim(b)
	reported := send(b)
	for i := range b.rights.fds {
		syscall.RawSyscall(unix.SYS_CLOSE, uintptr(b.rights.fds[i]), 0, 0)
	}
	if r := requestOf(b); r.size > keepResting {
		syscall.RawSyscall(unix.SYS_MADVISE, uintptr(unsafe.Pointer(r)), requestSize, unix.MADV_DONTNEED)
	}
	if pid == 0 || !reported {
		return reported
	}
	awaitProgram(b, pid)
	if !send(b) || b.report.Empty {
		return b.report.Empty
	}
	awaitDescendants()
	b.report = shimReport{Kind: shimEmpty}
	return send(b)
}

// start forks and executes what was asked for, and writes the report. It
// returns 0 when no child is left. Our waiting until the child has executed
// or ended (CLONE_VFORK) takes the place of a pipe that tells us so.
//
//go:norace
//go:nosplit
func startShim(b *workbench) (pid uintptr) {
	o := outcomeOf(b)
	*o = outcome{}
	pid, errno := forkChild(b)
	switch {
	case errno != 0:
		b.report = shimReport{Kind: shimFailed, Step: stepFork, Errno: uint32(errno)}
		return 0
	case o.step != 0:
		b.report = shimReport{Kind: shimFailed, Step: uint16(o.step), Errno: o.errno}
		for {
			_, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, pid, 0, unix.WALL, 0, 0, 0)
			if errno != unix.EINTR {
				return 0
			}
		}
	}
	b.report = shimReport{Kind: shimStarted, PID: uint32(pid)}
	return pid
}

// awaitProgram reaps until pid has ended, looks whether it left descendants
// behind, and writes the report.
//
//go:norace
//go:nosplit
func awaitProgram(b *workbench, pid uintptr) {
	for {
		got, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&b.status)),
			unix.WALL, uintptr(unsafe.Pointer(&b.usage)), 0, 0)
		if errno == 0 && got == pid {
			break
		}
		if errno != 0 && errno != unix.EINTR {
			// Not possible while the program is our child.
			b.report = shimReport{Kind: shimExited, Empty: true, Status: uint32(unix.SIGKILL)}
			return
		}
	}
	b.report = shimReport{
		Kind:   shimExited,
		Empty:  reapEnded(),
		Status: uint32(b.status),
		MaxRSS: uint64(b.usage.Maxrss) << 10,
	}
}

// reapEnded reaps what has ended and reports whether nothing is left.
//
//go:norace
//go:nosplit
func reapEnded() bool {
	for {
		pid, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), 0, unix.WALL|unix.WNOHANG, 0, 0, 0)
		switch {
		case errno == unix.ECHILD:
			return true
		case errno == 0 && pid == 0:
			return false
		}
	}
}

// awaitDescendants reaps until there is no child left.
//
//go:norace
//go:nosplit
func awaitDescendants() {
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), 0, unix.WALL, 0, 0, 0)
		if errno == unix.ECHILD {
			return
		}
	}
}

// send sends the report, which a pipe takes as a whole. false means that the
// guest is gone; the signal that says so too is blocked.
//
//go:norace
//go:nosplit
func send(b *workbench) bool {
	children := unix.RUSAGE_CHILDREN
	if _, _, errno := syscall.RawSyscall(unix.SYS_GETRUSAGE, uintptr(children), uintptr(unsafe.Pointer(&b.usage)), 0); errno == 0 {
		b.report.User = nanoseconds(&b.usage.Utime)
		b.report.System = nanoseconds(&b.usage.Stime)
	}
	for {
		n, _, errno := syscall.RawSyscall(unix.SYS_WRITE, reportsFD, uintptr(unsafe.Pointer(&b.report)), uintptr(reportLen))
		if errno != unix.EINTR {
			return n == uintptr(reportLen)
		}
	}
}

//go:norace
//go:nosplit
func nanoseconds(t *unix.Timeval) uint64 { return uint64(t.Sec)*1e9 + uint64(t.Usec)*1e3 }
