package wire

import (
	"net"
	"sync/atomic"
	"time"
)

// Ends are what connections of both directions have in common as a [net.Conn]:
// their addresses, their deadlines and how they fail. Local and Remote are set
// before anybody has the connection.
type Ends struct {
	In            *flowReceiver
	Out           *flowSender
	Local, Remote net.Addr
	Closed        atomic.Bool // by our side
}

// LocalAddr implements [net.Conn].
func (e *Ends) LocalAddr() net.Addr { return e.Local }

// RemoteAddr implements [net.Conn].
func (e *Ends) RemoteAddr() net.Addr { return e.Remote }

// SetDeadline implements [net.Conn].
func (e *Ends) SetDeadline(t time.Time) error {
	if err := e.SetReadDeadline(t); err != nil {
		return err
	}
	return e.SetWriteDeadline(t)
}

// SetReadDeadline implements [net.Conn].
func (e *Ends) SetReadDeadline(t time.Time) error {
	if e.Closed.Load() {
		return e.Fail("set", net.ErrClosed)
	}
	e.In.SetDeadline(t)
	return nil
}

// SetWriteDeadline implements [net.Conn]. A frame that is being sent is sent to
// its end: how long that may take is a matter of what carries the frames.
func (e *Ends) SetWriteDeadline(t time.Time) error {
	if e.Closed.Load() {
		return e.Fail("set", net.ErrClosed)
	}
	e.Out.SetDeadline(t)
	return nil
}

// Fail makes an error one of package net.
func (e *Ends) Fail(op string, err error) error {
	return &net.OpError{Op: op, Net: e.Local.Network(), Source: e.Local, Addr: e.Remote, Err: err}
}
