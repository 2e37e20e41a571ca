package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestBothWays(t *testing.T) {
	r := newRig(t, ForwardOptions{})
	l := r.open()
	if l.Addr().String() != r.inner.Addr().String() || l.Addr().Network() != "tcp" {
		t.Errorf("it says that it listens at %v", l.Addr())
	}
	p, c := r.pair(l)
	if got, ok := c.RemoteAddr().(*net.TCPAddr); !ok || got.String() != p.LocalAddr().String() || c.LocalAddr().String() != l.Addr().String() {
		t.Errorf("the connection is from %v to %v", c.RemoteAddr(), c.LocalAddr())
	}
	r.says(p, c, "hello")
	r.says(c, p, "hello yourself")
	want := large()
	go p.Write(want) // a failure shows in what comes
	go c.Write(want)
	var both sync.WaitGroup
	for _, from := range []io.Reader{p, c} {
		both.Go(func() {
			got := make([]byte, len(want))
			if _, err := io.ReadFull(from, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v, or other bytes came than went", err)
			}
		})
	}
	both.Wait()
}

// TestHalves holds that each direction ends independently of the other.
func TestHalves(t *testing.T) {
	r := newRig(t, ForwardOptions{})
	l := r.open()
	p, c := r.pair(l)
	r.says(p, c, "question")
	must(t, p.CloseWrite())
	r.ends(c)
	r.says(c, p, "answer")
	must(t, c.(interface{ CloseWrite() error }).CloseWrite())
	r.ends(p)
	if _, err := c.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a write after the end: %v", err)
	}
}

// TestCloseDelivers holds that what was written before a close arrives, followed
// by the end, whatever the program does meanwhile.
func TestCloseDelivers(t *testing.T) {
	r := newRig(t, ForwardOptions{})
	l := r.open()
	p, c := r.pair(l)
	text := strings.Repeat("0123456789", 10_000) // less than a window
	_, err := io.WriteString(c, text)
	must(t, err)
	must(t, c.Close())
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("another close: %v", err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read: %v", err)
	}
	r.hears(p, text)
	r.ends(p)
}

// TestBreaksAreReported holds that a broken connection is an error at the reader,
// which never takes a part for the whole.
func TestBreaksAreReported(t *testing.T) {
	r := newRig(t, ForwardOptions{})
	l := r.open()
	p, c := r.pair(l)
	r.says(p, c, "part")
	must(t, p.SetLinger(0))
	must(t, p.Close())
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) || sandbox.CodeOf(err) != sandbox.CodeExecution {
		t.Errorf("what the program has broken reads %v", err)
	}
	p, c = r.pair(l)
	r.says(c, p, "part")
	r.end() // as a daemon that goes down
	if _, err := p.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("what the daemon has broken reads %v", err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("and at the client %v", err)
	}
	if _, err := l.Accept(); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("Accept: %v", err)
	}
	r.awaitServed()
	r.refused()
}

// TestSlowReaders holds that a reader that does not read delays no other
// connection, and that little is buffered for it.
func TestSlowReaders(t *testing.T) {
	r := newRig(t, ForwardOptions{})
	l := r.open()
	slowProgram, c1 := r.pair(l)
	p2, slowClient := r.pair(l)
	p3, c3 := r.pair(l)
	stuck := func(w net.Conn) int {
		t.Helper()
		must(t, w.SetWriteDeadline(time.Now().Add(2*time.Second)))
		n, err := w.Write(large())
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("what nobody reads can be written: %d bytes, %v", n, err)
		}
		return n
	}
	into, out := stuck(c1), stuck(p2)
	if into > 12<<20 || out > 12<<20 { // the buffers of the kernel, and little else
		t.Errorf("%d and %d bytes are kept that nobody reads", into, out)
	}
	r.says(p3, c3, "unhindered")
	r.says(c3, p3, "either way")
	got := make([]byte, into)
	if _, err := io.ReadFull(slowProgram, got); err != nil || !bytes.Equal(got, large()[:into]) {
		t.Errorf("later: %v, or other bytes", err)
	}
	got = make([]byte, out)
	if _, err := io.ReadFull(slowClient, got); err != nil || !bytes.Equal(got, large()[:out]) {
		t.Errorf("later, at the client: %v, or other bytes", err)
	}
}

