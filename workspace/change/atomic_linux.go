package change

import "golang.org/x/sys/unix"

// exchange swaps two names of a folder in one step.
func exchange(dir int, a, b string) error {
	return unix.Renameat2(dir, a, dir, b, unix.RENAME_EXCHANGE)
}

// noReplace renames a to b unless there is a b (EEXIST).
func noReplace(dir int, a, b string) error {
	return unix.Renameat2(dir, a, dir, b, unix.RENAME_NOREPLACE)
}

// canSyncAll says that syncAll works.
const canSyncAll = true

// syncAll writes all that the file system of the open folder has to write to
// the disk.
func syncAll(dir int) error { return unix.Syncfs(dir) }
