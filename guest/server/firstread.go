//go:build linux

package server

import (
	"io"
	"os"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// A firstRead reads a connection at which the client may offer a channel for
// descriptors with its first bytes. The kernel closes descriptors that come
// later, because the guest does not ask for them.
type firstRead struct {
	f    *os.File
	done bool
	side *side // what was offered, nil for nothing; settled by the first Read
}

// bytes is what the frames of a connection are read from.
func (c *conn) bytes() io.Reader {
	if c.first != nil {
		return c.first
	}
	return c.f
}

// Read implements io.Reader. Anything but one end of a channel that comes
// with the first bytes is closed, and a violation.
func (r *firstRead) Read(p []byte) (int, error) {
	if r.done {
		return r.f.Read(p)
	}
	r.done = true
	raw, err := r.f.SyscallConn()
	if err != nil {
		return 0, err
	}
	oob := make([]byte, unix.CmsgSpace(4*4)) // more than one, to see them and close them
	var n, oobn, flags int
	var got error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, flags, _, got = unix.Recvmsg(int(fd), p, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
			if got != unix.EINTR {
				return got != unix.EAGAIN
			}
		}
	})
	if err == nil {
		err = got
	}
	if err != nil {
		return 0, err
	}
	if r.side, err = offered(rightsOf(oob[:oobn]), flags&unix.MSG_CTRUNC != 0); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// offered makes a side of what came with the first bytes. That nothing came
// although something was sent is how the kernel says that we may not have it,
// by its rules or because we have too many: then there is none.
func offered(fds []int, cut bool) (*side, error) {
	if len(fds) == 0 {
		return nil, nil
	}
	if len(fds) == 1 && !cut {
		d, err := openSide(fds[0]) // closes what it refuses
		if err != nil {
			return nil, wire.Violation("what was offered is no channel for descriptors")
		}
		return d, nil
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	return nil, wire.Violation("more descriptors than one were offered")
}
