//go:build linux

package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestContainerFilter holds that under the filter a process can trace nothing and
// give no file a set-ID bit, and that other calls work. It runs itself under the
// filter.
func TestContainerFilter(t *testing.T) {
	const variable = "SANDBOX_TEST_CONTAINER_FILTER"
	if os.Getenv(variable) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestContainerFilter$", "-test.count=1")
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
	b := containerFilter(false)
	prog := unix.SockFprog{Len: uint16(len(b) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&b[0]))}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		t.Fatal(err)
	}
	for name, nr := range map[string]uintptr{"ptrace": unix.SYS_PTRACE, "readv": unix.SYS_PROCESS_VM_READV, "writev": unix.SYS_PROCESS_VM_WRITEV} {
		if _, _, errno := unix.Syscall6(nr, uintptr(os.Getpid()), 0, 0, 0, 0, 0); errno != unix.EPERM {
			t.Errorf("%s gives %v, want %v", name, errno, unix.EPERM)
		}
	}
	if _, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_RDONLY}); err != unix.ENOSYS {
		t.Errorf("openat2 gives %v, want %v", err, unix.ENOSYS)
	}
	name := filepath.Join(t.TempDir(), "file")
	if _, err := unix.Open(name, unix.O_CREAT|unix.O_WRONLY, 0o4755); err != unix.EPERM {
		t.Errorf("a new set-user-ID file gives %v, want %v", err, unix.EPERM)
	}
	if err := os.WriteFile(name, nil, 0o700); err != nil {
		t.Error(err)
	}
	if err := unix.Chmod(name, 0o2755); err != unix.EPERM {
		t.Errorf("the set-group-ID bit gives %v, want %v", err, unix.EPERM)
	}
	if err := unix.Chmod(name, 0o1755); err != nil {
		t.Error(err)
	}
	if _, err := os.ReadFile("/proc/self/status"); err != nil {
		t.Error(err)
	}
}
