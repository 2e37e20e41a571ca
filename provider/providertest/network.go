package providertest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox"
)

// networkChecks hold that connections go to and come from the inside.
func networkChecks() []Check {
	return []Check{
		{Name: "a connection reaches a listener inside", run: onLoopback(netRoundTrip)},
		{Name: "a connection carries much both ways at once", run: onLoopback(netLarge)},
		{Name: "many connections at once are apart", run: onLoopback(netMany)},
		{Name: "a connection outlives its listener, whose address is free", run: onLoopback(netOutlives)},
		{Name: "a port without a listener is reported", run: onLoopback(netRefused)},
		{Name: "the inside is neither the host nor another sandbox", run: onLoopback(netInside)},
		{Name: "dialling under an ended context connects nothing", run: onLoopback(netEnded)},
		{Name: "close of the handle ends its listeners and connections", run: onLoopback(netClosed)},
	}
}

// A netRig is a sandbox that can dial and listen.
type netRig struct {
	*rig
	spec sandbox.Spec
	sb   sandbox.Sandbox
	sandbox.Dialer
	sandbox.Listener
}

// onLoopback makes a check that needs both abilities: without the one nothing
// portable is there to try the other on.
func onLoopback(check func(*netRig)) func(*rig) {
	return func(r *rig) {
		if f := r.p.Features(); !f.Dial || !f.Listen {
			r.Skip("the provider says that it cannot both dial and listen")
		}
		s, sb := r.box("a")
		check(r.network(s, sb))
	}
}

func (r *rig) network(s sandbox.Spec, sb sandbox.Sandbox) *netRig {
	r.Helper()
	n := &netRig{rig: r, spec: s, sb: sb}
	var dials, listens bool
	n.Dialer, dials = sb.(sandbox.Dialer)
	n.Listener, listens = sb.(sandbox.Listener)
	if !dials || !listens {
		r.Fatalf("features say that the sandbox dials and listens; by type it dials: %v, listens: %v", dials, listens)
	}
	return n
}

func (n *netRig) listen() net.Listener {
	n.Helper()
	l, err := n.Listen(n.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		n.Fatalf("Listen: %v", err)
	}
	n.Cleanup(func() { l.Close() })
	return l
}

func (n *netRig) dial(addr string) net.Conn {
	n.Helper()
	c, err := n.Dial(n.ctx, "tcp", addr)
	if err != nil {
		n.Fatalf("Dial(%s): %v", addr, err)
	}
	n.Cleanup(func() { c.Close() })
	return c
}

// echoing answers every connection with what it says, until l is closed.
func echoing(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			io.Copy(c, c) // the end of either side ends it
		}()
	}
}

// exchange says text and holds that it comes back.
func (n *netRig) exchange(c net.Conn, text string) {
	n.Helper()
	n.within(n.h.Patience, "an exchange", func() {
		if _, err := io.WriteString(c, text); err != nil {
			n.Errorf("writing to the connection: %v", err)
		}
		got := make([]byte, len(text))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
			n.Errorf("%q came back, %v; want %q", got, err, text)
		}
	})
}

func netRoundTrip(n *netRig) {
	l := n.listen()
	if addr, ok := l.Addr().(*net.TCPAddr); !ok || addr.Port == 0 || !addr.IP.IsLoopback() {
		n.Errorf("the listener is at %v", l.Addr())
	}
	go echoing(l)
	c := n.dial(l.Addr().String())
	n.exchange(c, "hello")
	n.exchange(c, everyByte())
	// Through another handle it is the same loopback.
	other := n.network(n.spec, n.open(n.spec))
	n.exchange(other.dial(l.Addr().String()), "hello")
	if err := c.Close(); err != nil {
		n.Errorf("Close: %v", err)
	}
	if _, err := c.Write([]byte("x")); err == nil {
		n.Error("a closed connection takes bytes")
	}
	if err := l.Close(); err != nil {
		n.Errorf("Close of the listener: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		n.Errorf("Accept after Close: %v, want net.ErrClosed", err)
	}
	n.refused(n.sb, l.Addr().String())
}

func netLarge(n *netRig) {
	l := n.listen()
	go echoing(l)
	c := n.dial(l.Addr().String())
	want := strings.Repeat(everyByte(), 16<<10) // 4 MiB
	go io.WriteString(c, want)                  // a failure shows in what comes back
	n.within(n.h.Patience, "the way there and back", func() {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			n.Errorf("%v, or other bytes came back than went", err)
		}
	})
}

