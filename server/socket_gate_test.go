package server

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// A gateRig accepts all connections that its gate admits.
type gateRig struct {
	t    *testing.T
	addr string
	in   chan *socketConn
}

func newGateRig(t *testing.T, r socketRoom) *gateRig {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	g := &gateRig{t, l.Addr().String(), make(chan *socketConn, 64)}
	gated := newGate(r).Listener(l)
	go func() {
		for {
			c, err := gated.Accept()
			if err != nil {
				return
			}
			g.in <- c.(*socketConn)
		}
	}()
	return g
}

// dial connects from that address; the other end is nil where the gate refused
// it.
func (g *gateRig) dial(from string) (net.Conn, *socketConn) {
	g.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(context.Background(), "tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = c.Read(make([]byte, 1)) // until it is closed
	}()
	select {
	case in := <-g.in:
		g.t.Cleanup(func() { in.Close() })
		return c, in
	case <-gone:
		return c, nil
	case <-time.After(10 * time.Second):
		g.t.Fatal("it is neither accepted nor closed")
	}
	return nil, nil
}

// open reports whether the accepted end is still open.
func open(c *socketConn) bool {
	return !errors.Is(c.SetDeadline(time.Now().Add(time.Minute)), net.ErrClosed)
}

func (g *gateRig) wantOpen(want bool, what string, all ...*socketConn) {
	g.t.Helper()
	for i, c := range all {
		if open(c) != want {
			g.t.Errorf("%s, number %d: open is %v", what, i, !want)
		}
	}
}

// TestGate holds that clients that only connect push out the connection that has
// been silent longest, first one of their own address, and never a connection of
// an identified caller.
func TestGate(t *testing.T) {
	g := newGateRig(t, socketRoom{All: 8, Unknown: 5, Each: 3})
	var silent, known []*socketConn
	more := func(from string, to *[]*socketConn) {
		t.Helper()
		_, in := g.dial(from)
		if in == nil {
			t.Fatal("it is not let in")
		}
		*to = append(*to, in)
	}
	more("127.0.0.2", &known)
	known[0].Known()
	known[0].Known() // each request calls it
	for range 5 {
		more("127.0.0.2", &silent)
	}
	g.wantOpen(false, "the oldest of the address", silent[:2]...)
	g.wantOpen(true, "the newest of the address", silent[2:]...)
	var others []*socketConn
	for _, from := range []string{"127.0.0.3", "127.0.0.3", "127.0.0.4"} {
		more(from, &others)
	}
	g.wantOpen(false, "the oldest of all", silent[2])
	g.wantOpen(true, "the others", append(others, silent[3:]...)...)
	g.wantOpen(true, "one that is known", known...)
	for range 7 {
		more("127.0.0.5", &known)
		known[len(known)-1].Known()
	}
	g.wantOpen(false, "what is not known, where all is taken", append(others, silent[3:]...)...)
	g.wantOpen(true, "what is known", known...)
	if _, in := g.dial("127.0.0.6"); in != nil {
		t.Error("there is room for more than all")
	}
	known[3].Close()
	known[3].Close() // counts once
	more("127.0.0.6", &others)
	if _, in := g.dial("127.0.0.7"); in == nil { // in the place of the one before
		t.Error("a silent one keeps another out")
	}
	g.wantOpen(false, "the one before", others[len(others)-1])
}

// TestGateLeavesUnixSocketsAlone holds that unix sockets are neither bounded nor
// counted.
func TestGateLeavesUnixSocketsAlone(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := newGate(socketRoom{}).Listener(l); got != l {
		t.Errorf("it is wrapped as %T", got)
	}
	if r := roomNow(); r.Each < 1 || r.Unknown <= r.Each || r.All <= r.Unknown {
		t.Errorf("%+v", r)
	}
}
