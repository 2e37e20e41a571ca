package local

import (
	"net"
	"os"
	"sync"
	"time"
)

// A conn is a connection that keeps its instance up until it is closed.
type conn struct {
	net.Conn
	seat *seat
	once sync.Once
}

func (c *conn) Close() error {
	defer c.once.Do(c.seat.drop)
	return c.Conn.Close()
}

// CloseWrite ends the one direction, as connections of the guest can.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}

// CloseRead ends the other.
func (c *conn) CloseRead() error {
	if half, ok := c.Conn.(interface{ CloseRead() error }); ok {
		return half.CloseRead()
	}
	return nil
}

// A listener is one that keeps its instance up until it is closed.
type listener struct {
	net.Listener
	seat *seat
	once sync.Once
}

// SetDeadline ends Accept calls at t, where the listener is a socket.
func (l *listener) SetDeadline(t time.Time) error {
	if d, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
		return d.SetDeadline(t)
	}
	return os.ErrNoDeadline
}

func (l *listener) Close() error {
	defer l.once.Do(l.seat.drop)
	return l.Listener.Close()
}
