package client_test

import (
	"errors"
	"sort"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ways are calls that would change the file or folder args[0], each by itself.
func ways(at string) map[string]func() error {
	dir, _ := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	raw := func(nr uintptr, args ...uintptr) error {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		return errno
	}
	// Memory that the runtime neither moves nor frees: a path, a name, and
	// nothing.
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		panic(err)
	}
	copy(page, at)
	copy(page[1024:], "user.x")
	p := uintptr(unsafe.Pointer(&page[0]))
	attr, nothing := p+1024, p+2048
	cwd := unix.AT_FDCWD
	here := uintptr(cwd)
	own := "/tmp/own"
	all := map[string]func() error{
		"openat":     func() error { return raw(unix.SYS_OPENAT, here, p, unix.O_WRONLY) },
		"append":     func() error { return raw(unix.SYS_OPENAT, here, p, unix.O_RDWR|unix.O_APPEND) },
		"truncating": func() error { return raw(unix.SYS_OPENAT, here, p, unix.O_RDONLY|unix.O_TRUNC) },
		"by folder": func() error {
			_, err := unix.Openat(dir, at[1:], unix.O_WRONLY, 0)
			return err
		},
		"truncate":     func() error { return unix.Truncate(at, 0) },
		"unlinkat":     func() error { return unix.Unlinkat(cwd, at, 0) },
		"renameat2":    func() error { return unix.Renameat2(cwd, at, cwd, "/tmp/moved", 0) },
		"renamed over": func() error { return unix.Rename(own, at) },
		"fchmodat":     func() error { return unix.Fchmodat(cwd, at, 0o777, 0) },
		"fchmodat2":    func() error { return raw(unix.SYS_FCHMODAT2, here, p, 0o777, 0) },
		"fchownat":     func() error { return unix.Fchownat(cwd, at, 1000, 1000, 0) },
		"utimensat":    func() error { return raw(unix.SYS_UTIMENSAT, here, p, 0, 0) },
		"setxattr":     func() error { return raw(unix.SYS_SETXATTR, p, attr, attr, 1, 0) },
		"lsetxattr":    func() error { return raw(unix.SYS_LSETXATTR, p, attr, attr, 1, 0) },
		"removexattr":  func() error { return raw(unix.SYS_REMOVEXATTR, p, attr) },
		"setxattrat":   func() error { return raw(unix.SYS_SETXATTRAT, here, p, 0, attr, nothing, 16) },
	}
	for call, way := range olderWays(p) {
		all[call] = way
	}
	return all
}

// makings are calls that would make args[0].
func makings(at string) map[string]func() error {
	cwd := unix.AT_FDCWD
	return map[string]func() error{
		"made by openat": func() error {
			_, err := unix.Openat(cwd, at, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
			return err
		},
		"mkdirat":   func() error { return unix.Mkdirat(cwd, at, 0o700) },
		"mknodat":   func() error { return unix.Mknodat(cwd, at, unix.S_IFIFO|0o600, 0) },
		"symlinkat": func() error { return unix.Symlinkat("x", cwd, at) },
		"linkat":    func() error { return unix.Linkat(cwd, "/tmp/own", cwd, at, 0) },
	}
}

// probeWays tries one way, or tells which there are.
func probeWays(args []string) {
	fd, err := unix.Open("/tmp/own", unix.O_WRONLY|unix.O_CREAT, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	all := ways(args[0])
	if len(args) > 2 {
		all = makings(args[0])
	}
	if args[1] == "list" {
		var names []string
		for name := range all {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			tell(name, 0)
		}
		return
	}
	err = all[args[1]]()
	var errno syscall.Errno
	errors.As(err, &errno)
	tell(args[1], errno)
}
