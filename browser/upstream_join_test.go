package browser

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// upstreamWithin is how long tests wait.
const upstreamWithin = time.Minute

// pair returns both ends of a TCP connection.
func pair(t *testing.T) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if here, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if there, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = here.Close()
		_ = there.Close()
	})
	return here, there
}

// joined returns the outer ends of two connections whose inner ends are
// joined, with the given grace, and a channel that is closed when joining has
// ended.
func joined(t *testing.T, ctx context.Context, grace time.Duration) (client, server *net.TCPConn, done chan struct{}) {
	t.Helper()
	c, a := pair(t)
	s, b := pair(t)
	done = make(chan struct{})
	go func() {
		defer close(done)
		join(ctx, &upstreamStream{a, a}, &upstreamStream{b, b}, grace)
	}()
	return c.(*net.TCPConn), s.(*net.TCPConn), done
}

func wait(t *testing.T, done chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(upstreamWithin):
		t.Fatal("the streams stay joined")
	}
}

func TestJoinBothWays(t *testing.T) {
	client, server, done := joined(t, t.Context(), upstreamWithin)
	sent := bytes.Repeat([]byte("0123456789"), 300_000)
	go func() {
		_, _ = client.Write(sent)
		_ = client.CloseWrite()
	}()
	got, err := io.ReadAll(server)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d of %d bytes came, %v", len(got), len(sent), err)
	}
	// Closing one half does not end the other.
	go func() {
		_, _ = server.Write(sent[:1000])
		_ = server.CloseWrite()
	}()
	if got, err = io.ReadAll(client); err != nil || !bytes.Equal(got, sent[:1000]) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	wait(t, done)
}

// TestJoinEndsBoth checks that neither side outlives the other for long.
func TestJoinEndsBoth(t *testing.T) {
	tests := []struct {
		name string
		end  func(client, server *net.TCPConn, cancel func())
	}{
		{"server closes and client is silent", func(_, s *net.TCPConn, _ func()) { _ = s.Close() }},
		{"client closes one half and server is silent", func(c, _ *net.TCPConn, _ func()) { _ = c.CloseWrite() }},
		{"client is reset", func(c, _ *net.TCPConn, _ func()) {
			_ = c.SetLinger(0)
			_ = c.Close()
		}},
		{"context ends", func(_, _ *net.TCPConn, cancel func()) { cancel() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			client, server, done := joined(t, ctx, grace)
			tt.end(client, server, cancel)
			wait(t, done)
			for _, c := range []net.Conn{client, server} {
				_ = c.SetReadDeadline(time.Now().Add(upstreamWithin))
				if _, err := c.Read(make([]byte, 1)); err == nil {
					t.Error("a side is still open")
				}
			}
		})
	}
}

// A counter counts what is read.
type counter struct {
	left int64
	read atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n := int(min(c.left-c.read.Load(), int64(len(p))))
	if n <= 0 {
		return 0, io.EOF
	}
	c.read.Add(int64(n))
	return n, nil
}

// TestJoinWaits checks that a slow reader blocks the writer, and that only one
// buffer is kept between them.
func TestJoinWaits(t *testing.T) {
	const all = 64 << 20
	ours, reader := net.Pipe() // keeps nothing
	_, idle := net.Pipe()
	defer func() { _ = reader.Close() }()
	source := &counter{left: all}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		joinUpstream(ctx, &upstreamStream{idle, source}, &upstreamStream{ours, ours})
	}()
	const taken = 1 << 20
	if _, err := io.ReadFull(reader, make([]byte, taken)); err != nil {
		t.Fatal(err)
	}
	if got := source.read.Load(); got > taken+64<<10 {
		t.Errorf("%d bytes were read ahead", got-taken)
	}
	cancel()
	wait(t, done)
}

// TestEarlyBytes checks that bytes received with the head are not lost.
func TestEarlyBytes(t *testing.T) {
	client, server := pair(t)
	go func() {
		buf := make([]byte, 4096)
		n, _ := server.Read(buf)
		_, key, _ := bytes.Cut(buf[:n], []byte("Sec-WebSocket-Key: "))
		key, _, _ = bytes.Cut(key, []byte("\r\n"))
		_, _ = io.WriteString(server, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: upgrade\r\n"+
			"Sec-WebSocket-Accept: "+proof(string(key))+"\r\n\r\nfirst")
		_, _ = io.WriteString(server, "second")
		_ = server.Close()
	}()
	s, err := dialUpstream(t.Context(), client, upstreamSocket{Target: "/x", Host: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(s); err != nil || string(got) != "firstsecond" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestTargets checks that a target is one word, independent of earlier checks.
func TestTargets(t *testing.T) {
	for _, target := range []string{"/x y", "/x\r\nHost: evil", "/x\n"} {
		client, server := pair(t)
		if _, err := askUpstream(t.Context(), client, upstreamQuestion{Method: "GET", Target: target, Host: "localhost", Limit: 1}); err == nil {
			t.Errorf("%q was asked for", target)
		}
		_ = server.SetReadDeadline(time.Now().Add(upstreamWithin))
		if n, _ := server.Read(make([]byte, 1)); n != 0 {
			t.Errorf("%q was said", target)
		}
	}
}
