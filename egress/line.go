package egress

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A counted is a connection from inside whose bytes are metered and whose
// reads and writes have deadlines. Another goroutine can interrupt reading
// without ending the connection.
type counted struct {
	net.Conn
	meter *meter
	idle  time.Duration

	mu          sync.Mutex
	until       time.Time // deadline for reading; zero gives each read the idle time
	interrupted bool
	free        bool // not metered: the proxy's own response, or metered by the pump
}

// Read implements io.Reader.
func (c *counted) Read(b []byte) (int, error) {
	c.mu.Lock()
	if c.interrupted {
		c.mu.Unlock()
		return 0, os.ErrDeadlineExceeded
	}
	until := c.until
	if until.IsZero() {
		until = time.Now().Add(c.idle)
	}
	c.Conn.SetReadDeadline(until)
	free := c.free
	c.mu.Unlock()
	n, err := c.Conn.Read(b)
	if n > 0 && !free {
		if over := c.meter.Out(int64(n)); over != nil {
			return 0, over
		}
	}
	return n, err
}

// Write implements io.Writer.
func (c *counted) Write(b []byte) (int, error) {
	c.mu.Lock()
	free := c.free
	c.mu.Unlock()
	if !free {
		if over := c.meter.In(int64(len(b))); over != nil {
			return 0, over
		}
	}
	c.Conn.SetWriteDeadline(time.Now().Add(c.idle))
	return c.Conn.Write(b)
}

// within sets the deadline for reading; zero gives each read the idle time.
func (c *counted) within(d time.Duration) {
	c.mu.Lock()
	c.until = time.Time{}
	if d > 0 {
		c.until = time.Now().Add(d)
	}
	c.mu.Unlock()
}

// interrupt(true) ends the read under way and prevents others until
// interrupt(false).
func (c *counted) interrupt(on bool) {
	c.mu.Lock()
	c.interrupted = on
	if on {
		c.Conn.SetReadDeadline(time.Unix(1, 0))
	}
	c.mu.Unlock()
}

// metered sets whether bytes read and written are metered from now on.
func (c *counted) metered(on bool) {
	c.mu.Lock()
	c.free = !on
	c.mu.Unlock()
}

// clear removes the deadlines of the connection, so that another goroutine can
// use it.
func (c *counted) clear() { c.Conn.SetDeadline(time.Time{}) }

// A line is a connection on which requests are read and answered: the
// connection from inside, or the TLS in it. One goroutine uses it at a time.
type line struct {
	conn   net.Conn // for writing: the counted, or the TLS over it
	bottom *counted
	ahead  *ahead
	br     *bufio.Reader
}

// readSize is enough for most heads.
const readSize = 4 << 10

func newLine(conn net.Conn, bottom *counted) *line {
	a := &ahead{r: conn}
	return &line{conn: conn, bottom: bottom, ahead: a, br: bufio.NewReaderSize(a, readSize)}
}

// head reads the next head, without consuming it.
func (l *line) head() (requestHead, error) {
	h, err := peekRequest(l.br)
	if err == bufio.ErrBufferFull {
		h, err = peekRequest(l.larger(maxHead))
	}
	return h, err
}

// larger makes the line read with a buffer of at least size bytes.
func (l *line) larger(size int) *bufio.Reader {
	if l.br.Size() < size {
		l.ahead.held = l.rest()
		l.br = bufio.NewReaderSize(l.ahead, size)
	}
	return l.br
}

// hear waits for the first bytes of a tunnel and returns their protocol.
func (l *line) hear() (network.Protocol, error) {
	const longest = 32 // of a method
	for n := 1; ; n++ {
		b, err := l.br.Peek(n)
		switch {
		case len(b) == 0:
			return "", err
		case b[0] == 22: // the handshake record of TLS
			return network.TLS, nil
		case err != nil && timedOut(err):
			return network.Raw, nil // an incomplete request line
		case err != nil:
			return "", err
		}
		switch c := b[n-1]; {
		case n > 1 && c == ' ':
			if b, err = l.br.Peek(n + 1); err != nil {
				return network.Raw, nil
			}
			if b[n] == '/' || b[n] == '*' || b[n] == 'h' || b[n] == 'H' {
				return network.HTTP, nil
			}
			return network.Raw, nil
		case n > longest, (c < 'A' || c > 'Z') && (n == 1 || c != '-' && c != '_'):
			return network.Raw, nil
		}
	}
}

// rest returns the bytes that were read and not used.
func (l *line) rest() []byte {
	b, _ := l.br.Peek(l.br.Buffered())
	b = append(bytes.Clone(b), l.ahead.held...)
	l.br.Discard(l.br.Buffered())
	l.ahead.held = nil
	return b
}

// watch calls gone if the program disconnects before stop is called. The line
// must not be read until stop has returned.
func (l *line) watch(gone func()) (stop func()) {
	if len(l.ahead.held) > 0 || l.ahead.err != nil || l.br.Buffered() > 0 {
		return func() {} // it has already sent more
	}
	l.bottom.within(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var one [1]byte
		n, err := l.ahead.r.Read(one[:])
		l.ahead.held = append(l.ahead.held, one[:n]...)
		if err != nil && !timedOut(err) {
			l.ahead.err = err
			gone()
		}
	}()
	return func() {
		l.bottom.interrupt(true)
		<-done
		l.bottom.interrupt(false)
	}
}

// An ahead is a reader of which some bytes may already be read.
type ahead struct {
	r    io.Reader
	held []byte
	err  error // error after the held bytes
}

// Read implements io.Reader.
func (a *ahead) Read(b []byte) (int, error) {
	switch {
	case len(a.held) > 0:
		n := copy(b, a.held)
		a.held = a.held[n:]
		return n, nil
	case a.err != nil:
		return 0, a.err
	}
	return a.r.Read(b)
}

// timedOut reports whether err is a timeout.
func timedOut(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// closeWrite closes the writing side of conn, where it supports that.
func closeWrite(conn net.Conn) {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		c.CloseWrite()
	}
}

// linger waits for the other side to read the last response: closing at once
// would discard it if unread input is pending.
func linger(conn net.Conn) {
	closeWrite(conn)
	conn.SetReadDeadline(time.Now().Add(lingerTime))
	io.CopyN(io.Discard, conn, 8<<20)
}
