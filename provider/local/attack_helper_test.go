//go:build linux

package local_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// attemptMain is this binary inside a sandbox: one attempt that takes more than
// a shell. It prints WORKED where the kernel let it do what has no effect that
// could be seen from outside, and the bytes that it could read.
func attemptMain(args []string) int {
	tries := map[string]func(args []string) error{}
	for _, part := range []map[string]func([]string) error{fileTries(), mountTries(), socketTries(), processTries()} {
		maps.Copy(tries, part)
	}
	if len(args) > 2 && args[0] == "each" { // args[1] with each of the further ones: one start of this program in place of many
		status := 0
		for _, on := range args[2:] {
			status = max(status, attemptOne(tries, []string{args[1], on}))
		}
		return status
	}
	return attemptOne(tries, args)
}

func attemptOne(tries map[string]func([]string) error, args []string) int {
	if len(args) == 0 || tries[args[0]] == nil {
		fmt.Println("no such attempt")
		return 2
	}
	if err := tries[args[0]](args[1:]); err != nil {
		fmt.Printf("%s: %v\n", args[0], err)
		return 1
	}
	return 0
}

// worked reports the success of what has no visible effect.
func worked(err error, what ...any) error {
	if err == nil {
		fmt.Println(append([]any{"WORKED"}, what...)...)
	}
	return err
}

func fileTries() map[string]func([]string) error {
	return map[string]func([]string) error{
		"reopen":     reopen,
		"openat2":    openat2,
		"sendfile":   sendfile,
		"splice":     splice,
		"copy-range": copyRange,
		"map":        mapFile,
		"handle":     handle,
		"exchange": func(a []string) error {
			return unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE)
		},
		"link-descriptor": linkDescriptor,
		"truncate":        func(a []string) error { return unix.Truncate(a[0], 0) },
		"fallocate":       punch,
		"times":           func(a []string) error { return unix.Utimes(a[0], []unix.Timeval{{Sec: 1}, {Sec: 1}}) },
		"write-mapped":    writeMapped,
		"reopen-write":    reopenWrite,
		"uring-read":      uringRead,
		"xattr":           func(a []string) error { return unix.Setxattr(a[0], "user.attack", []byte("x"), 0) },
		"tmpfile-link":    tmpfileLink,
		"mknod":           func(a []string) error { return worked(unix.Mknod(a[0], unix.S_IFCHR|0o666, int(unix.Mkdev(1, 1)))) },
		"swap-forever":    swapForever,
		"lease":           lease,
	}
}

// lease takes a lease on a file that it opens for reading alone, which fails
// whoever looks at the file on the host and does not want to wait.
func lease(a []string) error {
	fd, err := unix.Open(a[0], unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
	return worked(err)
}

// dump prints what a descriptor holds.
func dump(fd int) error {
	b := make([]byte, 4096)
	n, err := unix.Pread(fd, b, 0)
	if n > 0 {
		os.Stdout.Write(b[:n])
	}
	return err
}

func reopen(a []string) error {
	fd, err := unix.Open(a[0], unix.O_PATH, 0)
	if err != nil {
		return err
	}
	again, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY, 0)
	if err != nil {
		again, err = unix.Openat(fd, "", unix.O_RDONLY, 0)
	}
	if err != nil {
		return err
	}
	return dump(again)
}

func openat2(a []string) error {
	var first error
	for _, resolve := range []uint64{0, unix.RESOLVE_BENEATH, unix.RESOLVE_IN_ROOT, unix.RESOLVE_NO_XDEV} {
		fd, err := unix.Openat2(unix.AT_FDCWD, a[0], &unix.OpenHow{Flags: unix.O_RDONLY, Resolve: resolve})
		if err != nil {
			first = errors.Join(first, err)
			continue
		}
		_ = dump(fd)
	}
	return first
}

func sendfile(a []string) error {
	fd, err := unix.Open(a[0], unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	_, err = unix.Sendfile(1, fd, nil, 4096)
	return err
}

func splice(a []string) error {
	fd, err := unix.Open(a[0], unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	p := make([]int, 2)
	if err := unix.Pipe(p); err != nil {
		return err
	}
	n, err := unix.Splice(fd, nil, p[1], nil, 4096, 0)
	if err != nil {
		return err
	}
	_, err = io.CopyN(os.Stdout, os.NewFile(uintptr(p[0]), "pipe"), n)
	return err
}

func copyRange(a []string) error {
	from, err := unix.Open(a[0], unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	to, err := unix.Open(a[1], unix.O_CREAT|unix.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = unix.CopyFileRange(from, nil, to, nil, 4096, 0)
	return err
}

func mapFile(a []string) error {
	fd, err := unix.Open(a[0], unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	b, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(b[:32])
	return err
}

// handle opens a file by its number: the first names the file system, and
// the one after it, if any, what is wanted.
func handle(a []string) error {
	at, err := unix.Open(a[0], unix.O_PATH, 0)
	if err != nil {
		return err
	}
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, a[len(a)-1], 0)
	if err != nil {
		return err
	}
	fd, err := unix.OpenByHandleAt(at, h, unix.O_RDONLY)
	if err != nil {
		dir, derr := unix.Open(".", unix.O_RDONLY, 0)
		if derr != nil {
			return err
		}
		if fd, err = unix.OpenByHandleAt(dir, h, unix.O_RDONLY); err != nil {
			return err
		}
	}
	return dump(fd)
}

func linkDescriptor(a []string) error {
	fd, err := unix.Open(a[0], unix.O_PATH, 0)
	if err != nil {
		return err
	}
	if err := unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, a[1], unix.AT_SYMLINK_FOLLOW); err == nil {
		return nil
	}
	return unix.Linkat(fd, "", unix.AT_FDCWD, a[1], unix.AT_EMPTY_PATH)
}

func punch(a []string) error {
	fd, err := unix.Open(a[0], unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096)
}

func writeMapped(a []string) error {
	fd, err := unix.Open(a[0], unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	b, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	copy(b, "mapped")
	return unix.Msync(b, unix.MS_SYNC)
}

// reopenWrite opens for reading, or as a place, and then for writing through
// /proc.
func reopenWrite(a []string) error {
	fd, err := unix.Open(a[0], unix.O_RDONLY, 0)
	if err != nil {
		if fd, err = unix.Open(a[0], unix.O_PATH, 0); err != nil {
			return err
		}
	}
	again, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_WRONLY|unix.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(again, []byte("reopened"))
	return err
}

// tmpfileLink makes a file without a name and gives it one.
func tmpfileLink(a []string) error {
	fd, err := unix.Open(a[0], unix.O_TMPFILE|unix.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, _ = unix.Write(fd, []byte("made"))
	return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, a[1], unix.AT_SYMLINK_FOLLOW)
}

// swapForever exchanges a folder with a link until it is killed, the file "go"
// is there, or the folder is not, as after the end of the test.
func swapForever(a []string) error {
	fmt.Println("ready")
	for {
		if err := unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE); err == unix.ENOENT {
			return nil
		}
		if _, err := os.Lstat("go"); err == nil {
			return nil
		}
	}
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
