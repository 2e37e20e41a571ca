package testenv

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// UnmountBelow unmounts, at the end of the test, what is mounted below dir then:
// workspaces with checkpoints stay mounted as long as they exist. A test calls it
// after it made dir.
func UnmountBelow(t testing.TB, dir string) {
	t.Cleanup(func() {
		if err := Unmount(dir); err != nil {
			t.Error(err)
		}
	})
}

// Unmount unmounts what is mounted below dir.
func Unmount(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for _, line := range slices.Backward(strings.Split(string(mounts), "\n")) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			if err := unix.Unmount(f[4], unix.MNT_DETACH); err != nil && err != unix.EINVAL { // EINVAL: it went meanwhile
				return err
			}
		}
	}
	return nil
}
