package egress

import (
	"errors"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// chunk is the number of bytes moved between two checks of the limits.
	chunk = 256 << 10
	// small is the size up to which one read and one write are cheaper than
	// splicing through a pipe.
	small = 2 << 10
)

// splice moves bytes between two sockets inside the kernel. It waits for
// bytes, asks whether that many may pass, and moves exactly these, so that
// limits and counts are current and an idle connection holds no pipe. Small
// amounts are read and written instead.
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

// move splices n available bytes.
func move(from, to *net.TCPConn, n int64, allow func(int64) error, passed func(int64)) error {
	if err := allow(n); err != nil {
		return err
	}
	// ReadFrom of a TCP connection splices from a limited one.
	moved, err := to.ReadFrom(&io.LimitedReader{R: from, N: n})
	passed(moved)
	return err
}

// await waits for bytes. A small amount is read into buf, n bytes; for a
// larger one ready is the number of available bytes, at most chunk. Both are 0
// at the end of the stream.
func await(raw syscall.RawConn, buf []byte) (ready int64, n int, err error) {
	waitErr := raw.Read(func(fd uintptr) (done bool) {
		there, e := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		if e == nil && there > len(buf) {
			ready, n, err = int64(min(there, chunk)), 0, nil
			return true
		}
		// Zero available bytes can also mean an end, an error, or an
		// out-of-band byte, which reading skips.
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
