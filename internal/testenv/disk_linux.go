package testenv

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Disk returns a file system of its own, in memory and of that size ("400k"),
// for tests that fill it. It needs root and the right to mount, and is gone
// with the test.
func Disk(t testing.TB, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		Lack(t, "root", "mounting needs it")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size="+size); err != nil {
		Lack(t, "mount", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}
