package stream

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// The errors of a connection that has ended.
const (
	errReset = syscall.ECONNRESET
	errPipe  = syscall.EPIPE
)

// A conn is one end of a connection.
type conn struct {
	wire.Ends // a frame that is being sent takes [stream.Options].SendWithin at most
	s         *session
	number    uint32

	gone  atomic.Bool       // the peer neither sends nor reads
	ended func(broken bool) // called once at that time; nil is nothing
	once  sync.Once

	writing sync.Mutex // held while data or its end is sent, so that no data follows the end
	sentEnd bool       // guarded by writing
	buf     []byte     // of the last frame of data; guarded by writing
}

var _ net.Conn = (*conn)(nil)

func newConn(s *session, number uint32, local, remote net.Addr) *conn {
	return &conn{Ends: wire.Ends{In: wire.NewReceiver(forwardWindow), Out: wire.NewSender(forwardWindow), Local: local, Remote: remote}, s: s, number: number}
}

// left records that the peer has closed its end: what was received before can
// still be read.
func (c *conn) left() {
	c.gone.Store(true)
	c.In.End(io.EOF)
	c.Out.Stop(broken(errPipe), false)
	c.once.Do(func() { c.over(false) })
}

// broke records that the connection broke, unless the peer had closed it before.
func (c *conn) broke(cause error) {
	c.gone.Store(true)
	c.In.End(broken(cause))
	c.Out.Stop(broken(cause), false)
	c.once.Do(func() { c.over(true) })
}

func (c *conn) over(broken bool) {
	if c.ended != nil {
		c.ended(broken)
	}
}

// broken returns the error of an established connection that broke.
func broken(cause error) error {
	if e, ok := errors.AsType[*sandbox.Error](cause); ok {
		return e
	}
	return &sandbox.Error{Code: sandbox.CodeExecution, Op: "forward", Message: "the connection inside the sandbox has ended", Err: cause}
}

// send sends a frame of c.
func (c *conn) send(kind byte, content []byte) error {
	return c.s.send(websocket.MessageBinary, forwardFrame{kind, c.number, content}.encode(nil))
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, grant, err := c.In.Read(p)
	if grant > 0 {
		_ = c.send(kindCredit, creditOf(grant)) // an error is the end of the session, which the next Read returns
	}
	if err != nil && err != io.EOF {
		err = c.Fail("read", err)
	}
	return n, err
}

// Write implements net.Conn. It returns when all of p was sent. Concurrent
// writes are sent one after the other.
func (c *conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for done := 0; ; {
		n, err := c.Out.Take(min(len(p)-done, MaxData))
		if err != nil {
			return done, c.Fail("write", err)
		}
		if n > 0 {
			c.buf = forwardFrame{kindData, c.number, p[done : done+n]}.encode(c.buf[:0])
			if err := c.s.send(websocket.MessageBinary, c.buf); err != nil {
				return done, c.Fail("write", &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Message: "the connection to the other side ended", Err: err})
			}
		}
		if done += n; done == len(p) {
			return done, nil
		}
	}
}

// CloseWrite ends the sending direction: the other end reads EOF after the data.
func (c *conn) CloseWrite() error {
	if c.Closed.Load() {
		return c.Fail("close", net.ErrClosed)
	}
	c.Out.Stop(broken(errPipe), true)
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.sentEnd {
		return nil
	}
	c.sentEnd = true
	if err := c.send(kindEnd, nil); err != nil {
		return c.Fail("close", err)
	}
	return nil
}

// Close implements net.Conn. What was written is still delivered.
func (c *conn) Close() error { return c.let(kindClose) }

// abort is Close for a connection that is incomplete: the reset makes the other
// side return an error instead of taking a part for the whole.
func (c *conn) abort() { _ = c.let(kindReset) }

// let closes the connection with a frame of that kind. It sends the frame in the
// background, because a Write may be under way.
func (c *conn) let(kind byte) error {
	if c.Closed.Swap(true) {
		return c.Fail("close", net.ErrClosed)
	}
	c.In.Close(net.ErrClosed)
	c.Out.Stop(net.ErrClosed, true)
	go func() {
		c.writing.Lock()
		defer c.writing.Unlock()
		c.sentEnd = true
		if c.s.failure() == nil {
			_ = c.send(kind, nil) // an error is the end, which says the same
		}
		c.s.drop(c)
	}()
	return nil
}
