package resource

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net/http"
	"sync"
	"time"
)

var (
	errTooLarge = errors.New("too large")
	errGivenUp  = errors.New("it is not read any more")
)

// A body counts and hashes what is read and records why it ended, which is not
// the sandbox's fault. A transport may still be reading when it has given up, so
// a lock guards everything, and Close ends a Read that waits.
type body struct {
	w    http.ResponseWriter
	from io.Reader

	mu      sync.Mutex
	left    int64
	n       int64
	sum     hash.Hash
	err     error         // why it ended too early
	over    bool          // it came to an end, whatever end
	ended   chan struct{} // closed with over
	reading bool
	closed  bool
}

func newBody(w http.ResponseWriter, from io.Reader, most int64) *body {
	return &body{w: w, from: from, left: most, sum: sha256.New(), ended: make(chan struct{})}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return 0, errGivenUp
	}
	b.reading = true
	b.mu.Unlock()
	n, err := b.from.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	if err != nil && !b.over {
		b.over = true
		close(b.ended)
	}
	switch {
	case b.closed:
		return 0, errGivenUp // whatever the result of the Read
	case int64(n) > b.left:
		b.err = errTooLarge
		return 0, errTooLarge
	}
	b.left -= int64(n)
	b.n += int64(n)
	b.sum.Write(p[:n])
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// Close implements io.Closer, for the reader of the body. The body of a server
// request cannot be closed while it is read, because that would wait for the
// Read; so Close ends a Read that waits for the client by a deadline.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.over {
		return nil
	}
	b.closed = true
	if b.reading {
		// A writer that cannot set a deadline has no connection on which a Read
		// could wait.
		_ = http.NewResponseController(b.w).SetReadDeadline(time.Unix(1, 0))
	}
	return nil
}

// endWithin is how long the end of a body is waited for of which nothing more is
// needed.
const endWithin = time.Second

// A wholeBody is a body whose Close gives the client a moment to send its end, which
// it could not send, and would take for a broken connection, after that.
type wholeBody struct{ *body }

// Close implements io.Closer.
func (b wholeBody) Close() error {
	timer := time.NewTimer(endWithin)
	defer timer.Stop()
	select {
	case <-b.ended:
	case <-timer.C:
	}
	return b.body.Close()
}

// settle ends the reading, before the handler answers: a connection whose body
// was not read to the end cannot be used again.
func (b *body) settle() {
	_ = b.Close() // never fails; a later Close has no effect
	b.mu.Lock()
	left := !b.over
	b.mu.Unlock()
	if left {
		b.w.Header().Set("Connection", "close")
	}
}

// outlive returns ctx without its end by Close: the deadline by which Close ends
// a Read looks to the server as if the client had gone.
func (b *body) outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	out, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	undo := context.AfterFunc(ctx, func() {
		b.mu.Lock()
		ours := b.closed
		b.mu.Unlock()
		if !ours {
			stop(context.Cause(ctx))
		}
	})
	return out, func() {
		undo()
		stop(nil)
	}
}

// failure returns why the body ended too early, nil when it did not.
func (b *body) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// passed returns the number of bytes read, and their tag.
func (b *body) passed() (int64, tag) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n, strongTag([sha256.Size]byte(b.sum.Sum(nil)))
}
