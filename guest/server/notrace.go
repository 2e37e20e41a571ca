//go:build linux

package server

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// noTracing returns the seccomp filter that refuses ptrace(2) and its relatives
// and allows every other call. The engine's own filter refuses the numbers of
// other architectures.
func noTracing() []byte {
	calls := []uint32{unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV}
	prog := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
	}
	for i, nr := range calls {
		prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: uint8(len(calls) - i), K: nr})
	}
	prog = append(prog,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: seccompAllow},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: seccompErrno | uint32(unix.EPERM)},
	)
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
