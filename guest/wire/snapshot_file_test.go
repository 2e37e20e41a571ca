//go:build linux

package wire

import (
	"os"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

func snapshotMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSealed(t *testing.T) {
	f, err := Sealed([]byte("state"))
	snapshotMust(t, err)
	defer f.Close()
	b := make([]byte, 10)
	if n, _ := f.ReadAt(b, 0); string(b[:n]) != "state" {
		t.Errorf("got %q", b[:n])
	}
	for name, err := range map[string]error{
		"write": second(f.WriteAt([]byte("x"), 0)), "grow": f.Truncate(100), "shrink": f.Truncate(1),
		"writable mapping": second(unix.Mmap(int(f.Fd()), 0, 5, unix.PROT_WRITE, unix.MAP_SHARED)),
	} {
		if err == nil {
			t.Errorf("%s: done to a sealed file", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestOpen holds what is taken for a state: nothing but small files in
// memory.
func TestOpen(t *testing.T) {
	memory := func(size int64) int {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
		snapshotMust(t, err)
		snapshotMust(t, unix.Ftruncate(fd, size))
		return fd
	}
	at := func(path string, flags int) int {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		snapshotMust(t, err)
		return fd
	}
	disk, err := os.CreateTemp(testenv.DiskDir(t), "")
	snapshotMust(t, err)
	var pipe [2]int
	snapshotMust(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	snapshotMust(t, err)
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	snapshotMust(t, err)
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	snapshotMust(t, err)
	for name, tt := range map[string]struct {
		fd   int
		want bool
	}{
		"empty": {memory(0), true}, "just small enough": {memory(1000), true}, "too large": {memory(1001), false},
		"as large as it gets": {memory(1 << 50), false}, "on a disk": {at(disk.Name(), unix.O_RDWR), false},
		"folder": {at("/", unix.O_RDONLY), false}, "path": {at("/", unix.O_PATH), false},
		"null": {at("/dev/null", unix.O_RDWR), false}, "zero": {at("/dev/zero", unix.O_RDWR), false},
		"process file": {at("/proc/self/status", unix.O_RDONLY), false}, "pipe": {pipe[0], false}, "pipe, other end": {pipe[1], false},
		"socket": {socket, false}, "event": {event, false}, "poll": {poll, false}, "closed": {-1, false},
	} {
		f, err := Open(tt.fd, 1000)
		if (err == nil) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
		if f != nil {
			f.Close()
		} else if tt.fd >= 0 {
			snapshotMust(t, unix.Close(tt.fd))
		}
	}
}
