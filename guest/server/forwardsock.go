//go:build linux

package server

import (
	"os"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// Package net is not used for sockets: it would add its resolver to a
// program that runs in every sandbox, and resolve names with threads of C.

// sockaddr returns the address and the socket family of e.
func sockaddr(e wire.Endpoint) (unix.Sockaddr, int) {
	switch e.Family {
	case wire.FamilyIPv4:
		return &unix.SockaddrInet4{Port: int(e.Port), Addr: [4]byte([]byte(e.Host))}, unix.AF_INET
	case wire.FamilyIPv6:
		return &unix.SockaddrInet6{Port: int(e.Port), Addr: [16]byte([]byte(e.Host))}, unix.AF_INET6
	}
	return &unix.SockaddrUnix{Name: e.Host}, unix.AF_UNIX
}

// endpoint translates an address of the kernel. The names of abstract sockets,
// which only peers of Unix sockets can have, are left out.
func endpoint(sa unix.Sockaddr) wire.Endpoint {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return wire.Endpoint{Family: wire.FamilyIPv4, Port: uint16(sa.Port), Host: string(sa.Addr[:])}
	case *unix.SockaddrInet6:
		return wire.Endpoint{Family: wire.FamilyIPv6, Port: uint16(sa.Port), Host: string(sa.Addr[:])}
	case *unix.SockaddrUnix:
		if len(sa.Name) > 0 && sa.Name[0] == '/' {
			return wire.Endpoint{Family: wire.FamilyUnix, Host: sa.Name}
		}
	}
	return wire.Endpoint{Family: wire.FamilyUnix}
}

// endpointsOf returns both ends of a connected socket.
func endpointsOf(file *os.File) (local, remote wire.Endpoint) {
	_ = control(file, func(fd int) error { // what is not known stays nameless
		sa, _ := unix.Getsockname(fd)
		local = endpoint(sa)
		sa, _ = unix.Getpeername(fd)
		remote = endpoint(sa)
		return nil
	})
	return local, remote
}

// connect connects to an endpoint of our own namespaces.
func (l *link) connect(to wire.Endpoint) (*os.File, error) {
	if calls := l.conn.srv.calls(); calls != nil {
		var err error
		if to, err = calls.within(to); err != nil {
			return nil, err
		}
	}
	sa, family := sockaddr(to)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	atOnce(fd, family)
	err = l.request(fd, sa)
	file := os.NewFile(uintptr(fd), "forward")
	switch {
	case err != nil && err != unix.EINPROGRESS:
	case !l.adopt(file):
		err = os.ErrClosed
	case err == unix.EINPROGRESS:
		err = established(file)
	}
	if err == nil && joinsItself(file) {
		err = unix.ECONNREFUSED
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	l.settle()
	return file, nil
}

// request asks for the connection. A Unix socket whose queue is full does
// not let one wait in the kernel, so it is asked again.
func (l *link) request(fd int, sa unix.Sockaddr) error {
	for deadline := time.Now().Add(connectWithin); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Connect(fd, sa)
		switch {
		case err == unix.EINTR:
			return unix.EINPROGRESS // the kernel goes on with it
		case err != unix.EAGAIN:
			return err
		case l.isDropped():
			return os.ErrClosed
		case time.Now().After(deadline):
			return unix.ETIMEDOUT
		}
	}
}

func (l *link) isDropped() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// established waits until the connection stands.
func established(file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = raw.Write(func(fd uintptr) bool {
		errno, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			result = err
			return true
		}
		if errno != 0 {
			result = unix.Errno(errno)
			return true
		}
		_, err = unix.Getpeername(int(fd))
		return err == nil // else it is still on its way
	})
	if err != nil {
		return err
	}
	return result
}

// joinsItself reports whether a TCP socket has been connected to itself, which
// happens when it was given the very port that it dials and no socket listens
// there.
func joinsItself(file *os.File) bool {
	local, remote := endpointsOf(file)
	return local.Family != wire.FamilyUnix && local == remote
}

// atOnce has a TCP socket send small pieces without waiting for more.
func atOnce(fd, family int) {
	if family != unix.AF_UNIX {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // slower without
	}
}

// shutdown ends one direction of a socket.
func shutdown(file *os.File, how int) error {
	return control(file, func(fd int) error { return unix.Shutdown(fd, how) })
}

// reset has the coming close of a TCP socket tell the other end that the
// connection broke, and not that it ended.
func reset(file *os.File) {
	_ = control(file, func(fd int) error { // a Unix socket knows no such thing
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	})
}

func control(file *os.File, do func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	if err := raw.Control(func(fd uintptr) { done = do(int(fd)) }); err != nil {
		return err
	}
	return done
}
