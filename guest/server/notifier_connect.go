//go:build linux

package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// connect makes a call of connect(2) in the place of its process, and answers
// it. The call itself never goes on: its process could exchange the address, or
// the socket at the number, in the moment between.
//
// A Unix socket with a path is reached only when it listens in the network
// namespace of the sandbox, which is that of the guest. That is asked of the
// kernel by the file itself, which is held open: while it is, no other file has
// its number, and a socket is never bound to a file that is there. So neither a
// link, nor a rename, nor a file that is put in the way leads anywhere else.
func (o *notifierObserver) connect(listener int, n notice) {
	errno := unix.EPERM
	fd, err := socketOf(int(n.pid), int32(n.args[0]))
	if err == nil {
		errno = o.connectAs(&n, fd, func() bool { return waits(listener, n.id) })
		unix.Close(fd)
	} else if err == unix.EBADF {
		errno = unix.EBADF
	}
	answer(listener, n.id, errno)
}

// maxAddress is what the kernel takes as an address: struct sockaddr_storage.
const maxAddress = 128

// connectAs connects the socket fd to the address that the call names.
func (o *notifierObserver) connectAs(n *notice, fd int, waits func() bool) unix.Errno {
	size := int32(n.args[2])
	if size < 0 || size > maxAddress {
		return unix.EINVAL
	}
	address := make([]byte, size)
	if got, ok := readNotifier(int(n.pid), n.args[1], address); size > 0 && (!ok || got != len(address)) {
		return unix.EFAULT
	}
	if !waits() {
		return unix.EPERM // what was read may be another process's
	}
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return notifierErrnoOf(err)
	}
	if domain == unix.AF_UNIX && len(address) > 2 && binary.NativeEndian.Uint16(address) == unix.AF_UNIX && address[2] != 0 {
		name, _, _ := bytes.Cut(address[2:], []byte{0})
		file, errno := o.listening(int(n.pid), string(name))
		if errno != 0 {
			return errno
		}
		defer unix.Close(file)
		address = append(address[:2:2], "/proc/self/fd/"+strconv.Itoa(file)+"\x00"...)
	}
	return dial(fd, address, waits)
}

// socketOf returns a descriptor of what a thread has at a number.
func socketOf(tid int, number int32) (int, error) {
	const thread = unix.O_EXCL // PIDFD_THREAD
	pidfd, err := unix.PidfdOpen(tid, thread)
	if err == unix.EINVAL { // a kernel before 6.9
		pidfd, err = unix.PidfdOpen(leader(tid), 0)
	}
	if err != nil {
		return -1, err
	}
	defer unix.Close(pidfd)
	return unix.PidfdGetfd(pidfd, int(number), 0)
}

// leader returns the process of a thread.
func leader(tid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status")
	if err == nil {
		for line := range strings.Lines(string(b)) {
			if rest, ok := strings.CutPrefix(line, "Tgid:"); ok {
				if n, err := strconv.Atoi(strings.TrimSpace(rest)); err == nil {
					return n
				}
			}
		}
	}
	return tid
}

// dial connects without waiting in the kernel, which would take a thread of the
// guest's: a socket that is to wait does not for as long as that takes.
func dial(fd int, address []byte, waits func() bool) unix.Errno {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return notifierErrnoOf(err)
	}
	if flags&unix.O_NONBLOCK != 0 {
		return connectNow(fd, address)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags|unix.O_NONBLOCK); err != nil {
		return notifierErrnoOf(err)
	}
	defer unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags)
	errno := connectNow(fd, address)
	for pause := time.Millisecond; errno == unix.EAGAIN; pause = min(2*pause, maxPause) { // its queue is full
		if time.Sleep(pause); !waits() {
			return errno
		}
		errno = connectNow(fd, address)
	}
	if errno != unix.EINPROGRESS {
		return errno
	}
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, maxPause) {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, err := unix.Poll(ready, 0); err == nil && n > 0 {
			code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
			if err != nil {
				return notifierErrnoOf(err)
			}
			return unix.Errno(code)
		}
		if time.Sleep(pause); !waits() {
			return unix.EINTR
		}
	}
}

// maxPause is how often a connection is looked at that takes its time.
const maxPause = 20 * time.Millisecond

func connectNow(fd int, address []byte) unix.Errno {
	var at unsafe.Pointer
	if len(address) > 0 {
		at = unsafe.Pointer(&address[0])
	}
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(at), uintptr(len(address)))
	return errno
}

func notifierErrnoOf(err error) unix.Errno {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EPERM
}

// listening returns a descriptor of the socket file that a thread names,
// provided that a socket of the sandbox listens there.
func (o *notifierObserver) listening(tid int, name string) (int, unix.Errno) {
	own := "/proc/" + strconv.Itoa(tid)
	for _, self := range []string{"/proc/self/", "/proc/thread-self/"} {
		if rest, ok := strings.CutPrefix(name, self); ok {
			name = own + "/" + rest
		}
	}
	if name[0] != '/' {
		name = own + "/cwd/" + name
	}
	o.files <- struct{}{} // a file system that hangs takes a thread for each
	defer func() { <-o.files }()
	file, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, notifierErrnoOf(err)
	}
	if errno := o.isOurs(file); errno != 0 {
		unix.Close(file)
		return -1, errno
	}
	return file, 0
}

