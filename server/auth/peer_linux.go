package auth

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// look asks the kernel which process connected, and in which namespaces it runs.
func look(c *net.UnixConn) (p peer) {
	raw, err := c.SyscallConn()
	if err != nil {
		return p
	}
	var cred *unix.Ucred
	var failed error
	pidfd := -1
	err = raw.Control(func(fd uintptr) {
		if cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); failed != nil {
			return
		}
		pidfd, failed = peerPidfd(int(fd), int(cred.Pid))
	})
	if err != nil || cred == nil {
		return p
	}
	p = peer{uid: int(cred.Uid), known: true, alien: true}
	if failed != nil {
		return p
	}
	defer unix.Close(pidfd)
	// The number may belong to another process by now. It does not if the
	// process of the descriptor is still alive afterwards.
	p.alien = !neighbour("/proc", int(cred.Pid), p.uid) || !alive(pidfd)
	return p
}

// peerPidfd returns a descriptor of the process that connected. Kernels before
// 6.5 report only its number, which belongs to that process as long as it lives.
func peerPidfd(fd, pid int) (int, error) {
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if errors.Is(err, unix.ENOPROTOOPT) && pid > 0 {
		return unix.PidfdOpen(pid, 0)
	}
	if err == nil {
		unix.CloseOnExec(pidfd)
	}
	return pidfd, err
}

// alive reports whether the process has not ended.
func alive(pidfd int) bool {
	// It is readable when the process has ended.
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return err == nil && n == 0
}

// neighbour reports whether the process runs in the pid, mount and user
// namespaces of this one, by the process file system at proc. It returns false
// where it cannot find out.
func neighbour(proc string, pid, uid int) bool {
	if pid <= 0 { // a process that cannot be seen from here
		return false
	}
	theirs, ours := filepath.Join(proc, strconv.Itoa(pid)), filepath.Join(proc, "self")
	for _, ns := range []string{"pid", "mnt", "user"} {
		a, err := os.Stat(filepath.Join(theirs, "ns", ns))
		if uid == 0 && os.Geteuid() != 0 && errors.Is(err, fs.ErrPermission) {
			return rootBeside(theirs, ours)
		}
		if err != nil {
			return false
		}
		b, err := os.Stat(filepath.Join(ours, "ns", ns))
		if err != nil || !os.SameFile(a, b) {
			return false
		}
	}
	return true
}

// rootBeside reports whether a process of root runs in our namespaces. Other
// users cannot read its namespaces, so rootBeside compares its process numbers,
// of which there is one for each pid namespace from ours inwards, and its user
// map.
func rootBeside(theirs, ours string) bool {
	status, err := os.ReadFile(filepath.Join(theirs, "status"))
	if err != nil {
		return false
	}
	single := false
	for line := range strings.Lines(string(status)) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			single = len(strings.Fields(numbers)) == 1
		}
	}
	a, err := os.ReadFile(filepath.Join(theirs, "uid_map"))
	if err != nil || !single {
		return false
	}
	b, err := os.ReadFile(filepath.Join(ours, "uid_map"))
	return err == nil && bytes.Equal(a, b)
}
