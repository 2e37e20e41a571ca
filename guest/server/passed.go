//go:build linux

package server

import (
	"os"

	"golang.org/x/sys/unix"
)

// passedByte is what each message of a channel of connections holds beside
// its descriptors.
const passedByte = 'c'

// admitPassed takes the connections that come as descriptors over the
// channel f, a SOCK_SEQPACKET socket whose other end only the orchestrator
// has: in each message one connection, and one channel for the descriptors
// that are to go beside it (package handover). It returns when that end is
// closed, however the orchestrator went. A message of another shape is dropped
// with what it carries.
func (s *Server) admitPassed(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	for {
		fds, over := receivePassed(raw.Read)
		if over {
			return
		}
		if len(fds) == 0 {
			continue
		}
		beside, err := openSide(fds[1])
		if err == nil {
			err = unix.SetNonblock(fds[0], true)
		}
		if err != nil {
			unix.Close(fds[0])
			beside.close()
			continue
		}
		s.admit(os.NewFile(uintptr(fds[0]), "client"), beside, nil)
	}
}

// receivePassed waits for one message. There are two descriptors, or none for
// a message that is dropped.
func receivePassed(read func(func(uintptr) bool) error) (fds []int, over bool) {
	var text [2]byte
	oob := make([]byte, unix.CmsgSpace(4*4)) // a few more than two, to see them and close them
	var n, oobn, flags int
	var err error
	waitErr := read(func(s uintptr) bool {
		n, oobn, flags, _, err = unix.Recvmsg(int(s), text[:], oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		return err != unix.EAGAIN
	})
	switch {
	case waitErr != nil:
		return nil, true
	case err == unix.EINTR || err == unix.EMFILE || err == unix.ENOMEM || err == unix.ENOBUFS:
		return nil, false
	case err != nil || n == 0 && oobn == 0:
		return nil, true
	}
	fds = rightsOf(oob[:oobn])
	if n == 1 && text[0] == passedByte && len(fds) == 2 && flags&unix.MSG_CTRUNC == 0 {
		return fds, false
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	return nil, false
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
