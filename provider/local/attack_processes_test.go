//go:build linux

package local_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func processTries() map[string]func([]string) error {
	return map[string]func([]string) error{
		"trace":     func(a []string) error { return worked(unix.PtraceSeize(pid(a))) },
		"attach":    func(a []string) error { return worked(unix.PtraceAttach(pid(a))) },
		"vm-read":   vmRead,
		"vm-write":  vmWrite,
		"mem":       openMemory,
		"take-fd":   takeDescriptor,
		"children":  manyChildren,
		"frames":    writeFrames,
		"inherited": inherited,
		"look-into": lookInto,
	}
}

func ioctlByte(fd int, req uintptr, c *byte) error {
	if _, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), req, uintptr(unsafe.Pointer(c))); no != 0 {
		return no
	}
	return nil
}

func pid(a []string) int { n, _ := strconv.Atoi(strings.TrimSpace(a[0])); return n }

// span returns a piece of memory that another process can write to.
func span(pid int) uintptr {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0x400000
	}
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, " rw-p ") {
			from, _, _ := strings.Cut(line, "-")
			at, _ := strconv.ParseUint(from, 16, 64)
			return uintptr(at)
		}
	}
	return 0x400000
}

func vmRead(a []string) error {
	b := make([]byte, 16)
	_, err := unix.ProcessVMReadv(pid(a), []unix.Iovec{{Base: &b[0], Len: 16}}, []unix.RemoteIovec{{Base: span(pid(a)), Len: 16}}, 0)
	return worked(err)
}

// vmWrite writes a byte at an address that cannot be written, so that it does no
// harm: the kernel says so only to those that may write at all. Of a write of no
// bytes it does not ask whether that is allowed.
func vmWrite(a []string) error {
	b := make([]byte, 1)
	_, err := unix.ProcessVMWritev(pid(a), []unix.Iovec{{Base: &b[0], Len: 1}}, []unix.RemoteIovec{{Base: 0, Len: 1}}, 0)
	if errors.Is(err, unix.EFAULT) {
		err = nil
	}
	return worked(err)
}

func openMemory(a []string) error {
	f, err := os.OpenFile("/proc/"+a[0]+"/mem", os.O_RDWR, 0)
	if err == nil {
		f.Close()
	}
	return worked(err)
}

func takeDescriptor(a []string) error {
	p, err := unix.PidfdOpen(pid(a), 0)
	if err != nil {
		return err
	}
	for n := range 32 {
		fd, gerr := unix.PidfdGetfd(p, n, 0)
		if err = gerr; err == nil {
			_ = dump(fd)
			return worked(nil)
		}
		if !errors.Is(err, unix.EBADF) {
			return err
		}
	}
	return err
}

// lookInto reads what /proc tells of another process.
func lookInto(a []string) error {
	for _, p := range a {
		for _, name := range []string{"environ", "cwd/secret.txt", "maps", "stack", "auxv"} {
			b, err := os.ReadFile("/proc/" + p + "/" + name)
			fmt.Println(p, name, err)
			if err == nil && len(b) > 0 {
				fmt.Println("WORKED", strings.ReplaceAll(string(b[:min(len(b), 2000)]), "\x00", " "))
			}
		}
		fds, _ := filepath.Glob("/proc/" + p + "/fd/*")
		for _, fd := range fds {
			if f, err := os.OpenFile(fd, os.O_WRONLY, 0); err == nil {
				f.Close()
				fmt.Println("WORKED", fd)
			}
		}
	}
	return nil
}

// manyChildren says how many processes it was given, out of those it wanted.
func manyChildren(a []string) error {
	made := 0
	var last error
	for range pid(a) {
		p, _, no := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if no != 0 {
			last = no
			break
		}
		if p == 0 {
			for {
				unix.RawSyscall(unix.SYS_PAUSE, 0, 0, 0)
			}
		}
		made++
	}
	fmt.Println("made", made, last)
	if last == nil {
		fmt.Println("WORKED: there was no end")
	}
	_ = unix.Kill(0, unix.SIGKILL)
	return last
}

// writeFrames sends what could be a message of the guest's protocol, and
// noise, to every descriptor that it can get hold of.
func writeFrames([]string) error {
	noise := append(bytes.Repeat([]byte{0, 0, 0, 4, 1}, 20), bytes.Repeat([]byte{0xff}, 100)...)
	all, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, p := range all {
		if strings.HasPrefix(p, fmt.Sprintf("/proc/%d/", os.Getpid())) {
			continue
		}
		f, err := os.OpenFile(p, os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		_, _ = f.Write(noise)
		f.Close()
	}
	for fd := 3; fd < 64; fd++ {
		_, _ = unix.Write(fd, noise)
	}
	return nil
}

// inherited lists the descriptors that a command begins with, and reads the
// strangers among them. The Go runtime has its own from 3 on, so the shell
// says what there is.
func inherited(a []string) error {
	for _, name := range a {
		n, err := strconv.Atoi(name)
		if err != nil || n <= 2 {
			continue
		}
		fmt.Println("WORKED: descriptor", n)
		_, _ = io.Copy(os.Stdout, io.LimitReader(os.NewFile(uintptr(n), name), 4096))
	}
	return nil
}
