//go:build linux

package server

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// AbstractName is the abstract socket on which the guest listens for relays.
const AbstractName = "@bulkhead-sandbox-guest"

const backlog = 64

// A listener accepts Unix stream connections.
type listener struct{ f *os.File }

func newSocket() (int, error) {
	return unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
}

// listenUnix binds a socket to addr, which begins with @ when it is
// abstract, and listens.
func listenUnix(addr string) (*listener, error) {
	fd, err := newSocket()
	if err != nil {
		return nil, err
	}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: addr}); err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &listener{f: os.NewFile(uintptr(fd), addr)}, nil
}

// serve accepts until the listener is closed. Peers that ok does not accept
// are closed at once, without a byte.
func (l *listener) serve(ok func(fd int) bool, admit func(*os.File)) {
	conn, err := l.f.SyscallConn()
	if err != nil {
		return
	}
	for {
		fd, err := accept(conn.Read)
		switch {
		case err == unix.ECONNABORTED || err == unix.EINTR:
		case err == unix.EMFILE || err == unix.ENFILE || err == unix.ENOMEM || err == unix.ENOBUFS:
			time.Sleep(10 * time.Millisecond) // until some are given back
		case err != nil:
			return
		case ok(fd):
			admit(os.NewFile(uintptr(fd), "client"))
		default:
			unix.Close(fd)
		}
	}
}

func accept(rawRead func(func(uintptr) bool) error) (fd int, err error) {
	waitErr := rawRead(func(l uintptr) bool {
		fd, _, err = unix.Accept4(int(l), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		return err != unix.EAGAIN
	})
	if waitErr != nil {
		return -1, waitErr
	}
	return fd, err
}

func (l *listener) close() { l.f.Close() }
