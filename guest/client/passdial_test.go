package client_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// TestPassedDial holds that a connection is the socket inside itself: the guest
// keeps no descriptor of it, and has no bound for how many there are.
func TestPassedDial(t *testing.T) {
	passing(t, func(t *testing.T, g *guest, c *client.Client) {
		for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
			l := listen(t, c, "tcp", addr)
			inside, ours := descriptors(t, g.pid()), descriptors(t, os.Getpid())
			var near, far []net.Conn
			for range 1100 { // more than the guest carries itself
				n := dial(t, c, "tcp", l.Addr().String())
				f, err := l.Accept()
				must(t, err)
				if n.RemoteAddr().String() != l.Addr().String() || n.LocalAddr().String() != f.RemoteAddr().String() {
					t.Fatalf("%v is connected to %v, and %v to %v", n.LocalAddr(), n.RemoteAddr(), f.LocalAddr(), f.RemoteAddr())
				}
				near, far = append(near, n), append(far, f)
			}
			eventually(t, time.Second, "the guest holds nothing", func() bool { return descriptors(t, g.pid()) <= inside })
			echoed(t, near[0], far[0])
			echoed(t, far[1099], near[1099])
			for i := range near {
				must(t, near[i].Close())
				must(t, far[i].Close())
			}
			if _, err := near[0].Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("written after its close: %v", err)
			}
			eventually(t, time.Second, "nothing stays open", func() bool { return descriptors(t, os.Getpid()) <= ours })
			must(t, l.Close())
			_, err := c.Dial(context.Background(), "tcp", l.Addr().String())
			if !errors.Is(err, syscall.ECONNREFUSED) || sandbox.CodeOf(err) != sandbox.CodeExecution {
				t.Errorf("where no program listens: %v", err)
			}
		}
		must(t, c.Ping(context.Background()))
	})
}

// TestPassedDialAbandoned ends the wait for a connection that is not answered: a
// listener takes no more than its queue holds, and what is dialled beyond that
// waits. Nothing of it stays open, here or inside.
func TestPassedDialAbandoned(t *testing.T) {
	passing(t, func(t *testing.T, g *guest, c *client.Client) {
		fd, err := unix.Open("/proc/"+strconv.Itoa(g.pid())+"/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(fd)
		var at wire.Endpoint
		made := make(chan error)
		go func() {
			made <- inNetwork(func() error { return unix.Setns(fd, unix.CLONE_NEWNET) }, func() error {
				full, where, err := bound(unix.SOCK_STREAM, 0, loopback4, false)
				t.Cleanup(func() { unix.Close(full) })
				at = where
				if err == nil {
					err = unix.Listen(full, 0)
				}
				return err
			})
		}()
		must(t, <-made)
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(at.Port)))
		first := dial(t, c, "tcp", addr) // is in the queue
		inside, ours := descriptors(t, g.pid()), descriptors(t, os.Getpid())
		for range 8 {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			conn, err := c.Dial(ctx, "tcp", addr)
			cancel()
			if err == nil { // the kernel queues one more than it is asked to
				defer conn.Close()
				ours++
				continue
			}
			codeIs(t, err, sandbox.CodeTimeout)
		}
		eventually(t, 10*time.Second, "nothing stays open here", func() bool { return descriptors(t, os.Getpid()) <= ours })
		eventually(t, 10*time.Second, "nothing stays open inside", func() bool { return descriptors(t, g.pid()) <= inside })
		must(t, first.Close())
		must(t, c.Ping(context.Background()))
	})
}

// TestPassedDialEnds ends the client, the connection between it and the guest, and
// the guest: what was dialled ends, with the reason.
func TestPassedDialEnds(t *testing.T) {
	for name, end := range map[string]func(g *guest, c *client.Client, raw net.Conn){
		"closed":       func(_ *guest, c *client.Client, _ net.Conn) { c.Close() },
		"cut":          func(_ *guest, _ *client.Client, raw net.Conn) { raw.Close() },
		"guest killed": func(g *guest, _ *client.Client, _ net.Conn) { _ = g.cmd.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			g := startGuest(t)
			other := g.client(client.Options{Offer: true})
			l := listen(t, other, "tcp", "127.0.0.1:0")
			known := goleak.IgnoreCurrent()
			raw := g.connect()
			c, err := client.New(context.Background(), raw, client.Options{Name: "box", Offer: true})
			must(t, err)
			near := dial(t, c, "tcp", l.Addr().String())
			far, err := l.Accept()
			must(t, err)
			echoed(t, near, far)
			must(t, near.SetDeadline(time.Time{}))
			waits := make(chan error, 1)
			go func() { _, err := near.Read(make([]byte, 1)); waits <- err }()
			end(g, c, raw)
			<-c.Done()
			codeIs(t, <-waits, sandbox.CodeUnavailable)
			if name != "guest killed" { // with which the other client has ended too
				if _, err := far.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("the other end hears %v", err)
				}
			}
			c.Close()
			goleak.VerifyNone(t, known)
		})
	}
}

func connectedAt(to wire.Endpoint) wire.Frame {
	return wire.Frame{Type: wire.TypeConnected, Payload: wire.Connected{Local: ip4(9), Remote: to}.Encode()}
}

