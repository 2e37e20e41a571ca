//go:build linux

package probe

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func deviceProbes() map[string]probe {
	return map[string]probe{
		"mknod":        makeNodes,
		"open-devices": openDevices,
		"dev-listing":  listDevices,
	}
}

// makeNodes makes device files and opens them. Making one may be possible
// (under gVisor) when it cannot be opened.
func makeNodes([]string) verdict {
	dir := scratch()
	if dir == "" {
		return held("no writable place for a device file")
	}
	node := func(what string, mode uint32, major, minor uint32) try {
		return try{what, func() error {
			path := dir + "/.escape-node"
			if err := unix.Mknod(path, mode|0o600, int(unix.Mkdev(major, minor))); err != nil {
				return err
			}
			defer unix.Unlink(path)
			return openable(path, unix.O_RDONLY)
		}}
	}
	return each(
		node("memory 1:1", unix.S_IFCHR, 1, 1), node("kernel log 1:11", unix.S_IFCHR, 1, 11),
		node("disk 8:0", unix.S_IFBLK, 8, 0), node("disk 253:0", unix.S_IFBLK, 253, 0), node("loop 7:0", unix.S_IFBLK, 7, 0),
		node("fuse 10:229", unix.S_IFCHR, 10, 229), node("kvm 10:232", unix.S_IFCHR, 10, 232), node("tun 10:200", unix.S_IFCHR, 10, 200),
	)
}

func openDevices([]string) verdict {
	var tries []try
	for _, name := range []string{
		"mem", "kmem", "port", "kmsg", "sda", "vda", "xvda", "nvme0n1", "dm-0", "loop0", "loop-control", "fuse", "kvm",
		"net/tun", "vhost-net", "vhost-vsock", "vsock", "userfaultfd", "mapper/control", "btrfs-control", "snapshot",
		"uinput", "input/event0", "dri/card0", "nvram", "cpu/0/msr", "hwrng", "tty0", "console", "ttyS0", "uhid", "autofs", "core",
	} {
		tries = append(tries, try{"/dev/" + name, func() error { return openable("/dev/"+name, unix.O_RDONLY) }})
	}
	return each(tries...)
}

// listDevices reports every device file but the harmless ones that each
// container has.
func listDevices([]string) verdict {
	harmless := " null zero full random urandom tty ptmx console "
	var others []string
	_ = filepath.WalkDir("/dev", func(path string, _ fs.DirEntry, err error) error {
		// The listing tells the type of what lies under a mount, so ask.
		fi, serr := os.Lstat(path)
		if err != nil || serr != nil || fi.Mode()&os.ModeDevice == 0 {
			return nil
		}
		name := strings.TrimPrefix(path, "/dev/")
		if strings.HasPrefix(name, "pts/") || strings.Contains(harmless, " "+name+" ") {
			return nil
		}
		others = append(others, path)
		return nil
	})
	if len(others) > 0 {
		return broke("devices: ", strings.Join(others, ", "))
	}
	return held("only", harmless)
}
