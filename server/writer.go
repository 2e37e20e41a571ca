package server

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"time"
)

const (
	// piece is the most bytes that are written with one deadline.
	piece = 64 << 10
	// pace is how many bytes per second the client has to read of an answer that
	// is written at once.
	pace = 64 << 10
	// unflushed is how many bytes of an answer net/http keeps before it writes its
	// head.
	unflushed = 2048
)

// A writer writes an answer that the client has to read: each piece of it has a
// deadline, and a client that does not read it by then is cut off. An answer
// that is written at once has one more deadline for all of it, or it could be
// held in memory for hours.
type writer struct {
	http.ResponseWriter
	rc   *http.ResponseController
	slow time.Duration
	end  time.Time // deadline of an answer that is written at once; zero while there is none

	// hold reserves room for what is written at once until it is written; nil
	// reserves nothing.
	hold func(n int64) (give func(), err error)

	// rest is the unread part of the request's body, for which the server waits
	// before it writes the head of the answer; headed says that the head was
	// written.
	rest   *rest
	sent   int // bytes, as long as it is not
	headed bool

	status int  // 0 before the answer has begun
	taken  bool // the connection has been hijacked

	// instead is the error that is sent in place of an answer that failed.
	// Nothing more of that answer is written; where it has begun the connection
	// is cut. See fail.
	instead error
	cut     func(error) // ends the request; nil leaves it to itself

	// plain is set where a library may answer a failed WebSocket handshake in
	// plain text: refused is its status, and a problem is written instead.
	plain   bool
	refused int
}

func newWriter(w http.ResponseWriter, r *http.Request, o Options) *writer {
	rc := http.NewResponseController(w)
	return &writer{ResponseWriter: w, rc: rc, slow: o.SlowWrite, rest: newRest(r, rc, o.SlowRead)}
}

// Unwrap is for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) begun() bool { return w.status != 0 || w.taken }

// renew sets the deadline of the next piece. Only writers of tests have no
// deadlines.
func (w *writer) renew() {
	at := time.Now().Add(w.waits() + w.slow)
	if !w.end.IsZero() && w.end.Before(at) {
		at = w.end
	}
	_ = w.rc.SetWriteDeadline(at)
}

// waits returns how long the server may wait for the rest of the body before it
// writes the next piece.
func (w *writer) waits() time.Duration {
	if w.headed || w.taken {
		return 0
	}
	return w.rest.wait()
}

// SetReadDeadline implements the interface of [http.ResponseController], for
// handlers that read the body.
func (w *writer) SetReadDeadline(at time.Time) error {
	if w.rest == nil {
		return w.rc.SetReadDeadline(at)
	}
	return w.rest.end(at)
}

// WriteHeader implements [http.ResponseWriter].
func (w *writer) WriteHeader(status int) {
	if w.instead != nil {
		return
	}
	if w.plain && status >= 400 {
		w.refused = status
		return
	}
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.renew()
	w.ResponseWriter.WriteHeader(status)
}

// fail drops the answer. Writes to it return err, in whatever goroutine they
// are, and the error is sent in its place when the handler has returned.
func (w *writer) fail(err error) {
	w.instead = err
	if w.begun() && w.cut != nil {
		w.cut(err)
	}
}

// Write implements [http.ResponseWriter]. A write of more than a piece fails
// where there is no room for it, and then the whole answer fails.
func (w *writer) Write(p []byte) (int, error) {
	if len(p) > piece && w.hold != nil && w.instead == nil {
		give, err := w.hold(int64(len(p)))
		if err != nil {
			w.fail(err)
			return 0, err
		}
		defer give()
	}
	return w.put(p)
}

// put is Write for data that has its room. The client has to read it within
// slow, plus a second for each pace bytes.
func (w *writer) put(p []byte) (int, error) {
	if w.refused != 0 && w.plain {
		return len(p), nil
	}
	if w.instead != nil {
		return 0, w.instead
	}
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.end = time.Now().Add(w.waits() + w.slow + time.Duration(len(p))*time.Second/pace)
	defer func() { w.end = time.Time{} }()
	n := 0
	for {
		w.renew()
		part := p[n:min(len(p), n+piece)]
		m, err := w.ResponseWriter.Write(part)
		n += m
		w.sent = min(w.sent+m, unflushed+1)
		w.headed = w.headed || w.sent > unflushed
		if err != nil || n >= len(p) {
			return n, err
		}
	}
}

// FlushError implements the interface of [http.ResponseController].
func (w *writer) FlushError() error {
	if w.instead != nil {
		return w.instead
	}
	w.renew()
	w.headed = true // when it has come back
	return w.rc.Flush()
}

// Flush implements [http.Flusher].
func (w *writer) Flush() { _ = w.FlushError() }

// Hijack implements [http.Hijacker].
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.taken {
		return nil, nil, errors.New("the connection is taken already")
	}
	if w.instead != nil {
		return nil, nil, w.instead
	}
	w.renew() // it flushes a head
	c, rw, err := w.rc.Hijack()
	if err == nil {
		w.taken = true
		if w.status == 0 {
			w.status = http.StatusSwitchingProtocols
		}
		_ = c.SetDeadline(time.Time{}) // the new owner of the connection sets its own
	}
	return c, rw, err
}
