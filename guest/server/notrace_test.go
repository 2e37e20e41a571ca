//go:build linux

package server

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestNoTracing holds that under the filter a process can trace nothing, and
// that all else works. It runs itself under the filter.
func TestNoTracing(t *testing.T) {
	const variable = "SANDBOX_TEST_NO_TRACING"
	if os.Getenv(variable) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestNoTracing$", "-test.count=1")
		cmd.Env = append(os.Environ(), variable+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	b := noTracing()
	prog := unix.SockFprog{Len: uint16(len(b) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&b[0]))}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		t.Fatal(err)
	}
	for name, nr := range map[string]uintptr{"ptrace": unix.SYS_PTRACE, "readv": unix.SYS_PROCESS_VM_READV, "writev": unix.SYS_PROCESS_VM_WRITEV} {
		if _, _, errno := unix.Syscall6(nr, uintptr(os.Getpid()), 0, 0, 0, 0, 0); errno != unix.EPERM {
			t.Errorf("%s gives %v, want %v", name, errno, unix.EPERM)
		}
	}
	if _, err := os.ReadFile("/proc/self/status"); err != nil {
		t.Error(err)
	}
}
