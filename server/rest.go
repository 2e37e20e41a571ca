package server

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// A rest is what is left of the body of a request. The server reads it before it
// writes the head of an answer, and where it does not do that when the answer is
// written; and it may never come. So who answers gives it its time first. Nil is
// none.
//
// The watch over the connection begins with the end of the body and knows no
// deadline, so none is set from then on.
type rest struct {
	rc   *http.ResponseController
	slow time.Duration

	mu   sync.Mutex
	over bool // nobody waits for it: it has ended, was late, or was given up; the deadline stays as it is
}

func newRest(r *http.Request, rc *http.ResponseController, slow time.Duration) *rest {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	return &rest{rc: rc, slow: slow}
}

// until is when the next piece has to be there.
func (b *rest) until(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		_ = b.rc.SetReadDeadline(at)
	}
}

// passed is the end of a Read. A deadline by which it has ended stands, or the
// server would wait for the rest when we have answered.
func (b *rest) passed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil || b.over {
		return
	}
	b.over = true
	if errors.Is(err, io.EOF) {
		_ = b.rc.SetReadDeadline(time.Time{}) // who answers may have set one meanwhile
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

// wait is how long the server is going to wait for it from now on, at most.
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

// settle is wait for the last time: the handler has returned, and a Read that
// somebody still is in changes nothing any more.
func (b *rest) settle() {
	if b == nil {
		return
	}
	b.wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
}

// end is a deadline that somebody sets who reads the body. By one that has passed
// it is given up.
func (b *rest) end(at time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return nil
	}
	b.over = !at.IsZero() && !at.After(time.Now())
	return b.rc.SetReadDeadline(at)
}
