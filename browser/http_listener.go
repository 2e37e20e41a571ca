package browser

import (
	"net"
	"sync"

	"github.com/bulkhead-dev/sandbox"
)

// A listener knows the connections that it has accepted and that are open.
type listener struct {
	net.Listener
	max int

	mu     sync.Mutex
	open   map[*conn]bool
	closed bool
}

// Accept drops what comes beyond the limit: to wait would let whoever holds
// the connections keep all others out without their knowing.
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

// closeAll breaks what is open, hijacked or not.
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

// A conn takes itself off the list when it is closed.
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

// CloseWrite tells the peer that nothing more comes.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return sandbox.Errorf(sandbox.CodeUnsupported, "serve browser", "the connection has no half to close")
}
