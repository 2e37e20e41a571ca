//go:build linux

package server

import (
	"os"

	"golang.org/x/sys/unix"
)

// passedByte is what each message of a channel of connections holds beside
// its descriptor.
const passedByte = 'c'

// admitPassed takes the connections that come as descriptors over the
// channel f, a SOCK_SEQPACKET socket whose other end only the orchestrator
// has: one connection in each message. It returns when that end is closed,
// however the orchestrator went. A message of another shape is dropped with
// what it carries.
func (s *Server) admitPassed(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	for {
		fd, over := receivePassed(raw.Read)
		if over {
			return
		}
		if fd < 0 {
			continue
		}
		if unix.SetNonblock(fd, true) != nil {
			unix.Close(fd)
			continue
		}
		s.admit(os.NewFile(uintptr(fd), "client"))
	}
}

// receivePassed waits for one message. fd is -1 for one that is dropped.
func receivePassed(read func(func(uintptr) bool) error) (fd int, over bool) {
	var text [2]byte
	oob := make([]byte, unix.CmsgSpace(4*4)) // a few more than one, to see them and close them
	var n, oobn, flags int
	var err error
	waitErr := read(func(s uintptr) bool {
		n, oobn, flags, _, err = unix.Recvmsg(int(s), text[:], oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		return err != unix.EAGAIN
	})
	switch {
	case waitErr != nil:
		return -1, true
	case err == unix.EINTR || err == unix.EMFILE || err == unix.ENOMEM || err == unix.ENOBUFS:
		return -1, false
	case err != nil || n == 0 && oobn == 0:
		return -1, true
	}
	fds := rightsOf(oob[:oobn])
	if n == 1 && text[0] == passedByte && len(fds) == 1 && flags&unix.MSG_CTRUNC == 0 {
		return fds[0], false
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	return -1, false
}

// rightsOf returns every descriptor that control data brought along.
func rightsOf(oob []byte) []int {
	var all []int
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
			all = append(all, fds...)
		}
	}
	return all
}
