package browser

import (
	"net"
	"sync"

	"github.com/bulkhead-dev/sandbox"
)

// A listener tracks the open connections that it has accepted.
type listener struct {
	net.Listener
	max int

	mu     sync.Mutex
	open   map[*conn]bool
	closed bool
}

// Accept closes connections beyond the limit: if it waited instead, a client
// that keeps all connections would block every other client without an error.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if held := l.hold(c); held != nil {
			return held, nil
		}
		_ = c.Close()
	}
}

func (l *listener) hold(c net.Conn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.open) >= l.max {
		return nil
	}
	held := &conn{Conn: c, listener: l}
	l.open[held] = true
	return held
}

// closeAll closes all open connections, hijacked ones included.
func (l *listener) closeAll() {
	l.mu.Lock()
	l.closed = true
	conns := make([]*conn, 0, len(l.open))
	for c := range l.open {
		conns = append(conns, c)
	}
	l.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// A conn removes itself from the listener's list when it is closed.
type conn struct {
	net.Conn
	listener *listener
}

// Close closes the connection.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite closes the writing side, where the connection supports it.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return sandbox.Errorf(sandbox.CodeUnsupported, "serve browser", "the connection has no half to close")
}