// connectionPacket is a packet about one connection for the first ticket.
const connectionPacket = "BKFD\x04\x01\x00\x00\x01\x00\x00\x00"

// connection is a connected TCP socket, and the address that it is connected to, in
// a network of its own or of the host.
func connection(t testing.TB, ofHost bool) (w ware) {
	t.Helper()
	do := func() (fds []int, err error) {
		l, at, err := bound(unix.SOCK_STREAM, 0, loopback4, true)
		if err != nil {
			return nil, err
		}
		fd, _, err := bound(unix.SOCK_STREAM, 0, loopback4, false)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(at.Port), Addr: loopback4})
		}
		w = ware{fd, at}
		return []int{l, fd}, err
	}
	if !ofHost {
		elsewhere(t, do)
		return w
	}
	fds, err := do()
	must(t, err)
	t.Cleanup(func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	})
	return w
}

// TestTraitorSellsConnection holds that of what a guest hands over nothing is taken
// but a TCP socket of its own network that is connected to where it was asked to.
func TestTraitorSellsConnection(t *testing.T) {
	good, host := connection(t, false), connection(t, true)
	listening := wareOf(t, func() (int, wire.Endpoint, error) { return bound(unix.SOCK_STREAM, 0, loopback4, true) })
	other := good
	other.at.Port++
	sends := func(packet string, fds ...int) func(g traitor) {
		return func(g traitor) { g.hands(packet, fds...) }
	}
	for name, tt := range map[string]struct {
		asked  wire.Endpoint
		answer wire.Frame
		do     func(g traitor)
	}{
		"of the host":             {host.at, connectedAt(host.at), sends(connectionPacket, host.fd)},
		"to another port":         {other.at, connectedAt(other.at), sends(connectionPacket, good.fd)},
		"that it says is another": {good.at, connectedAt(other.at), sends(connectionPacket, good.fd)},
		"a listener":              {listening.at, connectedAt(listening.at), sends(connectionPacket, listening.fd)},
		"as a listener":           {good.at, connectedAt(good.at), sends(listenerPacket, good.fd)},
		"two":                     {good.at, connectedAt(good.at), sends("BKFD\x04\x02\x00\x00\x01\x00\x00\x00", good.fd, good.fd)},
		"twice":                   {good.at, connectedAt(good.at), func(g traitor) { g.hands(connectionPacket, good.fd); g.hands(connectionPacket, good.fd) }},
		"a UDP socket":            {ip4(7), connectedAt(ip4(7)), sends(connectionPacket, wareOf(t, func() (int, wire.Endpoint, error) { return bound(unix.SOCK_DGRAM, 0, loopback4, false) }).fd)},
		"a Unix socket":           {ip4(7), connectedAt(ip4(7)), sends(connectionPacket, wareOf(t, unixListener).fd)},
		"a file":                  {ip4(7), connectedAt(ip4(7)), sends(connectionPacket, memory(t, "x"))},
		"the end of the channel":  {good.at, connectedAt(good.at), func(g traitor) { g.side.Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			before := descriptors(t, os.Getpid())
			c := seller(t, tt.answer, tt.do)
			conn, err := c.Dial(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(tt.asked.Port))))
			if err == nil { // what is wrong comes after what was right
				<-c.Done()
				err = c.Err()
				_ = conn.Close() // by the end of the client already
			}
			codeIs(t, err, sandbox.CodeUnavailable)
			if !strings.Contains(err.Error(), "protocol") {
				t.Errorf("got %v", err)
			}
			c.Close()
			eventually(t, 10*time.Second, "nothing stays open", func() bool { return descriptors(t, os.Getpid()) <= before })
		})
	}
	t.Run("one that has broken", func(t *testing.T) {
		fd := wareOf(t, func() (int, wire.Endpoint, error) { return bound(unix.SOCK_STREAM, 0, loopback4, false) }).fd
		c := seller(t, connectedAt(ip4(7)), sends(connectionPacket, fd))
		conn := dial(t, c, "tcp", "127.0.0.1:7")
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ENOTCONN) {
			t.Errorf("read: %v", err)
		}
		must(t, c.Err())
	})
}

// TestTraitorKeepsConnection holds that a guest with a copy of a socket that it has
// made block holds up neither a call with a deadline nor a close.
func TestTraitorKeepsConnection(t *testing.T) {
	w := connection(t, false)
	c := seller(t, connectedAt(w.at), func(g traitor) { g.hands(connectionPacket, w.fd) })
	conn := dial(t, c, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(w.at.Port))))
	must(t, unix.SetNonblock(w.fd, false))
	must(t, unix.SetsockoptLinger(w.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 3600}))
	must(t, conn.SetDeadline(time.Now().Add(50*time.Millisecond)))
	began := time.Now()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
	if _, err := conn.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write: %v", err)
	}
	must(t, conn.SetDeadline(time.Time{}))
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		close(begun)
		_, err := conn.Read(make([]byte, 1))
		ended <- err
	}()
	<-begun
	must(t, conn.Close())
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the read that waited: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
