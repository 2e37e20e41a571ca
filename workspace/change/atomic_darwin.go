package change

import "golang.org/x/sys/unix"

// exchange swaps two names of a folder in one step.
func exchange(dir int, a, b string) error {
	return unix.RenameatxNp(dir, a, dir, b, unix.RENAME_SWAP)
}

// noReplace renames a to b unless there is a b (EEXIST).
func noReplace(dir int, a, b string) error {
	return unix.RenameatxNp(dir, a, dir, b, unix.RENAME_EXCL)
}

// canSyncAll says that syncAll works.
const canSyncAll = false

// syncAll cannot be had here.
func syncAll(int) error { return unix.ENOSYS }
