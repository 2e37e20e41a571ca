//go:build linux

package server

import (
	"encoding/binary"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A numbering is the numbers of the calls that make processes, in one numbering
// of system calls; -1 is a call that it does not have.
type numbering struct {
	audit              uint32
	clone, fork, vfork int64
}

// numberings returns those of this processor and of the programs of 32 bits that
// its kernel may run; none where there is no filter for it.
func numberings() []numbering {
	const i386, arm = 0x40000003, 0x40000028
	switch runtime.GOARCH {
	case "amd64":
		return []numbering{{unix.AUDIT_ARCH_X86_64, 56, 57, 58}, {i386, 120, 2, 190}}
	case "arm64":
		return []numbering{{unix.AUDIT_ARCH_AARCH64, 220, -1, -1}, {arm, 120, 2, 190}}
	}
	return nil
}

const (
	clone3 = 435        // in every numbering
	x32    = 0x40000000 // the bit by which x32 differs from amd64

	// Places of struct seccomp_data. The processors are little-endian.
	atNumber, atArch, atFlags = 0, 4, 16
)

// countsForks returns the filter that hands every call that makes a process to a
// listener, and leaves all other calls to rest, or allows them where rest is
// empty. The flags of clone3 lie in memory, where they could change while they
// are looked at, so that it fails as on a kernel that does not have it; programs
// use clone then.
func countsForks(rest []byte) []byte {
	var p []byte
	add := func(code uint16, yes, no uint8, k uint32) {
		p = binary.NativeEndian.AppendUint16(p, code)
		p = append(p, yes, no)
		p = binary.NativeEndian.AppendUint32(p, k)
	}
	load := func(at uint32) { add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, at) }
	give := func(k uint32) { add(unix.BPF_RET|unix.BPF_K, 0, 0, k) }
	// unless skips the next n instructions where the number is another one.
	unless := func(k uint32, n uint8) { add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, n, k) }

	for _, n := range numberings() {
		calls := 0
		for _, number := range []int64{n.fork, n.vfork} {
			if number >= 0 {
				calls++
			}
		}
		load(atArch)
		unless(n.audit, uint8(2+2+2*calls+4))
		load(atNumber)
		add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, ^uint32(x32))
		unless(clone3, 1)
		give(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS))
		for _, number := range []int64{n.fork, n.vfork} {
			if number >= 0 {
				unless(uint32(number), 1)
				give(unix.SECCOMP_RET_USER_NOTIF)
			}
		}
		unless(uint32(n.clone), 3)
		load(atFlags)
		add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, 1, 0, unix.CLONE_THREAD)
		give(unix.SECCOMP_RET_USER_NOTIF)
	}
	if len(rest) == 0 {
		give(unix.SECCOMP_RET_ALLOW)
	}
	return append(p, rest...)
}

// CanListen reports whether the kernel hands calls to a listener.
func canListen() bool {
	action := uint32(unix.SECCOMP_RET_USER_NOTIF)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0 && len(numberings()) > 0
}

// IsFork reports whether a call that a listener was handed makes a process.
func isFork(arch uint32, number int32) bool {
	for _, n := range numberings() {
		number := int64(number &^ x32)
		if arch == n.audit && (number == n.clone || number == n.fork || number == n.vfork) {
			return true
		}
	}
	return false
}

// Counts reports whether shims can be made whose processes ask a listener
// before each process that they make.
func (m *shimMaker) Counts() bool { return m.counting != 0 }
