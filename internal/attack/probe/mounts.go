//go:build linux

package probe

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

func mountProbes() map[string]probe {
	return map[string]probe{
		"mount":     mountNew,
		"mount-api": mountAPI,
		"remount":   remount,
		"umount":    umount,
		"chroot":    changeRoot,
		"handles":   fileHandles,
	}
}

func mountNew([]string) verdict {
	dir := scratch()
	m := func(source, target, kind string, flags uintptr) func() error {
		return func() error { return unix.Mount(source, target, kind, flags, "") }
	}
	return each(
		try{"tmpfs", m("none", dir, "tmpfs", 0)},
		try{"proc", m("proc", dir, "proc", 0)},
		try{"sysfs", m("sysfs", dir, "sysfs", 0)},
		try{"cgroup", m("cgroup", dir, "cgroup", 0)},
		try{"bind /", m("/", dir, "", unix.MS_BIND|unix.MS_REC)},
		try{"move", m("/tmp", "/mnt", "", unix.MS_MOVE)},
		try{"share /", m("", "/", "", unix.MS_SHARED|unix.MS_REC)},
	)
}

// mountAPI tries the newer calls, which a filter that knows mount(2) only
// lets through.
func mountAPI([]string) verdict {
	return each(
		try{"fsopen", func() error { return opened(unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)) }},
		try{"open_tree clone", func() error {
			return opened(unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC))
		}},
		try{"move_mount", func() error { return unix.MoveMount(unix.AT_FDCWD, "/tmp", unix.AT_FDCWD, "/mnt", 0) }},
		try{"mount_setattr", func() error {
			return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
		}},
		try{"fspick", func() error { return opened(unix.Fspick(unix.AT_FDCWD, "/", unix.FSPICK_CLOEXEC)) }},
	)
}

func opened(fd int, err error) error {
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func remount([]string) verdict {
	rw := func(target string) try {
		return try{target, func() error {
			return unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND, "")
		}}
	}
	tries := []try{rw("/"), rw("/.sandbox/bin"), rw("/etc/passwd"), rw("/proc/sys"), rw("/sys"), rw("/proc/sysrq-trigger"), rw("/tmp")}
	tries = append(tries, try{"/ with its file system", func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT, "") }})
	return each(tries...)
}

func umount([]string) verdict {
	var tries []try
	for _, target := range []string{"/etc/passwd", "/proc/kcore", "/proc/sys", "/proc/sysrq-trigger", "/sys", "/sys/firmware", "/workspace", "/.sandbox/bin"} {
		tries = append(tries, try{target, func() error { return unix.Unmount(target, unix.MNT_DETACH) }})
	}
	return each(tries...)
}

func changeRoot([]string) verdict {
	dir := scratch()
	return each(
		try{"pivot_root", func() error { return unix.PivotRoot(dir, dir) }},
		try{"chroot", chrootTo(dir)},
		try{"chroot /proc/1/root", chrootTo("/proc/1/root")},
	)
}

// chrootTo changes the root of a child, not of this process.
func chrootTo(dir string) func() error {
	path := append([]byte(dir), 0)
	return func() error {
		err := inFork(unix.SYS_CHROOT, uintptr(unsafe.Pointer(unsafe.SliceData(path))), 0)
		runtime.KeepAlive(path)
		return err
	}
}

// fileHandles tries to open files of the host by their number, past the
// mount tree.
func fileHandles([]string) verdict {
	return each(try{"open_by_handle_at", func() error {
		root, err := unix.Open("/etc/hostname", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			if root, err = unix.Open("/", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
				return err
			}
		}
		defer unix.Close(root)
		// Inode 2 is the root folder of ext2, ext3 and ext4.
		handle := make([]byte, 8)
		handle[0] = 2
		h := unix.NewFileHandle(1, handle)
		return opened(unix.OpenByHandleAt(root, h, unix.O_RDONLY))
	}}, try{"name_to_handle_at", func() error {
		_, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/", 0)
		return err
	}}, try{"quotactl", quota})
}

// quota asks for the disk quota of our own user on the first disk.
func quota() error {
	device := []byte("/dev/sda\x00")
	answer := make([]byte, 256)
	const getQuota = 0x80000700 // Q_GETQUOTA for users
	_, _, no := unix.Syscall6(unix.SYS_QUOTACTL, getQuota, uintptr(unsafe.Pointer(&device[0])),
		uintptr(os.Getuid()), uintptr(unsafe.Pointer(&answer[0])), 0, 0)
	return errnoOf(no)
}
