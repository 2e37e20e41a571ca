package workspace

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OnSharedDisk reports whether a folder of the host lies on a file system with
// others. A workspace with a quota is a file system of its own, so one that has
// no room is full itself; where the disk is shared it is the machine's that is.
// What cannot be told is false.
func OnSharedDisk(folder string) bool {
	var own, above unix.Stat_t
	return unix.Lstat(folder, &own) == nil && unix.Lstat(filepath.Dir(folder), &above) == nil && own.Dev == above.Dev
}
