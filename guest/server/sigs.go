//go:build linux

// This file makes the guest's processes ignore signals that the code in the
// sandbox, which runs as the same user, may send them.
//
// Package os/signal cannot do that: the runtime keeps handlers for signals that
// mean a fault, and one of those sent with kill(2) ends a Go program. It also
// does not report the sender of a signal, and signals of the engine have to be
// distinguished from those of user code.

package server

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	last    = 64
	setSize = 8 // bytes of the kernel's signal set
	ignore  = 1 // SIG_IGN
)

// Stop is the signal by which an engine asks the guest to stop, the same
// that systemd as process 1 takes for that: SIGRTMIN+3. The Go runtime
// leaves a real-time signal blocked where the program was started with it
// blocked, which it does not do with SIGTERM, so this one can be read with
// its sender.
const Stop = unix.Signal(37)

// IgnoreAll ignores every signal that can be ignored but those in keep, and
// two more: SIGCHLD, because ignoring it would have the kernel reap
// children unseen, and SIGURG, which the Go runtime sends to itself and for
// which its handler is harmless. A real fault still ends the process: the
// kernel does not let a fault be ignored.
func ignoreAll(keep ...unix.Signal) {
	keep = append(keep, unix.SIGCHLD, unix.SIGURG)
	action := [4]uint64{ignore} // handler; no flags, no restorer, empty mask
	for sig := uintptr(1); sig <= last; sig++ {
		if slices.Contains(keep, unix.Signal(sig)) {
			continue
		}
		// KILL and STOP are refused, as they should be.
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, setSize, 0, 0)
	}
}

// Block blocks the signals in the calling thread. Called before execve it
// blocks them in every thread of the new program, except for the signals
// that end a program by default: those the Go runtime unblocks.
func Block(signals ...unix.Signal) error {
	set := setOf(signals)
	return unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
}

// Unblock undoes Block in the calling thread.
func Unblock(signals ...unix.Signal) error {
	set := setOf(signals)
	return unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, nil)
}

// Blocked reports whether the calling thread has the signal blocked.
func blockedSigs(s unix.Signal) bool {
	var have unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, nil, &have); err != nil {
		return false
	}
	want := setOf([]unix.Signal{s})
	for i := range want.Val {
		if want.Val[i]&^have.Val[i] != 0 {
			return false
		}
	}
	return true
}

func setOf(signals []unix.Signal) unix.Sigset_t {
	var set unix.Sigset_t
	for _, s := range signals {
		n := uint(s) - 1
		set.Val[n/64] |= 1 << (n % 64)
	}
	return set
}

// Open returns a non-blocking signalfd(2) for the signals, which must be
// blocked in every thread.
func openSigs(signals ...unix.Signal) (int, error) {
	set := setOf(signals)
	return unix.Signalfd(-1, &set, unix.SFD_NONBLOCK|unix.SFD_CLOEXEC)
}

// An Event is one received signal.
type sigsEvent struct {
	Signal unix.Signal
	Sender int // process id of the sender in our namespace; 0 is the kernel or a process outside
}

// EventSize is the size in bytes of an event that a signalfd yields.
const eventSize = int(unsafe.Sizeof(unix.SignalfdSiginfo{}))

// Decode reads one event.
func decodeSigs(b *[eventSize]byte) sigsEvent {
	info := (*unix.SignalfdSiginfo)(unsafe.Pointer(b))
	return sigsEvent{Signal: unix.Signal(info.Signo), Sender: int(info.Pid)}
}
