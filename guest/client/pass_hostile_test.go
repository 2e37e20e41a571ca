package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// A ware is a socket, mostly of a network that is not ours, made as a guest could, with
// the address that the guest would say it has.
type ware struct {
	fd int
	at wire.Endpoint
}

func wareOf(t testing.TB, make func() (int, wire.Endpoint, error)) (w ware) {
	t.Helper()
	elsewhere(t, func() (fds []int, err error) {
		w.fd, w.at, err = make()
		return []int{w.fd}, err
	})
	return w
}

// connectedSocket returns a connected TCP socket with the address of its end.
func connectedSocket() (int, wire.Endpoint, error) {
	l, at, err := bound(unix.SOCK_STREAM, 0, loopback4, true)
	if err != nil {
		return l, at, err
	}
	defer unix.Close(l)
	fd, mine, err := bound(unix.SOCK_STREAM, 0, loopback4, false)
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(at.Port), Addr: loopback4})
	}
	return fd, mine, err
}

func unixListener() (int, wire.Endpoint, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{}) // any abstract name
	}
	if err == nil {
		err = unix.Listen(fd, 8)
	}
	return fd, ip4(7), err
}

func v6Listener() (int, wire.Endpoint, error) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Listen(fd, 8) // at all addresses, of both kinds
	}
	name, nameErr := unix.Getsockname(fd)
	if err = errors.Join(err, nameErr); err != nil {
		return fd, wire.Endpoint{}, err
	}
	return fd, ip4(uint16(name.(*unix.SockaddrInet6).Port)), nil
}

// TestTraitorSells holds that of what a guest hands over nothing is taken but
// the listening socket that was asked for, in its own network; that anything
// else ends the connection; and that nothing of it stays open.
func TestTraitorSells(t *testing.T) {
	of := func(kind, protocol int, host [4]byte, listens bool) ware {
		return wareOf(t, func() (int, wire.Endpoint, error) { return bound(kind, protocol, host, listens) })
	}
	good := of(unix.SOCK_STREAM, 0, loopback4, true)
	twice := of(unix.SOCK_STREAM, 0, loopback4, true) // taken the first time, it is shut down
	elsewhereInIt := good
	elsewhereInIt.at.Port++
	hostFD, hostAt, err := bound(unix.SOCK_STREAM, 0, loopback4, true)
	must(t, err)
	defer unix.Close(hostFD)
	folder, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(folder)
	sends := func(w ware) func(g traitor) { return func(g traitor) { g.hands(listenerPacket, w.fd) } }
	anyAddress := of(unix.SOCK_STREAM, 0, [4]byte{}, true)
	said := anyAddress
	said.at.Host = "\x7f\x00\x00\x01"
	type lie struct {
		answer wire.Frame
		do     func(g traitor)
	}
	lies := map[string]lie{
		"another address":          {listeningAt(elsewhereInIt.at), sends(good)},
		"all addresses":            {listeningAt(said.at), sends(said)},
		"all addresses, and so":    {listeningAt(anyAddress.at), sends(anyAddress)},
		"port 0":                   {listeningAt(ip4(0)), sends(good)},
		"a Unix path":              {listeningAt(wire.Endpoint{Family: wire.FamilyUnix, Host: "/s"}), sends(good)},
		"two sockets":              {listeningAt(good.at), func(g traitor) { g.hands("BKFD\x03\x02\x00\x00\x01\x00\x00\x00", good.fd, good.fd) }},
		"more than it says":        {listeningAt(good.at), func(g traitor) { g.hands(listenerPacket, good.fd, good.fd) }},
		"less than it says":        {listeningAt(good.at), func(g traitor) { g.hands(listenerPacket) }},
		"a ticket of nobody":       {listeningAt(good.at), func(g traitor) { g.hands("BKFD\x03\x01\x00\x00\x02\x00\x00\x00", good.fd) }},
		"a ticket twice":           {listeningAt(twice.at), func(g traitor) { g.hands(listenerPacket, twice.fd); g.hands(listenerPacket, twice.fd) }},
		"as a state":               {listeningAt(good.at), func(g traitor) { g.hands("BKFD\x01\x01\x00\x00\x01\x00\x00\x00", good.fd) }},
		"as what only we may send": {listeningAt(good.at), func(g traitor) { g.hands("BKFD\x02\x01\x00\x00\x01\x00\x00\x00", good.fd) }},
		"the end of the channel":   {listeningAt(good.at), func(g traitor) { g.side.Close() }},
	}
	for name, w := range map[string]ware{
		"a Unix listener":          wareOf(t, unixListener),
		"a UDP socket":             of(unix.SOCK_DGRAM, 0, loopback4, false),
		"a connected socket":       wareOf(t, connectedSocket),
		"a socket that is bound":   of(unix.SOCK_STREAM, 0, loopback4, false),
		"an IPv6 listener":         wareOf(t, v6Listener),
		"a listener of the host":   {hostFD, hostAt},
		"a listener of MPTCP":      of(unix.SOCK_STREAM, unix.IPPROTO_MPTCP, loopback4, true),
		"a file in memory":         {memory(t, "x"), ip4(7)},
		"a path":                   {folder, ip4(7)},
		"the network of the guest": {netFile(t), ip4(7)},
	} {
		lies[name] = lie{listeningAt(w.at), sends(w)}
	}
	for name, tt := range lies {
		t.Run(name, func(t *testing.T) {
			before := descriptors(t, os.Getpid())
			c := seller(t, tt.answer, tt.do)
			l, err := c.Listen(context.Background(), "tcp", "127.0.0.1:0")
			if err == nil { // what is wrong comes after what was right
				<-c.Done()
				err = c.Err()
				_ = l.Close() // by the end of the client already
			}
			codeIs(t, err, sandbox.CodeUnavailable)
			if !strings.Contains(err.Error(), "protocol") {
				t.Errorf("got %v", err)
			}
			c.Close()
			eventually(t, 10*time.Second, "nothing stays open", func() bool { return descriptors(t, os.Getpid()) <= before })
		})
	}
	t.Run("control", func(t *testing.T) {
		c := seller(t, listeningAt(good.at), sends(good))
		must(t, tcpListener(t, c).Close())
		must(t, c.Err())
	})
}

