package browser

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

func openHttp(t *testing.T, conns int, h http.HandlerFunc) *httpServer {
	t.Helper()
	s, err := OpenServer(ServerOptions{Handler: h, HeaderBytes: 4 << 10, HeaderTimeout: time.Minute, Idle: time.Minute, Conns: conns})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func dial(t *testing.T, s *httpServer, says string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, says) // a refusal is seen when reading
	return c
}

// TestCloseEndsEverything checks Close with a request under way, a hijacked
// connection, an idle one, and one with half a head sent.
func TestCloseEndsEverything(t *testing.T) {
	var ended atomic.Int64
	begun := make(chan struct{}, 2)
	s := openHttp(t, 10, func(w http.ResponseWriter, r *http.Request) {
		defer ended.Add(1)
		if r.URL.Path != "/taken" {
			begun <- struct{}{}
			<-r.Context().Done()
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		begun <- struct{}{}
		_, _ = io.Copy(io.Discard, c)
	})
	conns := []net.Conn{
		dial(t, s, "GET /taken HTTP/1.1\r\nHost: x\r\n\r\n"), dial(t, s, "GET /waits HTTP/1.1\r\nHost: x\r\n\r\n"),
		dial(t, s, ""), dial(t, s, "GET /half HTTP/1.1\r\n"),
	}
	<-begun
	<-begun
	s.Close()
	if n := ended.Load(); n != 2 {
		t.Errorf("%d of 2 requests had ended when Close returned", n)
	}
	for i, c := range conns {
		if _, err := io.ReadAll(c); err != nil && httpIsLate(err) {
			t.Errorf("connection %d is open", i)
		}
	}
	if c, err := net.Dial("tcp", s.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("the port is still listened at")
	}
	s.Close()
}

func httpIsLate(err error) bool {
	late, ok := err.(net.Error)
	return ok && late.Timeout()
}

// TestConnections checks that ended connections make room for new ones.
func TestConnections(t *testing.T) {
	s := openHttp(t, 1, func(http.ResponseWriter, *http.Request) {})
	const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	first := dial(t, s, request)
	if _, err := http.ReadResponse(bufio.NewReader(first), nil); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(dial(t, s, "")); len(got) > 0 || err != nil && httpIsLate(err) {
		t.Errorf("a connection beyond the limit gets %q, %v", got, err)
	}
	_ = first.Close()
	for end := time.Now().Add(time.Minute); ; {
		c := dial(t, s, request)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			_ = resp.Body.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal("a connection that has ended still counts")
		}
	}
}

func TestListenFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	_, err = OpenServer(ServerOptions{Listen: func() (net.Listener, error) { return net.Listen("tcp", taken.Addr().String()) }})
	if sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("%v, want unavailable", err)
	}
	dir := t.TempDir()
	_, err = OpenServer(ServerOptions{Listen: func() (net.Listener, error) { return net.Listen("unix", dir+"/s") }})
	if sandbox.CodeOf(err) != sandbox.CodeInternal {
		t.Errorf("%v, want internal", err)
	}
}
