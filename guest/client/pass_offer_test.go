package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// offers sends bytes with descriptors to the socket of a guest.
func offers(t testing.TB, conn net.Conn, b []byte, fds ...int) {
	t.Helper()
	_, _, err := conn.(*net.UnixConn).WriteMsgUnix(b, unix.UnixRights(fds...), nil)
	must(t, err)
}

func clientHello() []byte {
	return wire.AppendFrame(nil, wire.Frame{Type: wire.TypeHello, Payload: wire.ClientHello{Min: 1, Max: 1}.Encode()})
}

// TestOfferRefused sends with the first bytes what is no channel for
// descriptors: the guest says so, goes away, and keeps nothing.
func TestOfferRefused(t *testing.T) {
	g := startGuest(t)
	g.rest(g.client(client.Options{}))
	_, channel := socketPair(t, unix.SOCK_SEQPACKET)
	_, stream := socketPair(t, unix.SOCK_STREAM)
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	fd := int(channel.Fd())
	many := make([]int, 253)
	for i := range many {
		many[i] = fd
	}
	inet, _, err := bound(unix.SOCK_STREAM, 0, loopback4, true)
	must(t, err)
	defer unix.Close(inet)
	before := descriptors(t, g.pid())
	ping := wire.AppendFrame(nil, wire.Frame{Type: wire.TypePing})
	for name, b := range map[string][]byte{"no hello": ping, "half a hello": clientHello()[:5], "garbage": []byte("GET / HTTP/1.1\r\n\r\n")} {
		t.Run("a channel with "+name, func(t *testing.T) {
			conn := g.connect()
			offers(t, conn, b, fd)
			g.reads(t, conn)
			conn.Close()
			eventually(t, 10*time.Second, "the guest closes it", func() bool { return descriptors(t, g.pid()) <= before })
		})
	}
	for name, fds := range map[string][]int{
		"two channels":            {fd, fd},
		"a channel and a pipe":    {fd, int(r.Fd())},
		"a pipe":                  {int(r.Fd())},
		"a stream":                {int(stream.Fd())},
		"a listener":              {inet},
		"a file in memory":        {memory(t, "x")},
		"as many as there can be": many,
	} {
		t.Run(name, func(t *testing.T) {
			conn := g.connect()
			defer conn.Close()
			offers(t, conn, clientHello(), fds...)
			must(t, conn.SetReadDeadline(time.Now().Add(forwardWithin)))
			f, err := wire.NewReader(conn, wire.MaxData).Next()
			if err != nil || f.Type != wire.TypeGoAway {
				t.Errorf("got %#x, %v", f.Type, err)
			}
			eventually(t, 10*time.Second, "the guest closes it all", func() bool { return descriptors(t, g.pid()) <= before })
		})
	}
}

// TestOfferTaken holds when an offer counts: with the first bytes, however few
// they are, and not later.
func TestOfferTaken(t *testing.T) {
	g := startGuest(t)
	g.rest(g.client(client.Options{}))
	before := descriptors(t, g.pid())
	_, channel := socketPair(t, unix.SOCK_SEQPACKET)
	fd, hello := int(channel.Fd()), clientHello()
	for name, tt := range map[string]struct {
		say   func(t *testing.T, conn net.Conn)
		taken bool
		more  int // descriptors of the guest
	}{
		"with all of it":          {func(t *testing.T, c net.Conn) { offers(t, c, hello, fd) }, true, 2},
		"with its first byte":     {func(t *testing.T, c net.Conn) { offers(t, c, hello[:1], fd); offers(t, c, hello[1:]) }, true, 2},
		"with its last bytes":     {func(t *testing.T, c net.Conn) { offers(t, c, hello[:1]); g.reads(t, c); offers(t, c, hello[1:], fd) }, false, 1},
		"none":                    {func(t *testing.T, c net.Conn) { offers(t, c, hello) }, false, 1},
		"none, and no descriptor": {func(t *testing.T, c net.Conn) { _, err := c.Write(hello); must(t, err) }, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			eventually(t, 10*time.Second, "nothing is open", func() bool { return descriptors(t, g.pid()) <= before })
			conn := g.connect()
			defer conn.Close()
			tt.say(t, conn)
			must(t, conn.SetReadDeadline(time.Now().Add(forwardWithin)))
			r := wire.NewReader(conn, wire.MaxData)
			f, err := r.Next()
			must(t, err)
			m, err := wire.DecodeHello(f.Payload)
			must(t, err)
			if m.Has(wire.FeaturePass) != tt.taken || m.Has(wire.FeatureKeptShell) {
				t.Errorf("the guest has %v", m.Features)
			}
			if got := descriptors(t, g.pid()) - before; got != tt.more {
				t.Errorf("the guest has %d more descriptors, want %d", got, tt.more)
			}
			// What comes later is lost in the kernel.
			offers(t, conn, wire.AppendFrame(nil, wire.Frame{Type: wire.TypePing}), fd, fd)
			if f, err = r.Next(); err != nil || f.Type != wire.TypePong {
				t.Errorf("got %#x, %v", f.Type, err)
			}
			if got := descriptors(t, g.pid()) - before; got != tt.more {
				t.Errorf("then it has %d more descriptors, want %d", got, tt.more)
			}
		})
	}
}

