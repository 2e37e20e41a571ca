package egress

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// errTooLarge is why the body of a request is read no further.
var errTooLarge = errors.New("the body of the request is larger than it may be")

// errStopped is what reading a body gets once the exchange is over.
var errStopped = errors.New("the request is over")

// A body is the body of a request on its way out: bounded, counted, and asked
// for when the program waits for that. The transport reads it in a goroutine
// of its own, perhaps beyond the answer; stop ends that.
type body struct {
	x       *exchange
	limit   int64       // in bytes; 0 is none
	trailer http.Header // that is sent; filled when the body has ended

	asking  sync.Mutex // held while the program is asked, and never for long
	expects bool       // the program waits to be asked

	mu      sync.Mutex
	n       int64
	err     error // that reading ended with
	stopped bool
	cut     bool // err is that of an interruption by stop
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

// ask asks the program for the body, if it waits for that and there is no answer
// yet.
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
// that the program has announced, but for those that say where a message goes,
// where it ends and who sends it.
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

// answering keeps the body from being asked for: the answer has begun. It
// reports whether the body has been read to its end.
func (b *body) answering() bool {
	if b.x.head.Length == 0 {
		return true
	}
	b.asking.Lock() // or the program would be asked in the midst of the answer
	b.expects = false
	b.asking.Unlock()
	if !b.mu.TryLock() {
		return false // it is being read at this moment
	}
	defer b.mu.Unlock()
	return b.err == io.EOF
}

// stop ends the reading. When there is more of the body the line carries no
// other request.
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

// state returns what is known once reading has been stopped: how many bytes
// were read, and what went wrong with that.
func (b *body) state() (n int64, err error) {
	b.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut || b.err == io.EOF {
		return b.n, nil
	}
	return b.n, b.err
}