// TestLinger holds that a program that does not read what a client has sent
// before its close does not keep the connection for ever.
func TestLinger(t *testing.T) {
	var held atomic.Int64
	r := newRig(t, ForwardOptions{Linger: 200 * time.Millisecond, Take: func(context.Context) (func(), error) {
		held.Add(1)
		return func() { held.Add(-1) }, nil
	}})
	l := r.open()
	_, c := r.pair(l)
	must(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
	if n, err := c.Write(large()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	must(t, c.Close())
	r.until("the place is given back", func() bool { return held.Load() == 0 })
	p, c := r.pair(l)
	r.says(p, c, "still fine")
}

func (r *rig) until(what string, so func() bool) {
	r.Helper()
	testenv.Until(r, what, so)
}

// TestBounds holds that the number of connections stays within its bound, and
// that further ones get their turn.
func TestBounds(t *testing.T) {
	var held, most atomic.Int64
	place := make(chan struct{}, 2)
	r := newRig(t, ForwardOptions{Most: 3, Take: func(ctx context.Context) (func(), error) {
		select {
		case place <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		most.Store(max(most.Load(), held.Add(1)))
		return func() {
			held.Add(-1)
			<-place
		}, nil
	}})
	l := r.open()
	go func() {
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
	}()
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			p := r.program()
			r.says(p, p, "turn")
			p.Close()
		})
	}
	all.Wait()
	if n := most.Load(); n > 2 || n == 0 {
		t.Errorf("%d connections at once, want 2 at most", n)
	}
	must(t, l.Close())
	r.awaitServed()
	if held.Load() != 0 {
		t.Errorf("%d places are not given back", held.Load())
	}
}

// TestClose holds that the address is free when Close returns, that connections
// that were not accepted are dropped, that accepted ones go on, and that the
// WebSocket ends with the last of them.
func TestClose(t *testing.T) {
	r := newRig(t, ForwardOptions{})
	l := r.open()
	p, c := r.pair(l)
	late := r.program()
	r.says(p, c, "before")
	must(t, l.Close())
	r.refused()
	if _, err := late.Read(make([]byte, 1)); err == nil {
		t.Error("what nobody has accepted says something")
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("another close: %v", err)
	}
	r.says(p, c, "after")
	r.says(c, p, "after")
	select {
	case <-r.served:
		t.Error("it was not waited for the connection")
	default:
	}
	must(t, c.Close())
	r.awaitServed()
}

// TestListenerFails holds that Accept returns why no further connection arrives.
func TestListenerFails(t *testing.T) {
	r := newRig(t, ForwardOptions{})
	l := r.open()
	p, c := r.pair(l)
	must(t, r.inner.Close())
	_, err := l.Accept()
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v (%v)", err, e)
	}
	r.says(p, c, "goes on")
	must(t, l.Close())
}

// TestEndOfTheClient holds that nothing remains of a client that has disappeared
// without closing the connection, or that does not answer pings.
func TestEndOfTheClient(t *testing.T) {
	for name, leave := range map[string]func(*websocket.Conn){
		"gone":   func(ws *websocket.Conn) { ws.CloseNow() },
		"silent": func(*websocket.Conn) {}, // it reads nothing, and so answers nothing
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, ForwardOptions{Stream: Options{Beat: 2 * time.Second}})
			p := r.program() // it waits for the server: a silent client is not served for long
			ws := r.socket()
			leave(ws)
			r.awaitServed()
			r.refused()
			if _, err := p.Read(make([]byte, 1)); err == nil {
				t.Error("the program's connection goes on")
			}
		})
	}
}

// TestEndOfLife holds that a listener ends with the context that it was opened
// for.
func TestEndOfLife(t *testing.T) {
	r := newRig(t, ForwardOptions{})
	life, end := context.WithCancel(context.Background())
	l, err := OpenForward(t.Context(), life, r.socket(), Options{})
	must(t, err)
	_, c := r.pair(l)
	end()
	if _, err := l.Accept(); err == nil {
		t.Error("Accept goes on")
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("a connection reads %v", err)
	}
	r.awaitServed()
	r.refused()
}
