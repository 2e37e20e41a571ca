package caller

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUID asks the kernel whose process connected.
func peerUID(c *net.UnixConn) (uid int, known bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil || failed != nil || cred == nil {
		return 0, false
	}
	return int(cred.Uid), true
}
