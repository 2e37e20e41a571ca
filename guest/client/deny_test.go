package client_test

import (
	"os/exec"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denyEnv names what the shim takes away from the guest and all that it
// starts, see denials.
const denyEnv = "GUEST_TEST_DENY"

func withEnv(entry string) guestOption {
	return func(c *exec.Cmd) { c.Env = append(c.Env, entry) }
}

// withoutOpenat2 makes the guest live where there is no openat2.
func withoutOpenat2() guestOption { return withEnv(denyEnv + "=openat2") }

// likeGVisor makes it live where there are no files without a name either.
func likeGVisor() guestOption { return withEnv(denyEnv + "=openat2,tmpfile") }

// Offsets in struct seccomp_data.
const (
	callNumber    = 0
	thirdArgument = 16 + 2*8 // its low half
)

// tmpfile is the one bit of O_TMPFILE that is its own.
const tmpfile = unix.O_TMPFILE &^ unix.O_DIRECTORY

// denials are filters, each of which goes on at its end with what it has
// loaded as the number of the system call.
func denials() map[string][]unix.SockFilter {
	load := unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callNumber}
	fail := func(errno syscall.Errno) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)}
	}
	is := func(nr uint32, otherwise uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: otherwise}
	}
	return map[string][]unix.SockFilter{
		"landlock": {load, is(unix.SYS_LANDLOCK_CREATE_RULESET, 1), fail(unix.ENOSYS)},
		"openat2":  {load, is(unix.SYS_OPENAT2, 1), fail(unix.ENOSYS)},
		"tmpfile": {
			load, is(unix.SYS_OPENAT, 3),
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: thirdArgument},
			{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: tmpfile, Jf: 1},
			fail(unix.EOPNOTSUPP),
		},
	}
}

// deny installs the filters that are named, for the calling thread and what
// it executes.
func deny(names string) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	for name := range strings.SplitSeq(names, ",") {
		program := append(denials()[name], unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
		filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
		if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0); err != nil {
			return err
		}
	}
	return nil
}
