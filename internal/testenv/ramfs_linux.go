package testenv

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// CoarseTimes returns an empty folder on a file system whose files carry the
// time of the kernel's last tick, so that many changes carry one. It needs root
// and is taken away after the test.
func CoarseTimes(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		Lack(t, "root", "mounting needs it")
	}
	dir := t.TempDir()
	if err := unix.Mount("ramfs", dir, "ramfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700"); err != nil {
		Lack(t, "mount", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}
