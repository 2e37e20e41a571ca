package client

import (
	"io"
	"net"
	"sync"
	"syscall"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// A link is one forwarded connection.
type link struct {
	wire.Ends // addresses are there once the reply came; a frame takes time only when the guest is stopped, up to ten seconds
	c         *Client
	id        uint32
	family    wire.Family
	over      func() // called once when the stream has ended

	reply     reply
	connected bool // guarded by the reader

	writing sync.Mutex    // held while bytes or their end are sent, so that nothing follows the end
	sentEnd bool          // guarded by writing
	ended   chan struct{} // closed when the last answer came or the guest was lost
}

var _ net.Conn = (*link)(nil)

func newLink(c *Client, family wire.Family) *link {
	return &link{
		Ends: wire.Ends{In: wire.NewReceiver(wire.ConnWindow), Out: wire.NewSender(wire.ConnWindow)},
		c:    c, family: family, over: func() {},
		reply: reply{came: make(chan struct{})}, ended: make(chan struct{}),
	}
}

func (l *link) opened(id uint32) { l.id = id }
func (l *link) answer() *reply   { return &l.reply }
func (l *link) never()           { l.over() }

// frame implements stream; it is called by the reader only.
func (l *link) frame(f wire.Frame) (last bool, err error) {
	if !l.connected {
		return l.first(f)
	}
	switch f.Type {
	case wire.TypeData:
		return false, l.data(f)
	case wire.TypeCredit:
		m, err := wire.DecodeCredit(f.Payload)
		if err == nil && f.Channel() != wire.Inward {
			err = wire.Violation("credit for a channel that is not open")
		}
		if err != nil {
			return false, err
		}
		return false, l.Out.Grant(m.N)
	case wire.TypeStop:
		if f.Channel() != wire.Inward {
			return false, wire.Violation("stop of a channel that is not open")
		}
		l.Out.Stop(brokenError(syscall.EPIPE), false)
		return false, nil
	case wire.TypeFailed:
		m, err := wire.DecodeFailed(f.Payload)
		if err != nil {
			return false, err
		}
		broken := brokenError(socketError(m))
		l.finish(broken, broken)
		return true, nil
	case wire.TypeDone:
		l.finish(io.EOF, brokenError(syscall.EPIPE))
		return true, nil
	}
	return false, wire.Violation("unexpected frame of a connection")
}

// first takes the answer to a Dial.
func (l *link) first(f wire.Frame) (last bool, err error) {
	switch f.Type {
	case wire.TypeConnected:
		m, err := wire.DecodeConnected(f.Payload)
		if err == nil && (m.Local.Family != l.family || m.Remote.Family != l.family) {
			err = wire.Violation("a connection of another family than was asked for")
		}
		if err != nil {
			return false, err
		}
		l.connect(m.Local, m.Remote)
		return false, nil
	case wire.TypeFailed:
		m, err := wire.DecodeFailed(f.Payload)
		if err != nil {
			return false, err
		}
		l.finish(refusal{m}, refusal{m})
		return true, nil
	}
	return false, wire.Violation("unexpected answer")
}

// connect notes that the connection stands.
func (l *link) connect(local, remote wire.Endpoint) {
	l.connected = true
	l.Local, l.Remote = address(local), address(remote)
	close(l.reply.came)
}

// brokenError is the failure of a connection that stood.
func brokenError(cause error) error {
	return &sandbox.Error{Code: sandbox.CodeExecution, Op: "forward", Message: "the connection inside the sandbox has ended", Err: cause}
}

func (l *link) data(f wire.Frame) error {
	if f.Channel() != wire.Outward {
		return wire.Violation("data on a channel that is not open")
	}
	if len(f.Payload) > 0 {
		if err := l.In.Put(f.Payload); err != nil {
			return err
		}
	}
	if f.EOF() {
		l.In.End(io.EOF)
	}
	return nil
}

// lost implements stream.
func (l *link) lost(err error) { l.finish(err, err) }

// finish ends the link; it is called once, by the reader.
func (l *link) finish(read, write error) {
	if !l.connected {
		l.reply.err = read
		close(l.reply.came)
	}
	l.In.End(read)
	l.Out.Stop(write, false)
	close(l.ended)
	l.over()
}

// abandon drops a link that no caller has or waits for any more.
func (l *link) abandon() {
	l.Closed.Store(true)
	l.In.Close(net.ErrClosed)
	l.Out.Stop(net.ErrClosed, true)
	go l.send(killFrame(0)) // an error is the connection's end, which drops it too
}

// send sends a frame of a link, unless that ends before it is its turn. It
// needs no bound of its own: a guest that does not take one frame loses the
// connection.
func (l *link) send(f wire.Frame) error {
	f.Stream = l.id
	return l.c.sendUnless(l.ended, f)
}

// Read implements net.Conn.
func (l *link) Read(p []byte) (int, error) {
	n, grant, err := l.In.Read(p)
	if grant > 0 {
		// An error is the connection's end, which the next Read tells.
		_ = l.send(wire.Frame{Type: wire.TypeCredit, Flags: wire.Outward, Payload: wire.Credit{N: grant}.Encode()})
	}
	if err != nil && err != io.EOF {
		err = l.fail("read", err)
	}
	return n, err
}

// Write implements net.Conn. It returns when the guest has been sent all of
// p. Writes at once come one after the other.
func (l *link) Write(p []byte) (int, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	done := 0
	for {
		n, err := l.Out.Take(min(len(p)-done, wire.MaxData))
		if err != nil {
			return done, l.fail("write", err)
		}
		if n > 0 {
			if err := l.send(wire.Frame{Type: wire.TypeData, Flags: wire.Inward, Payload: p[done : done+n]}); err != nil {
				l.Out.GiveBack(n)
				return done, l.fail("write", err)
			}
		}
		if done += n; done == len(p) {
			return done, nil
		}
	}
}

// CloseWrite ends what is sent: the other end reads end of file after it.
func (l *link) CloseWrite() error {
	if l.Closed.Load() {
		return l.fail("close", net.ErrClosed)
	}
	l.Out.Stop(brokenError(syscall.EPIPE), true)
	if err := l.sendEnd(); err != nil {
		return l.fail("close", err)
	}
	return nil
}

// sendEnd ends the channel inward. Precondition: out is stopped.
func (l *link) sendEnd() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.sentEnd {
		return nil
	}
	l.sentEnd = true
	return l.send(wire.Frame{Type: wire.TypeData, Flags: wire.Inward | wire.FlagEOF})
}

// CloseRead drops what was received and what is still to come. Reads
// return io.EOF.
func (l *link) CloseRead() error {
	if l.Closed.Load() {
		return l.fail("close", net.ErrClosed)
	}
	l.In.Close(io.EOF)
	if err := l.sendStop(); err != nil {
		return l.fail("close", err)
	}
	return nil
}

func (l *link) sendStop() error {
	return l.send(wire.Frame{Type: wire.TypeStop, Flags: wire.Outward})
}

// Close implements net.Conn. What was written is still delivered, in the
// background and within some seconds.
func (l *link) Close() error {
	if l.Closed.Swap(true) {
		return l.fail("close", net.ErrClosed)
	}
	l.In.Close(net.ErrClosed)
	l.Out.Stop(net.ErrClosed, true)
	go func() { // errors are the connection's end, which closes the link too
		_ = l.sendEnd()
		_ = l.sendStop()
	}()
	return nil
}

// fail makes an error one of package net, in the client's words.
func (l *link) fail(op string, err error) error { return l.Fail(op, l.c.named(err)) }
