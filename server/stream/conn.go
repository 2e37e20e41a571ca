package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// eof is the text frame that ends one direction of a [Conn].
const eof = `{"type":"eof"}`

// A Conn is a connection over a WebSocket: binary frames are its bytes, and a
// text frame ends one direction. It implements net.Conn, with CloseWrite. TCP
// flow control delays a peer that sends more than is read. A deadline that
// passes ends the connection for good, because a frame that was begun cannot be
// abandoned.
type Conn struct {
	ws   *websocket.Conn
	addr net.Addr

	reading sync.Mutex
	frame   io.Reader // of the frame that is being read
	readErr error     // the end, once it was read

	writing sync.Mutex
	shut    bool // the sending direction has ended

	limits [2]limit // of reading and writing
}

// A limit is the deadline of one direction.
type limit struct {
	mu     sync.Mutex
	timer  *time.Timer
	passed bool
}

var _ net.Conn = (*Conn)(nil)

// NewConn returns the connection over ws, which it owns from then on. Both ends
// report addr as their address.
func NewConn(ws *websocket.Conn, addr net.Addr) *Conn {
	ws.SetReadLimit(MaxControl)
	return &Conn{ws: ws, addr: addr}
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for c.readErr == nil {
		if c.frame == nil {
			kind, r, err := c.ws.Reader(context.Background())
			if err != nil {
				c.readErr = c.ended(err, 0)
				break
			}
			if kind == websocket.MessageText {
				c.readErr = c.direction(r)
				break
			}
			c.frame = r
		}
		n, err := c.frame.Read(p)
		if errors.Is(err, io.EOF) {
			c.frame, err = nil, nil
		}
		if err != nil {
			c.readErr = c.ended(err, 0)
		}
		if n > 0 || len(p) == 0 {
			return n, nil
		}
	}
	return 0, c.readErr
}

// direction reads the frame that ends a direction.
func (c *Conn) direction(r io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(r, int64(len(eof))+1))
	if err == nil && string(b) == eof {
		// The ping and close frames that may follow need a reader.
		go func() { _, _, _ = c.ws.Reader(context.Background()) }()
		return io.EOF
	}
	_ = c.ws.CloseNow()
	return unavailable("read", "the other side does not speak as it should", err)
}

// ended returns the error for the end of the socket.
func (c *Conn) ended(err error, direction int) error {
	l := &c.limits[direction]
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.passed:
		return os.ErrDeadlineExceeded
	case errors.Is(err, net.ErrClosed):
		return net.ErrClosed
	case websocket.CloseStatus(err) == websocket.StatusNormalClosure && direction == 0:
		return io.EOF
	}
	return unavailable("connection", "the connection ended", err)
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for sent := 0; ; {
		if c.shut {
			return sent, net.ErrClosed
		}
		n := min(len(p)-sent, MaxData)
		if n == 0 {
			return sent, nil
		}
		if err := c.ws.Write(context.Background(), websocket.MessageBinary, p[sent:sent+n]); err != nil {
			return sent, c.ended(err, 1)
		}
		sent += n
	}
}

// CloseWrite ends the sending direction, which the other side reads as EOF;
// reading goes on.
func (c *Conn) CloseWrite() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.shut {
		return nil
	}
	c.shut = true
	if err := c.ws.Write(context.Background(), websocket.MessageText, []byte(eof)); err != nil {
		return c.ended(err, 1)
	}
	return nil
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	_ = c.SetDeadline(time.Time{}) // never fails
	_ = c.ws.CloseNow()            // closed already is closed
	return nil
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.addr }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.addr }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	c.bound(0, t)
	c.bound(1, t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { c.bound(0, t); return nil }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { c.bound(1, t); return nil }

func (c *Conn) bound(direction int, t time.Time) {
	l := &c.limits[direction]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if !t.IsZero() {
		l.timer = time.AfterFunc(time.Until(t), func() {
			l.mu.Lock()
			l.passed = true
			l.mu.Unlock()
			_ = c.ws.CloseNow() // the blocked call returns the error
		})
	}
}

// Relay moves bytes between ws and far until both directions have ended, one
// of the two has failed, or ctx has ended, and closes both.
func Relay(ctx context.Context, ws *websocket.Conn, far net.Conn) {
	near := NewConn(ws, far.RemoteAddr())
	stop := context.AfterFunc(ctx, func() {
		_ = near.Close()
		_ = far.Close() // the copying goroutines return the error
	})
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { pass(near, far) })
	both.Go(func() { pass(far, near) })
	both.Wait()
	_ = ws.Close(websocket.StatusNormalClosure, "") // a peer that has gone is closed
	_ = far.Close()                                 // its data has no receiver
}

// pass copies one direction and passes its end on. A direction that fails ends
// the other.
func pass(to, from net.Conn) {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, MaxData))
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		if half.CloseWrite() == nil {
			return
		}
	}
	_, _ = to.Close(), from.Close() // the other direction ends by it
}
