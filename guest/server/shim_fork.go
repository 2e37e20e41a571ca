//go:build linux

package server

import (
	"os"
	"syscall"
	"unsafe"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// The runtime's own bracket around fork, as package syscall uses it. The
// runtime keeps these names for programs that, like this one, have to do
// more in the child than syscall.SysProcAttr can say.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

// A Maker makes shims, and requests for them.
type shimMaker struct {
	memory []byte     // what becomes a shim's own memory; the guest writes the birth only
	base   wire.Start // what commands are laid over
	birth  birth
	hard   map[int]uint64 // hard limits, which commands inherit

	counting uintptr // instructions of the filter at countingAt; 0: there is none
}

// NewMaker returns a Maker of shims whose commands are laid over base, held
// by c, and read null where there is nothing to read. It is made once in a
// process and never given back.
func newMaker(base wire.Start, null int, c shimConfinement) (*shimMaker, error) {
	ruleset, err := c.ruleset()
	if err != nil {
		return nil, err
	}
	keep, err := ownSpans()
	if err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(-1, 0, memorySize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	at := uintptr(unsafe.Pointer(&memory[0]))
	m := &shimMaker{memory: memory, base: base, hard: map[int]uint64{}}
	m.birth = birth{fds: [othersFD]int{null, null, null, -1, -1, ruleset}, page: uintptr(os.Getpagesize()), keep: inOrder(keep, span{at, at + memorySize})}
	m.birth.title, m.birth.titleSize = commandLine()
	for _, resource := range []int{unix.RLIMIT_NOFILE, unix.RLIMIT_CPU, unix.RLIMIT_FSIZE, unix.RLIMIT_AS, unix.RLIMIT_DATA, unix.RLIMIT_CORE} {
		var l unix.Rlimit
		if err := unix.Getrlimit(resource, &l); err != nil {
			return nil, os.NewSyscallError("getrlimit", err)
		}
		m.hard[resource] = l.Max
	}
	m.birth.processes = c.Processes
	m.birth.nofile = int(min(m.hard[unix.RLIMIT_NOFILE], 1<<16))
	return m, m.setFilter(c)
}

// Request returns what a shim has to be sent for s, with the descriptors
// of standard input, output and error attached to its first byte. The
// report is the failure, if there is one.
func (m *shimMaker) Request(s wire.Start) ([]byte, *shimReport) {
	at := uintptr(unsafe.Pointer(&m.memory[requestAt]))
	return encode(s, m.base, at, func(resource int) uint64 { return m.hard[resource] })
}

// Fork makes a shim that takes requests from the Unix stream socket control
// and writes reports into the pipe reports; both descriptors stay the
// caller's. It must not be called by two at once.
//
// Where there is a filter the shim tells when it is set, see
// [Maker.AwaitFilter]. Nothing may be sent to it before. With counts the
// listener is asked before each process that the shim and its descendants
// make; precondition: Counts reports true.
func (m *shimMaker) Fork(control, reports int, counts bool) (pid int, err error) {
	bench := (*workbench)(unsafe.Pointer(&m.memory[0]))
	bench.birth = m.birth
	if counts {
		bench.birth.filterFrom, bench.birth.filter, bench.birth.observe = countingAt, m.counting, 1
	}
	bench.birth.fds[controlFD], bench.birth.fds[reportsFD] = control, reports
	pid, errno := fork(bench)
	if errno != 0 {
		return 0, os.NewSyscallError("fork", errno)
	}
	return pid, nil
}

// fork makes the child, which never returns from here. It has one thread, a
// stack that cannot grow and no runtime, so it may do nothing but raw
// system calls on what was prepared. Signals are blocked in it.
//
//go:norace
//go:noinline
func fork(bench *workbench) (int, syscall.Errno) {
	syscall.ForkLock.Lock()
	beforeFork()
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		live(bench)
	}
	afterFork()
	syscall.ForkLock.Unlock()
	return int(pid), errno
}
