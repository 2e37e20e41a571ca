package egress

import (
	"errors"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// chunk is how much is moved between two looks at the limits.
	chunk = 256 << 10
	// small is up to how much one read and one write are cheaper than the
	// detour through a pipe.
	small = 2 << 10
)

// splice moves bytes between two sockets inside the kernel. It waits until
// bytes are there, asks whether as many may pass, and moves exactly these: so
// limits and counts are current, and no pipe is held while nothing comes. As
// long as few come at a time they are read and written.
func splice(from, to *net.TCPConn, allow func(int64) error, passed func(int64)) error {
	raw, err := from.SyscallConn()
	if err != nil {
		return err
	}
	buf := make([]byte, small)
	for many := false; ; {
		var ready int64
		var n int
		if many {
			ready, n, err = await(raw, buf)
		} else {
			n, err = from.Read(buf)
		}
		switch {
		case err == nil && ready > 0:
			err = move(from, to, ready, allow, passed)
		case n > 0:
			many = n == len(buf)
			err = send(to, buf[:n], allow, passed)
		case err == nil || errors.Is(err, io.EOF):
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// move splices n bytes that are there.
func move(from, to *net.TCPConn, n int64, allow func(int64) error, passed func(int64)) error {
	if err := allow(n); err != nil {
		return err
	}
	// ReadFrom of a TCP connection splices from a limited one.
	moved, err := to.ReadFrom(&io.LimitedReader{R: from, N: n})
	passed(moved)
	return err
}

// await waits for bytes. Few are read into buf, n of them; of more, ready is
// how many are there, at most chunk. Both are 0 at the end of the stream.
func await(raw syscall.RawConn, buf []byte) (ready int64, n int, err error) {
	waitErr := raw.Read(func(fd uintptr) (done bool) {
		there, e := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		if e == nil && there > len(buf) {
			ready, n, err = int64(min(there, chunk)), 0, nil
			return true
		}
		// Nothing can also mean an end, an error, or a byte out of band, which
		// reading steps over.
		n, err = unix.Read(int(fd), buf)
		for errors.Is(err, unix.EINTR) {
			n, err = unix.Read(int(fd), buf)
		}
		n = max(n, 0)
		return !errors.Is(err, unix.EAGAIN)
	})
	if waitErr != nil {
		return 0, 0, waitErr
	}
	return ready, n, err
}
