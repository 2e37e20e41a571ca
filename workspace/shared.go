package workspace

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OnSharedDisk reports whether a folder of the host lies on a file system that
// holds other data too. A workspace with a quota is a file system of its own,
// so when it has no room the workspace is full; on a shared disk the disk of
// the machine is full. OnSharedDisk returns false where it cannot find out.
func OnSharedDisk(folder string) bool {
	var own, above unix.Stat_t
	return unix.Lstat(folder, &own) == nil && unix.Lstat(filepath.Dir(folder), &above) == nil && own.Dev == above.Dev
}
