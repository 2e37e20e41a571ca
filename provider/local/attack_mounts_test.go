//go:build linux

package local_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mountTries change what the file system looks like, or make namespaces in
// which that would be allowed.
func mountTries() map[string]func([]string) error {
	return map[string]func([]string) error{
		"bind":         func(a []string) error { return worked(unix.Mount(a[0], a[1], "", unix.MS_BIND, "")) },
		"mount":        func(a []string) error { return worked(unix.Mount(a[0], a[1], a[0], 0, "")) },
		"overlay":      overlay,
		"move":         func(a []string) error { return worked(unix.Mount(a[0], a[1], "", unix.MS_MOVE, "")) },
		"remount":      func(a []string) error { return worked(unix.Mount("", a[0], "", unix.MS_REMOUNT|unix.MS_BIND, "")) },
		"propagate":    func(a []string) error { return worked(unix.Mount("", a[0], "", unix.MS_SHARED|unix.MS_REC, "")) },
		"umount":       func(a []string) error { return worked(unix.Unmount(a[0], 0)) },
		"umount-lazy":  func(a []string) error { return worked(unix.Unmount(a[0], unix.MNT_DETACH)) },
		"pivot-root":   func(a []string) error { return worked(unix.PivotRoot(a[0], a[0])) },
		"chroot":       func(a []string) error { return worked(unix.Chroot(a[0])) },
		"fsopen":       newMount,
		"open-tree":    openTree,
		"mount-attr":   mountAttr,
		"statmount":    func([]string) error { return worked(call(457, 0, 0, 0, 0)) },
		"unshare":      func(a []string) error { return unshared(a[0]) },
		"clone":        func(a []string) error { return cloned(flag(a[0])) },
		"clone3":       func(a []string) error { return cloned3(flag(a[0])) },
		"setns":        enter,
		"nested-mount": nested,
	}
}

func call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, no := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); no != 0 {
		return no
	}
	return nil
}

func overlay(a []string) error {
	for _, d := range []string{"up", "work"} {
		_ = os.MkdirAll(a[1]+"/"+d, 0o755)
	}
	return worked(unix.Mount("overlay", a[0], "overlay", 0, "lowerdir="+a[0]+",upperdir="+a[1]+"/up,workdir="+a[1]+"/work"))
}

func newMount(a []string) error {
	fs, err := unix.Fsopen("tmpfs", 0)
	if err != nil {
		return err
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return err
	}
	m, err := unix.Fsmount(fs, 0, 0)
	if err != nil {
		return err
	}
	return worked(unix.MoveMount(m, "", unix.AT_FDCWD, a[0], unix.MOVE_MOUNT_F_EMPTY_PATH))
}

// openTree takes a copy of a tree, with what is mounted in it left behind.
func openTree(a []string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, a[0], unix.OPEN_TREE_CLONE)
	if err != nil {
		return err
	}
	fmt.Println("WORKED: a tree of its own")
	f, err := unix.Openat(fd, a[1], unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return dump(f)
}

func mountAttr(a []string) error {
	return worked(unix.MountSetattr(unix.AT_FDCWD, a[0], 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}))
}

func flag(name string) uintptr {
	return map[string]uintptr{
		"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET, "time": unix.CLONE_NEWTIME,
		"cgroup": unix.CLONE_NEWCGROUP, "user+mount": unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
	}[name]
}

// unshared leaves a namespace in a process of its own, as a Go program has
// several threads: clone has the same effect for who comes after.
func unshared(name string) error {
	runtime.LockOSThread()
	if name == "user" || name == "user+mount" {
		return cloned(flag(name))
	}
	return worked(unix.Unshare(int(flag(name))))
}

// cloned makes a process in new namespaces, which ends at once.
func cloned(flags uintptr) error {
	return ended(child(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0))
}

func cloned3(flags uintptr) error {
	args := &[8]uint64{0: uint64(flags), 4: uint64(unix.SIGCHLD)}
	defer runtime.KeepAlive(args)
	return ended(child(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args)))
}

// child makes a process that does nothing but end. It has one thread of a
// program that expects several, so it must not even begin another function:
// that may wait for one of the others.
//
//go:norace
//go:nosplit
func child(nr, a, b uintptr) (pid uintptr, no unix.Errno) {
	pid, _, no = unix.RawSyscall6(nr, a, b, 0, 0, 0, 0)
	for pid == 0 && no == 0 {
		unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
	return pid, no
}

func ended(pid uintptr, no unix.Errno) error {
	if no != 0 {
		return no
	}
	_, err := unix.Wait4(int(pid), nil, 0, nil)
	return worked(err)
}

func enter(a []string) error {
	var all error
	for _, ns := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		for _, pid := range []string{"1", "self"} {
			fd, err := unix.Open("/proc/"+pid+"/ns/"+ns, unix.O_RDONLY, 0)
			if err == nil {
				err = worked(unix.Setns(fd, 0), ns)
			}
			all = errors.Join(all, err)
		}
	}
	return all
}

// nested is the whole way: a user namespace in which one is root, a mount
// namespace in it, and the mask taken off.
func nested(a []string) error {
	runtime.LockOSThread()
	if err := call(unix.SYS_UNSHARE, unix.CLONE_NEWNS); err != nil {
		return err
	}
	fmt.Println("WORKED: a mount namespace")
	for _, p := range a {
		_ = unix.Unmount(p, unix.MNT_DETACH)
		if fd, err := unix.Open(p, unix.O_RDONLY, 0); err == nil {
			_ = dump(fd)
		}
	}
	return nil
}
