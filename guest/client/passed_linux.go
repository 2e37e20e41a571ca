package client

import (
	"net"
	"os"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// tellsNetworks reports whether the kernel can say to which network a socket
// belongs. Without that a socket of the host's network could be one of the
// sandbox's.
func tellsNetworks() bool {
	cookie, err := ourNetwork()
	return err == nil && cookie != 0
}

// ourNetwork returns the kernel's number of the network that we are in.
func ourNetwork() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
}

// openListening makes a listener of a descriptor that the guest says is one at
// an address, and owns it. What it is not is a violation; other errors are
// ours.
func openListening(fd int, at wire.Endpoint) (*net.TCPListener, error) {
	ours, err := ourNetwork()
	if err == nil {
		err = isListening(fd, at, ours)
	}
	if err != nil {
		wire.Message{FDs: []int{fd}}.Discard()
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "listener")
	defer f.Close() // FileListener has its own copy
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil // what isListening has held
}

// isListening holds that fd is a listening TCP socket at an address of another
// network than ours. A process with a copy of it can change little of that: its
// kind and its network never, and admit checks the address of each connection.
func isListening(fd int, at wire.Endpoint, ours uint64) error {
	if err := isSocket(fd, at.Family, 1, ours); err != nil {
		return err
	}
	name, err := unix.Getsockname(fd)
	if err != nil || endpointOf(name) != at {
		return wire.Violation("the listening socket that was handed over is at another address than was said")
	}
	return nil
}

// isSocket holds that fd is a TCP socket of a family and of another network than
// ours, which listens (1) or does not (0).
func isSocket(fd int, of wire.Family, listens int, ours uint64) error {
	family := unix.AF_INET
	if of == wire.FamilyIPv6 {
		family = unix.AF_INET6
	}
	for _, o := range []struct{ name, want int }{ // in this order: the first say whether the next make sense
		{unix.SO_DOMAIN, family}, {unix.SO_TYPE, unix.SOCK_STREAM}, {unix.SO_PROTOCOL, unix.IPPROTO_TCP}, {unix.SO_ACCEPTCONN, listens},
	} {
		if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, o.name); err != nil || got != o.want {
			return wire.Violation("what was handed over is no socket as was asked for")
		}
	}
	theirs, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil || theirs == 0 || theirs == ours {
		return wire.Violation("the socket that was handed over is in the network of the host")
	}
	return nil
}

func endpointOf(name unix.Sockaddr) wire.Endpoint {
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return wire.Endpoint{Family: wire.FamilyIPv4, Port: uint16(a.Port), Host: string(a.Addr[:])}
	case *unix.SockaddrInet6:
		return wire.Endpoint{Family: wire.FamilyIPv6, Port: uint16(a.Port), Host: string(a.Addr[:])}
	}
	return wire.Endpoint{}
}

// closeWait bounds the wait for the close of a socket that a hostile guest
// holds a copy of, which takes microseconds otherwise.
const closeWait = time.Second

// closeListening closes a listener and wakes goroutines that wait for
// connections, also where a copy of the socket was made blocking.
func closeListening(l *net.TCPListener) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if raw, err := l.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) }) // closed all the same
		}
		l.Close()
	}()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
