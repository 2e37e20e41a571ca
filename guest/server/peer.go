//go:build linux

package server

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// soPeerPIDFD is SO_PEERPIDFD, the same number on every architecture that
// uses the generic socket options (all that Go supports but mips, sparc).
const soPeerPIDFD = 0x4d

// fromOutside accepts peers from outside our pid namespace only: the kernel
// shows their process id as 0, and nothing inside can have that. It is the
// rule for the socket in the mounted folder.
func fromOutside(fd int) bool {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && cred.Pid == 0
}

// fromEngine accepts processes that an engine put into the namespace: their
// parent is outside and shows as 0, while orphans of user code become children
// of process 1. When the peer's program can be determined it must be our own.
// Usually it cannot, because a relay is not dumpable.
//
// The number in the credentials could belong to another process by now;
// where the kernel has SO_PEERPIDFD the peer is held to be alive after the
// checks. Elsewhere a peer would have to end, and the engine start a
// process under the same number, between its connect and our accept.
func (s *Server) fromEngine(fd int) bool {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || cred.Pid <= 0 {
		return false
	}
	if peersUnreported(cred) {
		s.unreported.Store(true)
		return true
	}
	dir := "/proc/" + strconv.Itoa(int(cred.Pid))
	status, err := os.ReadFile(dir + "/status")
	if err != nil || !bytes.Contains(status, []byte("\nPPid:\t0\n")) {
		return false
	}
	if exe, err := os.Stat(dir + "/exe"); err == nil {
		self, err := os.Stat("/proc/self/exe")
		if err != nil || !os.SameFile(exe, self) {
			return false
		}
	}
	return peerAlive(fd)
}

// peersUnreported reports whether the runtime does not tell who the peer is.
// gVisor gives everybody its own number, which on Linux cannot be, because
// none of our processes connects to itself. There the abstract socket takes
// everybody, and Hello says so: code that connects can have commands run,
// which it can do without us, and change the ready tag.
func peersUnreported(cred *unix.Ucred) bool { return int(cred.Pid) == os.Getpid() }

// peerAlive reports whether the process that connected still runs, true
// where the kernel cannot tell.
func peerAlive(fd int) bool {
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, soPeerPIDFD)
	if err != nil {
		return err == unix.ENOPROTOOPT || err == unix.ENOSYS
	}
	defer unix.Close(pidfd)
	p := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 0 // readable means ended
}
