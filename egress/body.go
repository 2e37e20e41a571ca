package egress

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// errTooLarge ends the reading of a request body beyond its limit.
var errTooLarge = errors.New("the body of the request is larger than it may be")

// errStopped is the error of reading a body after the exchange has ended.
var errStopped = errors.New("the request is over")

// A body is the body of a request being sent: bounded and counted. If the
// program waits for "100 Continue", the first Read requests the body. The
// transport reads it in its own goroutine, perhaps after the response; stop
// ends that.
type body struct {
	x       *exchange
	limit   int64       // in bytes; 0 is none
	trailer http.Header // trailer to send; filled when the body has ended

	asking  sync.Mutex // held while the program is asked, which is short
	expects bool       // the program waits for "100 Continue"

	mu      sync.Mutex
	n       int64
	err     error // error that ended reading
	stopped bool
	cut     bool // err is an interruption by stop
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.stopped:
		return 0, errStopped
	case b.err != nil:
		return 0, b.err
	}
	if err := b.ask(); err != nil {
		b.err = err
		return 0, err
	}
	n, err := b.x.req.Body.Read(p)
	b.x.moved()
	b.n += int64(n)
	if b.limit > 0 && b.n > b.limit {
		n, err = 0, errTooLarge
	}
	b.err = err
	if err == io.EOF {
		for name := range b.trailer {
			b.trailer[name] = b.x.req.Trailer[name]
		}
	}
	return n, err
}

// ask sends "100 Continue" if the program waits for it and no response has
// begun.
func (b *body) ask() error {
	b.asking.Lock()
	defer b.asking.Unlock()
	if !b.expects {
		return nil
	}
	b.expects = false
	_, err := io.WriteString(b.x.line.conn, "HTTP/1.1 100 Continue\r\n\r\n")
	return err
}

// announce returns the trailer that is sent after the body. It has the fields
// that the program has announced, except those about routing, framing and
// identity of the sender.
func (b *body) announce(announced http.Header) http.Header {
	b.trailer = http.Header{}
	for name := range announced {
		b.trailer[name] = nil
	}
	dropHops(b.trailer)
	for _, name := range []string{"Host", "Content-Length", "Content-Encoding", "Authorization", "Cookie"} {
		delete(b.trailer, name)
	}
	return b.trailer
}

// Close implements io.Closer.
func (b *body) Close() error { return nil }

// answering notes that the response has begun, so that the body is no longer
// requested. It reports whether the body has been read to its end.
func (b *body) answering() bool {
	if b.x.head.Length == 0 {
		return true
	}
	b.asking.Lock() // otherwise "100 Continue" could be sent in the middle of the response
	b.expects = false
	b.asking.Unlock()
	if !b.mu.TryLock() {
		return false // it is being read
	}
	defer b.mu.Unlock()
	return b.err == io.EOF
}

// stop ends reading. If there is more of the body, the line carries no other
// request.
func (b *body) stop() {
	if !b.mu.TryLock() {
		b.x.line.bottom.interrupt(true)
		b.mu.Lock()
		b.x.line.bottom.interrupt(false)
		b.cut = timedOut(b.err)
	}
	defer b.mu.Unlock()
	b.stopped = true
	if b.x.head.Length != 0 && b.err != io.EOF {
		b.x.keep = false
	}
}

// state stops reading and returns how many bytes were read, and the error of
// reading.
func (b *body) state() (n int64, err error) {
	b.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut || b.err == io.EOF {
		return b.n, nil
	}
	return b.n, b.err
}
