//go:build linux

package server

import (
	"encoding/binary"
	"runtime"

	"github.com/bulkhead-dev/sandbox/provider/seccomp"
	"golang.org/x/sys/unix"
)

// containerFilter returns the filter of commands in a container. For processors
// that package bpf does not know it refuses openat2(2) and, without trace,
// ptrace(2) and its relatives; the rest, and the numbers of other architectures,
// are left to the engine's filter there.
func containerFilter(trace bool) []byte {
	if arch, err := seccomp.ArchOf(runtime.GOARCH); err == nil {
		return seccomp.Container(arch, seccomp.Options{Trace: trace}).Bytes()
	}
	answers := map[uint32]unix.Errno{unix.SYS_OPENAT2: unix.ENOSYS}
	if !trace {
		answers[unix.SYS_PTRACE] = unix.EPERM
		answers[unix.SYS_PROCESS_VM_READV] = unix.EPERM
		answers[unix.SYS_PROCESS_VM_WRITEV] = unix.EPERM
	}
	prog := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
	}
	for nr, errno := range answers {
		prog = append(prog,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: nr},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: seccompErrno | uint32(errno)},
		)
	}
	prog = append(prog, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: seccompAllow})
	var b []byte
	for _, f := range prog {
		b = binary.NativeEndian.AppendUint16(b, f.Code)
		b = append(b, f.Jt, f.Jf)
		b = binary.NativeEndian.AppendUint32(b, f.K)
	}
	return b
}

// Answers of a filter, SECCOMP_RET_ALLOW and SECCOMP_RET_ERRNO.
const (
	seccompAllow = 0x7fff0000
	seccompErrno = 0x00050000
)
