//go:build linux || darwin

package sandboxexec

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A carrier carries what processes write into a pipe to a writer, until it is
// reported that all that counts has been written.
type carrier struct {
	r    *os.File
	w    io.Writer
	last sync.Once
	done chan struct{} // closed when all that counts was carried
	void chan struct{} // closed when nothing reads any more
}

// carry returns the end of a new pipe that a process writes into.
func carry(w io.Writer) (*carrier, *os.File, error) {
	r, child, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	if w == nil {
		w = io.Discard
	}
	c := &carrier{r: r, w: w, done: make(chan struct{}), void: make(chan struct{})}
	go c.run()
	return c, child, nil
}

func (c *carrier) run() {
	defer close(c.void)
	buf := make([]byte, 32<<10)
	for {
		n, err := c.r.Read(buf)
		c.write(buf[:n])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded): // the command has ended
			eof := c.rest(buf)
			close(c.done)
			if !eof {
				// What it has left running must neither wait nor fail.
				_ = c.r.SetReadDeadline(time.Time{})
				_, _ = io.Copy(io.Discard, c.r)
			}
			return
		case err != nil:
			close(c.done)
			return
		}
	}
}

// rest carries what lies in the pipe and waits for nothing. It reports whether
// nothing can come any more.
func (c *carrier) rest(buf []byte) (eof bool) {
	conn, err := c.r.SyscallConn()
	if err != nil {
		return true
	}
	for {
		var n int
		var failed error
		// A deadline that has passed would keep the conn from reading: Control does not look at it.
		if err := conn.Control(func(fd uintptr) { n, failed = unix.Read(int(fd), buf) }); err != nil {
			return true
		}
		switch {
		case failed == unix.EINTR:
		case failed == unix.EAGAIN:
			return false
		case failed != nil || n <= 0:
			return true
		default:
			c.write(buf[:n])
		}
	}
}

// write passes on. A writer that fails gets no more, and holds nothing up.
func (c *carrier) write(p []byte) {
	if len(p) == 0 {
		return
	}
	if _, err := c.w.Write(p); err != nil {
		c.w = io.Discard
	}
}

// finish says that all that counts was written, and waits until it was carried.
func (c *carrier) finish() {
	c.last.Do(func() { _ = c.r.SetReadDeadline(time.Unix(1, 0)) })
	<-c.done
}

// close ends the carrier.
func (c *carrier) close() {
	c.finish()
	c.r.Close()
	<-c.void
}