func netMany(n *netRig) {
	l := n.listen()
	go echoing(l)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			c, err := n.Dial(n.ctx, "tcp", l.Addr().String())
			if err != nil {
				n.Errorf("Dial: %v", err)
				return
			}
			defer c.Close()
			text := strings.Repeat(string(rune('a'+i)), 10_000)
			got := make([]byte, len(text))
			go io.WriteString(c, text) // a failure shows in what comes back
			if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
				n.Errorf("connection %d: %v, or another's bytes", i, err)
			}
		})
	}
	n.within(n.h.Patience, "20 connections", wg.Wait)
}

func netOutlives(n *netRig) {
	l := n.listen()
	c := n.dial(l.Addr().String())
	far, err := l.Accept()
	if err != nil {
		n.Fatalf("Accept: %v", err)
	}
	defer far.Close()
	if err := l.Close(); err != nil {
		n.Errorf("Close: %v", err)
	}
	go io.Copy(far, far) // the end of either side ends it
	n.exchange(c, "hello")
	again, err := n.Listen(n.ctx, "tcp", l.Addr().String())
	if err != nil {
		n.Errorf("Listen where a program has listened: %v", err)
		return
	}
	defer again.Close()
	if again.Addr().String() != l.Addr().String() {
		n.Errorf("the listener is at %v, want %v", again.Addr(), l.Addr())
	}
}

// refused checks that a connection through sb to addr reaches no listener.
func (n *netRig) refused(sb sandbox.Sandbox, addr string) {
	n.Helper()
	n.within(n.h.Patience, "Dial", func() {
		c, err := sb.(sandbox.Dialer).Dial(n.ctx, "tcp", addr)
		if err == nil {
			c.Close()
		}
		n.wantCode("Dial of "+addr, err, sandbox.CodeUnavailable, sandbox.CodeExecution)
	})
}

func netRefused(n *netRig) {
	l := n.listen()
	addr := l.Addr().String()
	_, err := n.Listen(n.ctx, "tcp", addr)
	n.wantCode("Listen where a program listens", err, sandbox.CodeBusy)
	if err := l.Close(); err != nil {
		n.Errorf("Close: %v", err)
	}
	n.refused(n.sb, addr)
	for _, addr := range []string{"", "127.0.0.1", "example.com:80", "127.0.0.1:99999", "127.0.0.1:x"} {
		_, err := n.Dial(n.ctx, "tcp", addr)
		n.wantCode("Dial of "+addr, err, sandbox.CodeValidation)
	}
}

func netInside(n *netRig) {
	l := n.listen()
	addr := l.Addr().String()
	accepted := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			accepted <- err.Error()
			return
		}
		defer c.Close()
		text := make([]byte, 6)
		n, _ := io.ReadFull(c, text) // less shows
		accepted <- string(text[:n])
	}()
	// The host, or another sandbox, may have a listener of its own at the same
	// port; it must not be this one.
	if c, err := net.Dial("tcp", addr); err == nil {
		io.WriteString(c, "evil  ")
		c.Close()
	}
	_, other := n.box("b")
	n.refused(other, addr)
	io.WriteString(n.dial(addr), "inside")
	n.within(n.h.Patience, "Accept", func() {
		if got := <-accepted; got != "inside" {
			n.Errorf("the first who came in said %q", got)
		}
	})
	// The host's own listeners are not inside.
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.Fatalf("listening on the host: %v", err)
	}
	defer host.Close()
	n.refused(n.sb, host.Addr().String())
}

func netEnded(n *netRig) {
	l := n.listen()
	ctx, cancel := context.WithCancel(n.ctx)
	cancel()
	_, err := n.Dial(ctx, "tcp", l.Addr().String())
	n.wantCode("Dial", err, sandbox.CodeTimeout, sandbox.CodeUnavailable)
	_, err = n.Listen(ctx, "tcp", "127.0.0.1:0")
	n.wantCode("Listen", err, sandbox.CodeTimeout, sandbox.CodeUnavailable)
}

func netClosed(n *netRig) {
	l := n.listen()
	other := n.network(n.spec, n.open(n.spec))
	c := other.dial(l.Addr().String())
	far, err := l.Accept()
	if err != nil {
		n.Fatalf("Accept: %v", err)
	}
	defer far.Close()
	if err := n.sb.Close(); err != nil {
		n.Errorf("Close: %v", err)
	}
	n.within(n.h.Patience, "the end of the connection", func() {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			n.Error("the connection goes on")
		}
		if _, err := l.Accept(); err == nil {
			n.Error("the listener goes on")
		}
	})
	_, err = n.Dial(n.ctx, "tcp", l.Addr().String())
	n.wantCode("Dial after Close", err, sandbox.CodeUnavailable)
	n.refused(other.sb, l.Addr().String())
}
