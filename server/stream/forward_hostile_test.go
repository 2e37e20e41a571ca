package stream

import (
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
)

// The kinds of frames, as the documentation of the package lists them.
const (
	open = iota
	data
	end
	credit
	closed
	reset
	none
)

// forwardFrame2 returns a binary frame.
func forwardFrame2(kind byte, number uint32, content string) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind}, number)) + content
}

func number(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }

// A lie is a frame that the other side must not believe.
type lie struct {
	kind websocket.MessageType
	text []string
}

func binaries(text ...string) lie { return lie{websocket.MessageBinary, text} }
func texts(text ...string) lie    { return lie{websocket.MessageText, text} }

// either returns lies for both sides, which need a connection with the number 1.
func either() map[string]lie {
	full := strings.Repeat("x", MaxData)
	return map[string]lie{
		"nothing":                        binaries(""),
		"half a head":                    binaries("\x01\x00\x00"),
		"a kind that is none":            binaries(forwardFrame2(none, 1, "")),
		"data for nobody":                binaries(forwardFrame2(data, 2, "x")),
		"data for the number zero":       binaries(forwardFrame2(data, 0, "x")),
		"the end of nobody":              binaries(forwardFrame2(end, 4_000_000_000, "")),
		"data after the end":             binaries(forwardFrame2(end, 1, ""), forwardFrame2(data, 1, "x")),
		"more data than was granted":     binaries(slices.Repeat([]string{forwardFrame2(data, 1, full)}, 1024)...), // and than the kernel keeps
		"more credit than a window":      binaries(forwardFrame2(credit, 1, number(forwardWindow+1))),
		"credit without end":             binaries(forwardFrame2(credit, 1, number(1<<32-1))),
		"a credit that is none":          binaries(forwardFrame2(credit, 1, "x")),
		"an end with something in it":    binaries(forwardFrame2(end, 1, "x")),
		"a frame that is too long":       binaries(forwardFrame2(data, 1, full+"x")),
		"a text that is no JSON":         texts("{"),
		"a text of another kind":         texts(`{"type":"started"}`),
		"a text that is as long as many": texts(`{"type":"` + strings.Repeat("x", 1<<20) + `"}`),
	}
}

// TestServerBelievesNothing holds that the server cuts off a client that lies,
// and that nothing of it remains.
func TestServerBelievesNothing(t *testing.T) {
	lies := either()
	lies["a connection of the client's own"] = binaries(forwardFrame2(open, 2, `{"local":{"network":"tcp","addr":"1.2.3.4:5"},"remote":{"network":"tcp","addr":"1.2.3.4:6"}}`))
	lies["to close it twice"] = texts(`{"type":"close"}`, `{"type":"close"}`)
	lies["what the server says"] = texts(`{"type":"listening","at":{"network":"tcp","addr":"1.2.3.4:5"}}`)
	for name, l := range lies {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, ForwardOptions{})
			ws := r.socket()
			p := r.program()
			r.awaits(ws, forwardFrame2(open, 1, ""))
			for _, text := range l.text {
				if ws.Write(t.Context(), l.kind, []byte(text)) != nil {
					break // it was cut before
				}
			}
			go func() { // reads, so that what remains does not remain for lack of a reader
				for {
					if _, _, err := ws.Read(context.Background()); err != nil {
						return
					}
				}
			}()
			r.awaitServed()
			r.refused()
			for buf := make([]byte, 1<<20); ; {
				if _, err := p.Read(buf); err != nil {
					break
				}
			}
		})
	}
}

// awaits reads frames until one has that prefix.
func (r *rig) awaits(ws *websocket.Conn, begin string) {
	r.Helper()
	for {
		_, b, err := ws.Read(r.Context())
		must(r, err)
		if strings.HasPrefix(string(b), begin) {
			return
		}
	}
}

