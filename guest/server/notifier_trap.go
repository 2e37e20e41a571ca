//go:build linux

package server

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A notice is the kernel's seccomp_notif.
type notice struct {
	id     uint64
	pid    uint32
	flags  uint32
	number int32
	arch   uint32
	ip     uint64
	args   [6]uint64
}

// A response is the kernel's seccomp_notif_resp.
type response struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// ErrNone says that no call waits.
var errNone = errors.New("no call waits")

// Hasten has the kernel wake up the reader of a call, and the calling process
// again, on the processor that they come from, where it is new enough (6.6):
// one waits for the other anyway. Without that they are only slower.
func hastenNotifier(listener int) {
	_, _, _ = unix.RawSyscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
}

// take takes the next call from a listener. It does not wait: without one it
// returns ErrNone, and io.EOF where none can ever come again.
func take(listener int, n *notice) error {
	ready := unix.PollFd{Fd: int32(listener), Events: unix.POLLIN}
	var now unix.Timespec
	_, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&ready)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	switch {
	case errno != 0 && errno != unix.EINTR:
		return os.NewSyscallError("ppoll", errno)
	case ready.Revents&unix.POLLIN != 0:
	case ready.Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0:
		return io.EOF
	default:
		return errNone
	}
	*n = notice{} // the kernel wants it empty
	switch errno := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n)); errno {
	case 0:
		return nil
	case unix.ENOENT, unix.EINTR: // its process was killed in this moment
		return errNone
	default:
		return os.NewSyscallError("ioctl", errno)
	}
}

// letGo has the kernel go on with a call. False means that its process did
// not wait for that any more, so that what was read from it may have been
// read from another.
func letGo(listener int, n *notice) bool {
	r := response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	for {
		errno := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
		if errno != unix.EINTR {
			return errno == 0
		}
	}
}

// ioctl is for calls that do not wait: the runtime does not hear of them, and
// needs no thread in their place. There may not be any more to be had.
func ioctl(fd int, request uint, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg))
	runtime.KeepAlive(arg)
	return errno
}

// firstRead is how many bytes of a path are read at first.
const notifierFirstRead = 256

// text reads a C string from the memory of a process.
func text(pid int, at uint64) (string, bool) {
	var b [maxPath]byte
	page := uint64(os.Getpagesize())
	for done, most := 0, notifierFirstRead; done < len(b); most = len(b) {
		rest := page - (at+uint64(done))%page // what lies on one page is there, or not
		n := min(most, len(b)-done, int(rest))
		got, ok := readNotifier(pid, at+uint64(done), b[done:done+n])
		if !ok {
			return "", false
		}
		if end := bytes.IndexByte(b[done:done+got], 0); end >= 0 {
			return string(b[:done+end]), true
		}
		done += got
	}
	return "", false
}

// read reads memory of a process.
func readNotifier(pid int, at uint64, b []byte) (n int, ok bool) {
	if len(b) == 0 || at > 1<<63 {
		return 0, false
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	remote := []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}
	n, err := unix.ProcessVMReadv(pid, local, remote, 0)
	if err == unix.EPERM || err == unix.ENOSYS { // the filter of an engine around us has the call not
		n, err = readMemory(pid, at, b)
	}
	return n, err == nil && n > 0
}

// readMemory is readNotifier by the file that /proc has of the memory.
func readMemory(pid int, at uint64, b []byte) (int, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/mem", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return unix.Pread(fd, b, int64(at))
}

// comm is the name of a process, as it calls itself.
func comm(pid int) string {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/comm", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var b [32]byte
	n, err := unix.Read(fd, b[:])
	if err != nil || n <= 0 {
		return ""
	}
	b2, _ := bytes.CutSuffix(b[:min(n, 16)], []byte("\n"))
	return string(b2)
}
