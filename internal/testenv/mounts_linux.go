package testenv

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// disturbedFor bounds how long others may get in the way of a test.
const disturbedFor = time.Minute

// WithoutMounts reports whether try does. A try that fails while the mounts
// of the host change, as they do whenever a container starts or ends beside
// the test, says nothing about what is tested, and is made again. It is for
// tests of what every mount makes void.
func WithoutMounts(t testing.TB, try func() bool) bool {
	t.Helper()
	for deadline := time.Now().Add(disturbedFor); ; {
		mounts, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ok := try()
		changes := []unix.PollFd{{Fd: int32(mounts), Events: unix.POLLPRI}}
		_, err = unix.Poll(changes, 0)
		unix.Close(mounts)
		if err != nil {
			t.Fatal(err)
		}
		if ok || changes[0].Revents == 0 || time.Now().After(deadline) {
			return ok
		}
		t.Log("the host's mounts have changed: once more")
	}
}