// isOurs reports by 0 that a socket of the sandbox listens at the file.
func (o *notifierObserver) isOurs(file int) unix.Errno {
	var st unix.Stat_t
	if err := unix.Fstat(file, &st); err != nil {
		return notifierErrnoOf(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return unix.ECONNREFUSED
	}
	dev, ino, ok := numbers(file)
	if !ok || !unique(file) || !o.young(file) {
		return unix.EPERM
	}
	found, err := Listens(dev, ino)
	switch {
	case err != nil:
		return unix.EPERM
	case !found:
		return unix.ECONNREFUSED
	}
	return 0
}

// young reports whether a file was made since the guest runs, as every socket
// of the sandbox was: what has a number like that of one, cut to the 32 bits
// that the kernel reports, and is older, is none.
func (o *notifierObserver) young(file int) bool {
	var st unix.Statx_t
	err := unix.Statx(file, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return err == nil
	}
	return !time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)).Before(o.since)
}

// unique reports whether the file system of an open file gives each file a
// number that no other one has. Those that are not known to do so, such as one
// with several trees that each count for themselves, are left out.
func unique(file int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(file, &st) != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.TMPFS_MAGIC, unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.RAMFS_MAGIC, 0x2fc12fc1: // ZFS
		return true
	}
	return false
}

// numbers returns the device and the number of an open file as the kernel
// itself has them, which stat(2) on some file systems does not tell.
func numbers(file int) (dev, ino uint32, ok bool) {
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(file))
	if err != nil {
		return 0, 0, false
	}
	mount, number := "", uint64(0)
	for line := range strings.Lines(string(info)) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); key {
		case "mnt_id":
			mount = value
		case "ino":
			number, err = strconv.ParseUint(value, 10, 64)
		}
	}
	if err != nil || mount == "" || number == 0 || number >= 1<<32 {
		return 0, 0, false
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return 0, 0, false
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != mount {
			continue
		}
		high, low, _ := strings.Cut(f[2], ":")
		major, err1 := strconv.ParseUint(high, 10, 12)
		minor, err2 := strconv.ParseUint(low, 10, 20)
		return uint32(major<<20 | minor), uint32(number), err1 == nil && err2 == nil
	}
	return 0, 0, false
}

// Listens asks the kernel whether a Unix socket of our network namespace
// listens that was bound to the file with those numbers.
func Listens(dev, ino uint32) (bool, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	const (
		byFamily = 20      // SOCK_DIAG_BY_FAMILY
		showFile = 2       // UDIAG_SHOW_VFS
		theFile  = 1       // UNIX_DIAG_VFS
		listen   = 1 << 10 // TCP_LISTEN, as a set of states
	)
	request := make([]byte, 16+24)
	le := binary.NativeEndian
	le.PutUint32(request, uint32(len(request)))
	le.PutUint16(request[4:], byFamily)
	le.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request[16] = unix.AF_UNIX
	le.PutUint32(request[20:], listen)
	le.PutUint32(request[28:], showFile)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return false, err
	}
	found := false
	for buf := make([]byte, 32<<10); ; {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return false, err
		}
		for rest := buf[:n]; len(rest) >= 16; {
			size, kind := int(le.Uint32(rest)), le.Uint16(rest[4:])
			if size < 16 || size > len(rest) {
				return false, unix.EPROTO
			}
			switch body := rest[16:size]; {
			case kind == unix.NLMSG_DONE:
				return found, nil
			case kind == unix.NLMSG_ERROR:
				return false, unix.EOPNOTSUPP
			case len(body) >= 16 && body[0] == unix.AF_UNIX:
				found = found || namesFile(body[16:], theFile, dev, ino)
			}
			rest = rest[min(len(rest), (size+3)&^3):]
		}
	}
}

// namesFile looks for a file's numbers among the attributes of one socket.
func namesFile(attributes []byte, kind uint16, dev, ino uint32) bool {
	le := binary.NativeEndian
	for len(attributes) >= 4 {
		size := int(le.Uint16(attributes))
		if size < 4 || size > len(attributes) {
			return false
		}
		if le.Uint16(attributes[2:]) == kind && size >= 12 && le.Uint32(attributes[4:]) == ino && le.Uint32(attributes[8:]) == dev {
			return true
		}
		attributes = attributes[min(len(attributes), (size+3)&^3):]
	}
	return false
}

// waits reports whether a call still waits for its answer.
func waits(listener int, id uint64) bool {
	for {
		errno := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id))
		if errno != unix.EINTR {
			return errno == 0
		}
	}
}

// answer ends a call with an error number, or 0 for success.
func answer(listener int, id uint64, errno unix.Errno) {
	r := response{id: id, errno: -int32(errno)}
	for ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)) == unix.EINTR {
	}
}
