//go:build linux

package server

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A shim keeps three pieces of memory beside its code: a workbench, one
// page that it shares with the child between fork and exec, and the request
// it works on. They lie in one stretch of addresses that the guest reserves
// once and that each shim has for itself, so that the guest can put
// addresses into a request that are right in the shim. The distances are
// multiples of every page size.
const (
	slot        = 64 << 10
	filterAt    = slot / 2     // the filter of system calls
	countingAt  = 3 * slot / 4 // the same with what countsForks puts before it
	sharedAt    = 1 * slot
	requestAt   = 2 * slot
	memorySize  = requestAt + requestSize
	requestSize = 8 << 20 // more than any kernel takes for arguments and environment
	keepResting = slot    // of the request's memory, between two commands
)

// Descriptors of a shim beside 0, 1 and 2, which are /dev/null.
const (
	controlFD = 3 + iota // the socket that requests come from
	reportsFD            // the pipe that reports go to
	rulesetFD            // the Landlock rule set, where there is one
	othersFD             // the first one that is free
)

// A workbench is where a shim, which has no heap and hardly a stack, keeps
// what it works with. There is no pointer in it whose change the garbage
// collector would want to know of.
type workbench struct {
	birth   birth
	message message
	vector  vector
	rights  rights
	program program
	status  unix.WaitStatus
	usage   unix.Rusage
	report  shimReport
	thread  [64]byte // see anchor
}

// A birth is what a new shim has to know; the guest writes it before it
// forks. The descriptors are the guest's, which the shim still has then.
type birth struct {
	fds        [othersFD]int // what to have, by number; -1: nothing
	nofile     int           // upper end of the descriptors, for kernels without close_range(2)
	page       uintptr
	keep       [4]span
	title      unsafe.Pointer // the words of the command line, as others see them
	titleSize  int
	filter     uintptr // instructions of the filter, 0: none
	filterFrom uintptr // where it lies
	observe    uintptr // 1: the filter has a listener, which the guest gets
	processes  uint64  // limit of processes and threads, 0: as it is
}

// A program is the kernel's sock_fprog.
type program struct {
	size         uint16
	instructions uintptr
}

// A span is a piece of the address space, page by page.
type span struct{ from, to uintptr }

// An outcome says why the child did not get to execve(2). Step is 0 as long
// as nothing went wrong.
type outcome struct{ step, errno uint32 }

// A request is the first part of what the guest sends: what the child uses
// between fork and exec, with every string a C string already. Addresses
// are those of the shim.
type request struct {
	size       uintptr // of the whole request
	argv, envv uintptr // addresses of lists for execve(2)
	dir        uintptr // address, 0: stay
	candidates uintptr // distance of a list of addresses, ended by 0, from the request
	tty        uintptr // 1: descriptor 0 becomes the controlling terminal
	nlimits    uintptr
	limits     [maxLimits]rlimit
}

// maxLimits is as many as the protocol allows, and the one of the guest's own.
const maxLimits = 17

type rlimit struct {
	resource uintptr
	value    unix.Rlimit
}

// A message, a vector and rights are the kernel's msghdr, iovec, and cmsghdr
// with three descriptors.
type message struct {
	name       uintptr
	nameSize   uint32
	vector     uintptr
	vectors    uintptr
	control    uintptr
	controlLen uintptr
	flags      int32
}

type vector struct{ base, size uintptr }

type rights struct {
	size        uintptr
	level, kind int32
	fds         [3]int32
	_           int32
}

// Kinds of reports.
const (
	shimStarted = 'S' // the program runs; PID
	shimFailed  = 'F' // it could not be started; Step, Errno. No child is left
	shimExited  = 'X' // the program ended; Status and what follows. Empty says that no descendant is left
	shimEmpty   = 'E' // the last descendant is gone
)

// Steps between fork and exec, as a Failed report names them.
const (
	stepRequest = iota + 1 // the request makes no sense
	stepFork
	stepSession
	stepTerminal
	stepDir
	stepLimits
	stepLandlock
	stepStreams
	stepExec     // the program is there and cannot be executed
	stepExecGone // the program is not there
)

// A Report is what a shim tells the guest.
type shimReport struct {
	Kind   byte
	Empty  bool
	Step   uint16 // see the Step constants
	Errno  uint32
	PID    uint32
	Status uint32 // wait status, as from wait4(2)
	MaxRSS uint64 // bytes, of the program

	// What all processes that the shim has ever reaped have used, with those
	// that they have waited for. The difference between two reports is what
	// was reaped in between.
	User   uint64 // nanoseconds
	System uint64 // nanoseconds
}

// ReportLen is the size of a report in bytes, which is sent as it lies in
// memory: both sides are one program.
const reportLen = int(unsafe.Sizeof(shimReport{}))

// DecodeReport reads a report of ReportLen bytes.
func decodeReport(b []byte) shimReport {
	n := binary.NativeEndian
	return shimReport{
		Kind: b[0], Empty: b[1] != 0, Step: n.Uint16(b[2:]),
		Errno: n.Uint32(b[4:]), PID: n.Uint32(b[8:]), Status: n.Uint32(b[12:]),
		MaxRSS: n.Uint64(b[16:]), User: n.Uint64(b[24:]), System: n.Uint64(b[32:]),
	}
}