func netFile(t testing.TB) int {
	t.Helper()
	return elsewhere(t, func() ([]int, error) {
		fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return []int{fd}, err
	})[0]
}

// TestTraitorSellsNothing checks that no call waits for ever for a guest that
// answers and hands nothing over, or hands something over and does not answer.
func TestTraitorSellsNothing(t *testing.T) {
	long(t)
	t.Parallel()
	fd, at := theirListener(t)
	c := seller(t, listeningAt(at), func(traitor) {})
	_, err := c.Listen(context.Background(), "tcp", "127.0.0.1:0")
	codeIs(t, err, sandbox.CodeUnavailable)
	<-c.Done()
	c = seller(t, wire.Frame{}, func(g traitor) { g.hands(listenerPacket, fd) })
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = c.Listen(ctx, "tcp", "127.0.0.1:0")
	codeIs(t, err, sandbox.CodeTimeout)
	must(t, c.Ping(context.Background()))
}

// TestTraitorSellsLate hands over what is not waited for any more: nothing of
// it stays open, and the connection stands, because an honest guest may do so.
func TestTraitorSellsLate(t *testing.T) {
	fd, at := theirListener(t)
	asked, goOn := make(chan struct{}), make(chan struct{})
	c := seller(t, listeningAt(at), func(g traitor) {
		close(asked)
		<-goOn
		g.hands(listenerPacket, fd)
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-asked; cancel() }()
	_, err := c.Listen(ctx, "tcp", "127.0.0.1:0")
	before := descriptors(t, os.Getpid())
	close(goOn)
	codeIs(t, err, sandbox.CodeUnavailable)
	must(t, c.Ping(context.Background()))
	eventually(t, 10*time.Second, "nothing stays open", func() bool { return descriptors(t, os.Getpid()) <= before })
	must(t, c.Err())
}

// TestTraitorKeepsCopy checks what a guest can do that keeps a copy of what it
// has handed over: prevent further connections, and nothing worse.
func TestTraitorKeepsCopy(t *testing.T) {
	serve := func(t *testing.T) (net.Listener, ware) {
		t.Helper()
		fd, at := theirListener(t)
		return tcpListener(t, seller(t, listeningAt(at), func(g traitor) { g.hands(listenerPacket, fd) })), ware{fd, at}
	}
	t.Run("it blocks", func(t *testing.T) {
		l, w := serve(t)
		must(t, unix.SetNonblock(w.fd, false))
		ended := make(chan error)
		go func() { _, err := l.Accept(); ended <- err }()
		must(t, l.Close())
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("its closes wait", func(t *testing.T) {
		l, w := serve(t)
		must(t, unix.SetsockoptLinger(w.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 3600}))
		connectFrom(t, w, loopback4)
		conn, err := l.Accept()
		must(t, err)
		raw, err := conn.(*net.TCPConn).SyscallConn()
		must(t, err)
		must(t, raw.Control(func(fd uintptr) {
			if linger, err := unix.GetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER); err != nil || linger.Onoff != 0 {
				t.Errorf("close waits: %+v, %v", linger, err)
			}
		}))
		must(t, conn.Close())
	})
	t.Run("it ends", func(t *testing.T) {
		l, w := serve(t)
		must(t, unix.Shutdown(w.fd, unix.SHUT_RDWR))
		if _, err := l.Accept(); err == nil {
			t.Error("somebody was accepted")
		}
		must(t, l.Close())
	})
	t.Run("it moves", func(t *testing.T) {
		l, w := serve(t)
		must(t, unix.Shutdown(w.fd, unix.SHUT_RDWR))
		must(t, unix.Bind(w.fd, &unix.SockaddrInet4{Port: int(w.at.Port), Addr: [4]byte{127, 0, 0, 9}}))
		must(t, unix.Listen(w.fd, 8))
		fd := connectFrom(t, w, [4]byte{127, 0, 0, 9})
		within := unix.NsecToTimeval(patience.Nanoseconds())
		must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &within))
		ended := make(chan error, 1)
		go func() {
			conn, err := l.Accept()
			if err == nil {
				err = fmt.Errorf("accepted %v", conn)
			}
			ended <- err
		}()
		if _, err := unix.Read(fd, make([]byte, 1)); err != unix.ECONNRESET {
			t.Errorf("who connected there hears %v", err)
		}
		must(t, l.(interface{ SetDeadline(time.Time) error }).SetDeadline(time.Now()))
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// connectFrom connects to the port of w in its network.
func connectFrom(t testing.TB, w ware, host [4]byte) int {
	t.Helper()
	return connectMany(t, w, host, 1)[0]
}

// connectMany does so n times.
func connectMany(t testing.TB, w ware, host [4]byte, n int) []int {
	t.Helper()
	ns, err := unix.IoctlRetInt(w.fd, unix.SIOCGSKNS)
	must(t, err)
	defer unix.Close(ns)
	return elsewhere(t, func() (fds []int, err error) {
		err = unix.Setns(ns, unix.CLONE_NEWNET)
		for range n {
			fd := -1
			if err == nil {
				fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
				fds = append(fds, fd)
			}
			if err == nil {
				err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(w.at.Port), Addr: host})
			}
		}
		return fds, err
	})
}
