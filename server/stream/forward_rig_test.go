package stream

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// patience is the longest wait for an event, on a busy machine.
const patience = 60 * time.Second

func TestMain(m *testing.M) { testenv.Main(m) }

// A rig is a listener behind a server, with its client.
type rig struct {
	*testing.T
	inner  *net.TCPListener // where programs connect
	end    context.CancelFunc
	url    string
	served chan struct{} // closed when Serve has returned
}

func newRig(t *testing.T, o ForwardOptions) *rig {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, end := context.WithCancel(context.Background())
	r := &rig{T: t, inner: inner.(*net.TCPListener), end: end, served: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		ws, err := websocket.Accept(w, q, nil)
		if err != nil {
			return
		}
		defer close(r.served)
		ServeForward(ctx, ws, inner, o)
	}))
	t.Cleanup(func() {
		end()
		inner.Close()
		server.Close()
	})
	r.url = strings.Replace(server.URL, "http://", "ws://", 1)
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// socket connects as a client does.
func (r *rig) socket() *websocket.Conn {
	r.Helper()
	ws, _, err := websocket.Dial(r.Context(), r.url, nil)
	must(r, err)
	r.Cleanup(func() { ws.CloseNow() })
	return ws
}

func (r *rig) open() *forwardListener {
	r.Helper()
	l, err := OpenForward(r.Context(), context.Background(), r.socket(), Options{})
	must(r, err)
	r.Cleanup(func() { l.Close() })
	return l
}

// program connects as a program inside does.
func (r *rig) program() *net.TCPConn {
	r.Helper()
	c, err := net.Dial("tcp", r.inner.Addr().String())
	must(r, err)
	r.Cleanup(func() { c.Close() })
	must(r, c.SetDeadline(time.Now().Add(patience)))
	return c.(*net.TCPConn)
}

// pair returns the program's end of a connection and the client's.
func (r *rig) pair(l net.Listener) (*net.TCPConn, net.Conn) {
	r.Helper()
	p := r.program()
	return p, r.accept(l)
}

func (r *rig) accept(l net.Listener) net.Conn {
	r.Helper()
	c, err := l.Accept()
	must(r, err)
	r.Cleanup(func() { c.Close() })
	must(r, c.SetDeadline(time.Now().Add(patience)))
	return c
}

// says holds that the reader of one end receives what is written to the other.
func (r *rig) says(from io.Writer, to io.Reader, text string) {
	r.Helper()
	_, err := io.WriteString(from, text)
	must(r, err)
	r.hears(to, text)
}

func (r *rig) hears(from io.Reader, text string) {
	r.Helper()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(from, got); err != nil || string(got) != text {
		r.Fatalf("%.60q came, %v; want %.60q", got, err, text)
	}
}

// ends holds that no more data follows.
func (r *rig) ends(from io.Reader) {
	r.Helper()
	if n, err := from.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		r.Errorf("%d bytes, %v; want the end", n, err)
	}
}

func (r *rig) awaitServed() {
	r.Helper()
	select {
	case <-r.served:
	case <-time.After(patience):
		r.Fatal("Serve does not return")
	}
}

// refused holds that no listener is left inside.
func (r *rig) refused() {
	r.Helper()
	if c, err := net.Dial("tcp", r.inner.Addr().String()); err == nil {
		c.Close()
		r.Error("somebody still listens inside")
	}
}

// large returns more data than all buffers on the way hold.
func large() []byte {
	return bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
}