const (
	listening = `{"type":"listening","at":{"network":"tcp","addr":"127.0.0.1:1"}}`
	from      = `{"local":{"network":"tcp","addr":"127.0.0.1:1"},"remote":{"network":"tcp","addr":"127.0.0.1:2"}}`
)

// TestClientBelievesNothing holds that the client disconnects from a daemon that
// lies.
func TestClientBelievesNothing(t *testing.T) {
	lies := either()
	lies["data after the close"] = binaries(forwardFrame2(closed, 1, ""), forwardFrame2(data, 1, "x")) // a server may have let go of it already
	lies["a connection before its turn"] = binaries(forwardFrame2(open, 3, from))
	lies["a connection that is there"] = binaries(forwardFrame2(open, 1, from))
	lies["a connection without addresses"] = binaries(forwardFrame2(open, 2, "x"))
	lies["listening twice"] = texts(listening)
	lies["what the client says"] = texts(`{"type":"close"}`)
	lies["an end without a reason"] = texts(`{"type":"ended"}`)
	var many []string
	for i := range uint32(5000) {
		many = append(many, forwardFrame2(open, i+2, from))
	}
	lies["more connections than there can be"] = binaries(many...)
	for name, l := range lies {
		t.Run(name, func(t *testing.T) {
			left := make(chan struct{})
			socket := pretender(t, func(ws *websocket.Conn) {
				defer close(left)
				ctx := context.Background()
				for _, first := range []lie{texts(listening), binaries(forwardFrame2(open, 1, from)), l} {
					for _, text := range first.text {
						if ws.Write(ctx, first.kind, []byte(text)) != nil {
							return
						}
					}
				}
				for { // until it is left
					if _, _, err := ws.Read(ctx); err != nil {
						return
					}
				}
			})
			listener, err := OpenForward(t.Context(), context.Background(), socket(), Options{})
			if err == nil {
				for err == nil {
					_, err = listener.Accept()
				}
				if sandbox.CodeOf(err) != sandbox.CodeUnavailable {
					t.Errorf("Accept: %v", err)
				}
			} else if sandbox.CodeOf(err) != sandbox.CodeUnavailable {
				t.Errorf("Open: %v", err)
			}
			await(t, left)
		})
	}
}

// pretender serves WebSockets with serve in the place of a daemon.
func pretender(t *testing.T, serve func(*websocket.Conn)) (socket func() *websocket.Conn) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		ws, err := websocket.Accept(w, q, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		serve(ws)
	}))
	t.Cleanup(server.Close)
	return func() *websocket.Conn {
		ws, _, err := websocket.Dial(t.Context(), strings.Replace(server.URL, "http://", "ws://", 1), nil)
		must(t, err)
		t.Cleanup(func() { ws.CloseNow() })
		return ws
	}
}

func await(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
}

// TestSilentDaemon holds that the client does not wait for ever for a daemon
// that does not answer.
func TestSilentDaemon(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	socket := pretender(t, func(*websocket.Conn) { <-over })
	_, err := OpenForward(t.Context(), context.Background(), socket(), Options{RequestWithin: 100 * time.Millisecond})
	if sandbox.CodeOf(err) != sandbox.CodeTimeout {
		t.Errorf("Open: %v", err)
	}
}

// TestFloodOfConnections has a program make connections and break them while the
// client accepts none: that affects only the program itself.
func TestFloodOfConnections(t *testing.T) {
	r := newRig(t, ForwardOptions{})
	l := r.open()
	for range 3000 {
		p := r.program()
		must(t, p.SetLinger(0))
		p.Close()
	}
	go func() {
		p := r.program()
		p.Write([]byte("last")) // a failure shows in what comes
	}()
	for got := ""; got != "last"; {
		c, err := l.Accept()
		must(t, err)
		must(t, c.SetDeadline(time.Now().Add(patience)))
		b := make([]byte, 4)
		n, _ := c.Read(b) // broken connections return nothing
		got = string(b[:n])
		c.Close()
	}
}

var _ net.Listener = (*forwardListener)(nil)
