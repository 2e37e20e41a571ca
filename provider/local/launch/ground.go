//go:build linux

package launch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ground are the folders that bubblewrap needs on its way from the host into
// an instance: the system's programs and libraries, the list of the latter, and
// what it takes processes and devices from. One that is a link or missing
// leads into another.
func ground() []string {
	return []string{"/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/usr"}
}

// onGround reports whether program is one of the system's, which need nothing
// but [ground]. One that was put elsewhere, such as those of Nix, may.
func onGround(program string) bool {
	place, err := filepath.EvalSymlinks(program)
	return err == nil && slices.ContainsFunc(ground(), func(dir string) bool { return strings.HasPrefix(place, dir+"/") })
}

// leaveMounts takes the mounts of the host away from the mount namespace of
// the calling thread, which no other goroutine may use and in which nothing is
// shared: what is left are the file system of the root and [ground].
//
// A host has dozens of mounts, and hundreds where containers run. bubblewrap
// reads the list of all of them for each folder that it shows, and the kernel
// copies them for each namespace.
func leaveMounts() error {
	root, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("open_tree", err)
	}
	defer unix.Close(root)
	// Both are opened before anything covers them.
	trees := map[string]int{}
	defer func() {
		for _, tree := range trees {
			unix.Close(tree)
		}
	}()
	for _, dir := range ground() {
		tree, err := openFolder(dir)
		if err != nil {
			return err
		}
		if tree >= 0 {
			trees[dir] = tree
		}
	}
	if err := unix.MoveMount(root, "", unix.AT_FDCWD, Stage, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return os.NewSyscallError("move_mount", err)
	}
	for dir, tree := range trees {
		if err := unix.MoveMount(tree, "", root, strings.TrimPrefix(dir, "/"), unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return &os.PathError{Op: "move_mount", Path: dir, Err: err}
		}
	}
	return enter(root)
}

// openFolder takes what is mounted in dir, which is no link, and below; a
// negative tree says that there is no such folder.
func openFolder(dir string) (tree int, err error) {
	var st unix.Stat_t
	err = unix.Lstat(dir, &st)
	if errors.Is(err, unix.ENOENT) || err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return -1, nil
	}
	if err != nil {
		return -1, &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	tree, err = unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, &os.PathError{Op: "open_tree", Path: dir, Err: err}
	}
	return tree, nil
}

// enter makes root, a mount, the one of the thread's mount namespace, and
// takes all others away.
func enter(root int) error {
	if err := unix.Fchdir(root); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	// The old root comes to lie on the new one.
	if err := unix.PivotRoot(".", "."); err != nil {
		return os.NewSyscallError("pivot_root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return os.NewSyscallError("umount", err)
	}
	return os.NewSyscallError("chdir", unix.Chdir("/"))
}
