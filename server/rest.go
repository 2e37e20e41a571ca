package server

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// A rest is the unread part of the body of a request. The server reads it before
// it writes the head of an answer, or else when the answer is written; and the
// body may never arrive. So the writer of an answer gives it a deadline first. A
// nil rest has no unread part.
//
// net/http begins to watch the connection at the end of the body and expects no
// deadline then, so none is set from then on.
type rest struct {
	rc   *http.ResponseController
	slow time.Duration

	mu   sync.Mutex
	over bool // no goroutine waits for it: it has ended, was late, or was given up; the deadline stays as it is
}

func newRest(r *http.Request, rc *http.ResponseController, slow time.Duration) *rest {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	return &rest{rc: rc, slow: slow}
}

// until sets the deadline of the next piece.
func (b *rest) until(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		_ = b.rc.SetReadDeadline(at)
	}
}

// passed is called at the end of a Read. A deadline that has ended the Read
// stays set, or the server would wait for the rest after the answer.
func (b *rest) passed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil || b.over {
		return
	}
	b.over = true
	if errors.Is(err, io.EOF) {
		_ = b.rc.SetReadDeadline(time.Time{}) // the handler may have set a deadline meanwhile
	}
}

// close closes body, which reads what is left of it.
func (b *rest) close(body io.Closer) error {
	b.wait()
	err := body.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	return err
}

// wait returns how long the server will wait for it from now on, at most.
func (b *rest) wait() time.Duration {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return 0
	}
	_ = b.rc.SetReadDeadline(time.Now().Add(b.slow))
	return b.slow
}

// settle calls wait for the last time: the handler has returned, and a Read that
// is still running in another goroutine has no further effect.
func (b *rest) settle() {
	if b == nil {
		return
	}
	b.wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
}

// end sets the deadline that the reader of the body asks for. A deadline in the
// past gives the body up.
func (b *rest) end(at time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return nil
	}
	b.over = !at.IsZero() && !at.After(time.Now())
	return b.rc.SetReadDeadline(at)
}