// reads waits until the guest has read what was sent.
func (g *guest) reads(t testing.TB, conn net.Conn) {
	t.Helper()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	must(t, err)
	eventually(t, 10*time.Second, "the guest reads", func() bool {
		left := -1
		must(t, raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) }))
		must(t, err)
		return left == 0
	})
}

// TestOfferToOlderGuest offers a channel to one that knows nothing of it:
// frames carry what comes, and nothing of the offer stays.
func TestOfferToOlderGuest(t *testing.T) {
	before := descriptors(t, os.Getpid())
	a, b := socketPair(t, unix.SOCK_STREAM)
	conn, err := net.FileConn(a)
	must(t, err)
	a.Close()
	theirs, err := net.FileConn(b)
	must(t, err)
	b.Close()
	asked := make(chan wire.Type, 1)
	go func() {
		r, w := wire.NewReader(theirs, wire.MaxRequest), wire.NewWriter(theirs)
		_, _ = r.Next()
		hello := wire.Hello{Version: wire.Version, Features: []string{wire.FeatureForward}}
		_ = w.Write(wire.Frame{Type: wire.TypeHello, Payload: hello.Encode()})
		f, _ := r.Next()
		asked <- f.Type
		_ = w.Write(listening)
		_, _ = io.Copy(io.Discard, theirs)
	}()
	c, err := client.New(context.Background(), conn, client.Options{Offer: true})
	must(t, err)
	_, err = c.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if got := <-asked; err != nil || got != wire.TypeListen {
		t.Errorf("asked for %#x, %v", got, err)
	}
	if got := descriptors(t, os.Getpid()); got > before+2 {
		t.Errorf("%d descriptors more are open than the connection", got-before-2)
	}
	theirs.Close()
	c.Close()
}

// TestOfferedShells holds that the offer changes nothing for shells.
func TestOfferedShells(t *testing.T) {
	c := startGuest(t).client(client.Options{Offer: true})
	s, err := c.OpenShell(context.Background(), sandbox.ShellOptions{}, sandbox.Limits{})
	must(t, err)
	if _, keeps := s.(client.StateKeeper); keeps {
		t.Error("the shell keeps its state")
	}
	must(t, s.Close())
}

// TestPassNeedsChannel checks what a guest without a channel answers, and that
// what is handed over to a client that disconnects is closed.
func TestPassNeedsChannel(t *testing.T) {
	g := startGuest(t)
	ask := func(t *testing.T, fds ...int) (*wire.Reader, net.Conn) {
		conn := g.connect()
		must(t, conn.SetReadDeadline(time.Now().Add(forwardWithin)))
		offers(t, conn, clientHello(), fds...)
		r := wire.NewReader(conn, wire.MaxData)
		_, err := r.Next()
		must(t, err)
		pass := wire.Pass{At: ip4(0), Ticket: 1}
		must(t, wire.NewWriter(conn).Write(wire.Frame{Type: wire.TypePass, Stream: 1, Payload: pass.Encode()}))
		return r, conn
	}
	r, conn := ask(t)
	f, err := r.Next()
	must(t, err)
	m, err := wire.DecodeFailed(f.Payload)
	if f.Type != wire.TypeFailed || err != nil || m.Kind != wire.KindUnsupported {
		t.Errorf("got %#x, %+v", f.Type, m)
	}
	conn.Close()
	ours, channel := socketPair(t, unix.SOCK_SEQPACKET)
	r, conn = ask(t, int(channel.Fd()))
	channel.Close()
	if f, err = r.Next(); err != nil || f.Type != wire.TypeListening {
		t.Fatalf("got %#x, %v", f.Type, err)
	}
	if got := listeners(t, g.pid()); got != 1 {
		t.Errorf("%d sockets listen", got)
	}
	must(t, ours.Close()) // with the socket in it
	eventually(t, 10*time.Second, "nothing listens", func() bool { return listeners(t, g.pid()) == 0 })
	must(t, conn.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	if _, err := r.Next(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection: %v", err)
	}
	conn.Close()
}
