package cli

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// relayed is a pair of a relay with the far end of each of its connections.
type relayed struct{ a, b *net.TCPConn }

type relayRig struct {
	t    *testing.T
	r    *relay
	l    *net.TCPListener
	done atomic.Int64
}

func newRelayRig(t *testing.T) *relayRig {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	g := &relayRig{t: t, r: newRelay(), l: l}
	t.Cleanup(func() {
		g.r.close()
		l.Close()
	})
	return g
}

func (g *relayRig) connected() (ours, theirs *net.TCPConn) {
	g.t.Helper()
	theirs, err := net.DialTCP("tcp", nil, g.l.Addr().(*net.TCPAddr))
	if err != nil {
		g.t.Fatal(err)
	}
	ours, err = g.l.AcceptTCP()
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

// pair joins two connections; plain hides what the relay parks by.
func (g *relayRig) pair(plain bool) relayed {
	g.t.Helper()
	near, a := g.connected()
	far, b := g.connected()
	if plain {
		g.r.join(struct{ net.Conn }{near}, struct{ net.Conn }{far}, func() { g.done.Add(1) })
	} else {
		g.r.join(near, far, func() { g.done.Add(1) })
	}
	return relayed{a, b}
}

func (g *relayRig) passes(from, to *net.TCPConn, size int) {
	g.t.Helper()
	data := make([]byte, size)
	_, _ = rand.Read(data)
	sent := make(chan error, 1)
	go func() { _, err := from.Write(data); sent <- err }()
	got := make([]byte, size)
	_ = to.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadFull(to, got); err != nil || !bytes.Equal(got, data) {
		g.t.Fatalf("%d bytes: %v", size, err)
	}
	if err := <-sent; err != nil {
		g.t.Fatal(err)
	}
}

// TestRelay holds that pairs that are idle have no goroutines, that bytes come through
// as they are however long a pair was idle before, and that each end is passed on.
func TestRelay(t *testing.T) {
	g := newRelayRig(t)
	before := runtime.NumGoroutine()
	var all []relayed
	for range 200 {
		all = append(all, g.pair(false))
	}
	parks := runtime.GOOS == "linux"
	parked := func() bool { return !parks || runtime.NumGoroutine() <= before+4 }
	for range 2 {
		for i, p := range all {
			g.passes(p.a, p.b, 1+i*700)
			g.passes(p.b, p.a, 1)
		}
		testenv.Until(t, "idle pairs have no goroutines", parked)
	}
	p := all[0]
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.a.CloseWrite())
	if n, err := p.b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("the end of one direction: %d, %v", n, err)
	}
	testenv.Until(t, "the other direction is idle", parked)
	g.passes(p.b, p.a, 200_000)
	must(p.b.Close())
	if n, err := p.a.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("the end of the other: %d, %v", n, err)
	}
	testenv.Until(t, "its pair is over", func() bool { return g.done.Load() == 1 })
	p = all[1]
	must(p.a.SetLinger(0))
	must(p.a.Close()) // a reset
	_ = p.b.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := p.b.Read(make([]byte, 1)); err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a reset: %v", err)
	}
	testenv.Until(t, "that pair is over", func() bool { return g.done.Load() == 2 })
	g.r.close()
	for _, p := range all[2:] {
		_ = p.b.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := p.b.Read(make([]byte, 1)); err == nil {
			t.Fatal("a pair outlives its relay")
		}
	}
	testenv.Until(t, "every pair is over, once", func() bool { return g.done.Load() == 200 })
	g.pair(false)
	if g.done.Load() != 201 {
		t.Error("a relay that was closed takes pairs")
	}
}

// TestRelayMuch holds that more connections carry much at once than there are large
// buffers, each its own bytes, and that every large buffer is free afterwards.
func TestRelayMuch(t *testing.T) {
	g := newRelayRig(t)
	const pairs, size = 2 * relayLarge, 4 * relayMost
	var all sync.WaitGroup
	for i := range pairs {
		p := g.pair(false)
		data := bytes.Repeat([]byte{byte(i)}, size)
		all.Go(func() {
			_, _ = p.a.Write(data)
			_ = p.a.CloseWrite()
		})
		all.Go(func() {
			_ = p.b.SetReadDeadline(time.Now().Add(time.Minute))
			if got, err := io.ReadAll(p.b); err != nil || !bytes.Equal(got, data) {
				t.Errorf("pair %d: %d bytes, %v", i, len(got), err)
			}
			_ = p.b.Close()
		})
	}
	all.Wait()
	testenv.Until(t, "every pair is over", func() bool { return g.done.Load() == pairs })
	if free := len(g.r.large); free != relayLarge {
		t.Errorf("%d large buffers are free of %d", free, relayLarge)
	}
}

// TestRelayWithoutParking holds the same of connections that have no sockets.
func TestRelayWithoutParking(t *testing.T) {
	g := newRelayRig(t)
	p := g.pair(true)
	g.passes(p.a, p.b, 300_000)
	g.passes(p.b, p.a, 300_000)
	p.a.Close()
	testenv.Until(t, "the pair is over", func() bool { return g.done.Load() == 1 })
}

// TestRelayRaces ends pairs while they are parked and woken.
func TestRelayRaces(t *testing.T) {
	g := newRelayRig(t)
	const pairs = 300
	for i := range pairs {
		p := g.pair(false)
		time.AfterFunc(relayIdle+time.Duration(i%50-25)*time.Millisecond, func() {
			_, _ = p.a.Write([]byte("x"))
			if i%2 == 0 {
				_ = p.b.SetLinger(0)
			}
			p.b.Close()
		})
		time.AfterFunc(2*relayIdle+time.Duration(i%40-20)*time.Millisecond, func() { p.a.Close() })
	}
	testenv.Until(t, "every pair is over", func() bool { return g.done.Load() == pairs })
}
