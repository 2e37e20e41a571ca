package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"go.uber.org/goleak"
)

// TestPassedListener holds what a listener is whose socket was handed over.
func TestPassedListener(t *testing.T) {
	passing(t, func(t *testing.T, g *guest, c *client.Client) {
		if !c.Hello().Has(wire.FeaturePass) {
			t.Fatalf("the guest has %v", c.Hello().Features)
		}
		for _, tt := range []struct{ network, addr string }{
			{"tcp", "127.0.0.1:0"}, {"tcp4", "localhost:0"}, {"tcp6", "[::1]:0"}, {"tcp", "0.0.0.0:0"}, {"tcp", "[::]:0"}, {"tcp", "127.0.0.1:7345"},
		} {
			l := listen(t, c, tt.network, tt.addr)
			if got := listeners(t, g.pid()); got != 1 {
				t.Fatalf("%s: %d sockets listen inside", tt.addr, got)
			}
			_, port, err := net.SplitHostPort(l.Addr().String())
			must(t, err)
			host := "127.0.0.1"
			if l.Addr().(*net.TCPAddr).IP.To4() == nil {
				host = "::1"
			}
			near := dial(t, c, "tcp", net.JoinHostPort(host, port))
			far, err := l.Accept()
			must(t, err)
			if _, ok := far.(*net.TCPConn); !ok {
				t.Fatalf("Accept returned a %T", far)
			}
			if far.RemoteAddr().String() != near.LocalAddr().String() {
				t.Errorf("it came from %v, and is %v", far.RemoteAddr(), near.LocalAddr())
			}
			if conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), time.Second); err == nil {
				// The port of another program may have that number. What
				// reaches ours is accepted before what comes later.
				next := dial(t, c, "tcp", net.JoinHostPort(host, port))
				got, err := l.Accept()
				must(t, err)
				if got.RemoteAddr().String() != next.LocalAddr().String() {
					t.Errorf("%s is open on the host", l.Addr())
				}
				conn.Close()
				next.Close()
				got.Close()
			}
			within := closes(t, time.Second, l.Close)
			eventually(t, within, tt.addr+" is closed inside", func() bool { return listeners(t, g.pid()) == 0 })
			if err := l.Close(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Close again: %v", err)
			}
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Accept after Close: %v", err)
			}
			echoed(t, near, far) // it has outlived its listener
			far.Close()
		}
		must(t, c.Ping(context.Background()))
	})
}

// TestPassedAcceptEnds ends an Accept that waits in three ways.
func TestPassedAcceptEnds(t *testing.T) {
	passing(t, func(t *testing.T, _ *guest, c *client.Client) {
		l := tcpListener(t, c)
		ends := make(chan error)
		accept := func() { _, err := l.Accept(); ends <- err }
		must(t, l.(interface{ SetDeadline(time.Time) error }).SetDeadline(time.Now().Add(time.Millisecond)))
		go accept()
		if err := <-ends; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("at the deadline: %v", err)
		}
		must(t, l.(interface{ SetDeadline(time.Time) error }).SetDeadline(time.Time{}))
		go accept()
		must(t, l.Close())
		if err := <-ends; !errors.Is(err, net.ErrClosed) {
			t.Errorf("at Close: %v", err)
		}
		l = tcpListener(t, c)
		go accept()
		c.Close()
		codeIs(t, <-ends, sandbox.CodeUnavailable)
	})
}

// TestPassedErrors holds that they are those of any listener.
func TestPassedErrors(t *testing.T) {
	passing(t, func(t *testing.T, g *guest, c *client.Client) {
		l := tcpListener(t, c)
		before := descriptors(t, os.Getpid())
		for addr, want := range map[string]error{l.Addr().String(): syscall.EADDRINUSE, "192.0.2.1:0": syscall.EADDRNOTAVAIL, "127.0.0.1:80": syscall.EACCES} {
			_, err := c.Listen(context.Background(), "tcp", addr)
			code := sandbox.CodeExecution
			if want == syscall.EADDRINUSE {
				code = sandbox.CodeBusy
			}
			var e *sandbox.Error
			if !errors.Is(err, want) || !errors.As(err, &e) || e.Code != code || e.Resource != "box" || e.Field != "addr" {
				t.Errorf("%s: %v", addr, err)
			}
		}
		if got := descriptors(t, os.Getpid()); got > before {
			t.Errorf("%d descriptors are open, there were %d", got, before)
		}
		if got := listeners(t, g.pid()); got != 1 {
			t.Errorf("%d sockets listen", got)
		}
	})
}

// TestPassedEnds ends the guest and the client, and the connection between
// them: nothing listens any more, and both ends of what was accepted hear of
// it; programs by a reset, so that a part is not taken for all.
func TestPassedEnds(t *testing.T) {
	for name, end := range map[string]func(g *guest, c *client.Client, raw net.Conn){
		"closed":       func(_ *guest, c *client.Client, _ net.Conn) { c.Close() },
		"cut":          func(_ *guest, _ *client.Client, raw net.Conn) { raw.Close() },
		"guest killed": func(g *guest, _ *client.Client, _ net.Conn) { _ = g.cmd.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			g := startGuest(t)
			other := g.client(client.Options{})
			known, before := goleak.IgnoreCurrent(), descriptors(t, os.Getpid())
			raw := g.connect()
			c, err := client.New(context.Background(), raw, client.Options{Name: "box", Offer: true})
			must(t, err)
			l, closed := tcpListener(t, c), tcpListener(t, c)
			theirs, older := dial(t, other, "tcp", l.Addr().String()), dial(t, other, "tcp", closed.Addr().String())
			ours, err := l.Accept()
			must(t, err)
			_, err = closed.Accept() // what its listener has left behind
			must(t, err)
			must(t, closed.Close())
			waiting := dial(t, other, "tcp", l.Addr().String()) // never accepted
			echoed(t, ours, theirs)
			must(t, ours.SetDeadline(time.Time{}))
			read := make(chan error)
			go func() { _, err := ours.Read(make([]byte, 1)); read <- err }()
			end(g, c, raw)
			<-c.Done()
			if err := <-read; err == nil {
				t.Error("the connection goes on")
			}
			late, err := l.Accept()
			if err == nil { // it came before the listener knew of the end
				must(t, late.SetReadDeadline(time.Now().Add(forwardWithin)))
				if _, err := late.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("what was accepted at the end goes on: %v", err)
				}
				late.Close()
				_, err = l.Accept()
			}
			codeIs(t, err, sandbox.CodeUnavailable)
			_, err = c.Listen(context.Background(), "tcp", "127.0.0.1:0")
			codeIs(t, err, sandbox.CodeUnavailable)
			if name != "guest killed" {
				for _, conn := range []net.Conn{theirs, older, waiting} {
					must(t, conn.SetReadDeadline(time.Now().Add(forwardWithin)))
					if _, err := io.Copy(io.Discard, conn); !errors.Is(err, syscall.ECONNRESET) {
						t.Errorf("who is inside hears %v", err)
					}
				}
				if got := listeners(t, g.pid()); got != 0 {
					t.Errorf("%d sockets listen", got)
				}
			}
			for _, conn := range []net.Conn{theirs, older, waiting} {
				conn.Close()
			}
			c.Close()
			eventually(t, 10*time.Second, "nothing stays open", func() bool { return descriptors(t, os.Getpid()) <= before })
			testenv.None(t, known)
		})
	}
}
