//go:build linux

// Package files does file operations below the mounts of a sandbox, by
// descriptors.
//
// Callers may do what the guest's user may do, and user code is that same user,
// running beside the guest and free to rename, replace and link what it likes
// at any moment. Three rules make that harmless:
//
//   - A [Root] is a descriptor of the mount. Paths are resolved below it and
//     never leave it: by the kernel (openat2 with RESOLVE_BENEATH and
//     RESOLVE_NO_MAGICLINKS), or name by name where the kernel has no
//     openat2 or where a link names its target by an absolute path, which
//     openat2 refuses even when it leads back into the mount.
//   - A change goes through the descriptor of the folder and a single name,
//     and never follows a link that is the name: whatever the folder is
//     called by then, and whatever the name is.
//   - What is opened is looked at after it was opened. Opening never waits
//     for the other end of a pipe.
//
// Links are followed as commands follow them, so that files and commands
// agree; where a link leads out, the operation is refused. In a view without
// links none is followed (RESOLVE_NO_SYMLINKS, or a walk that ends at the
// first).
//
// Nothing here waits for a client. Functions that may take long call a
// pause function between steps of bounded length.
package files
