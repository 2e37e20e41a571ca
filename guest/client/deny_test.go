package client_test

import (
	"os/exec"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denyEnv names the system calls that the shim makes fail with ENOSYS in the
// guest and all that it starts.
const denyEnv = "GUEST_TEST_DENY"

func withEnv(entry string) guestOption {
	return func(c *exec.Cmd) { c.Env = append(c.Env, entry) }
}

// deny installs a filter that answers the system calls with ENOSYS, for the
// calling thread and what it executes.
func deny(calls []uint32) error {
	const loadNumber = 0 // offset of the number in struct seccomp_data
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: loadNumber}}
	for _, nr := range calls {
		program = append(program,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)})
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0)
}
