// This file bounds what is under way in one direction of a connection that
// frames carry: the side that sends counts what it may still send, the side
// that receives holds what was not read, and grants what was. Reads and writes
// have deadlines. What a peer sends or grants beyond its window is an error of
// [wire.Violation], and the end of the connection to that peer.

package wire

import (
	"os"
	"sync"
	"time"
)

// A deadline wakes those who wait on a condition when its time has come.
// Its methods are called with the condition's lock held.
type deadline struct {
	timer  *time.Timer
	round  uint64 // of set; a timer of an earlier one changes nothing
	passed bool
}

// set moves the deadline to t, or takes it away when t is zero.
func (d *deadline) set(c *sync.Cond, t time.Time) {
	d.round++
	round := d.round
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.passed = false
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.passed = true
		c.Broadcast()
		return
	}
	d.timer = time.AfterFunc(left, func() {
		c.L.Lock()
		defer c.L.Unlock()
		if d.round == round {
			d.passed = true
			c.Broadcast()
		}
	})
}

// A Receiver holds what came in and was not read, at most a window. It is safe
// for concurrent use.
type flowReceiver struct {
	mu       sync.Mutex
	change   sync.Cond
	buf      []byte
	start    int   // of what was not read, in buf
	window   int   // bytes that may be under way
	credit   int   // what the peer may still send
	owed     int   // read, and not yet granted
	err      error // after what is there; nil while more may come
	shut     error // set by the reader's side: nothing is read any more
	deadline deadline
}

// NewReceiver returns an empty Receiver of a window of so many bytes.
func NewReceiver(window int) *flowReceiver {
	r := &flowReceiver{window: window, credit: window}
	r.change.L = &r.mu
	return r
}

// Put adds what the peer sent. It does not wait.
func (r *flowReceiver) Put(p []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(p) > r.credit:
		return Violation("more data than the window allows")
	case r.err != nil:
		return Violation("data after the end of its channel")
	}
	r.credit -= len(p)
	if r.shut != nil {
		return nil // was under way when reading ended; nothing is granted for it
	}
	if r.start > 0 && len(r.buf)+len(p) > cap(r.buf) {
		r.buf = r.buf[:copy(r.buf, r.buf[r.start:])]
		r.start = 0
	}
	r.buf = append(r.buf, p...)
	r.change.Signal()
	return nil
}

// End lets reads return err when what is there was read. Only the first
// call counts.
func (r *flowReceiver) End(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
	r.change.Broadcast()
}

// Close drops what is there; reads return err from now on.
func (r *flowReceiver) Close(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = err
	r.buf, r.start = nil, 0
	r.deadline.set(&r.change, time.Time{})
	r.change.Broadcast()
}

// Read waits for bytes. grant is what the peer is to be allowed anew, 0 as
// long as that is not worth a frame.
func (r *flowReceiver) Read(p []byte) (n int, grant uint32, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		switch {
		case r.shut != nil:
			return 0, 0, r.shut
		case r.deadline.passed:
			return 0, 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, 0, nil
		case r.start < len(r.buf):
			n = copy(p, r.buf[r.start:])
			return n, r.took(n), nil
		case r.err != nil:
			return 0, 0, r.err
		}
		r.change.Wait()
	}
}

// took notes that n bytes were read. Precondition: mu is held.
func (r *flowReceiver) took(n int) (grant uint32) {
	if r.start += n; r.start == len(r.buf) {
		r.buf, r.start = r.buf[:0], 0
	} else {
		r.change.Signal() // there is something for the next goroutine that waits
	}
	r.owed += n
	if r.err != nil || r.owed < r.window/4 {
		return 0
	}
	grant = uint32(r.owed)
	r.credit += r.owed
	r.owed = 0
	return grant
}

// SetDeadline has reads end at t with [os.ErrDeadlineExceeded]; zero is never.
func (r *flowReceiver) SetDeadline(t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut == nil {
		r.deadline.set(&r.change, t)
	}
}

// A Sender counts what may still be sent. It is safe for concurrent use.
type flowSender struct {
	mu       sync.Mutex
	change   sync.Cond
	window   int
	avail    int
	err      error // why nothing can be sent any more
	deadline deadline
}

// NewSender returns a Sender that may send a window of so many bytes.
func NewSender(window int) *flowSender {
	s := &flowSender{window: window, avail: window}
	s.change.L = &s.mu
	return s
}

// Take waits until something may be sent, and reserves up to n bytes.
func (s *flowSender) Take(n int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.err != nil:
			return 0, s.err
		case s.deadline.passed:
			return 0, os.ErrDeadlineExceeded
		case s.avail > 0 || n == 0:
			n = min(n, s.avail)
			s.avail -= n
			return n, nil
		}
		s.change.Wait()
	}
}

// Grant adds what the peer granted.
func (s *flowSender) Grant(n uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int64(n) > int64(s.window) || s.avail+int(n) > s.window {
		return Violation("more credit than a window")
	}
	s.avail += int(n)
	s.change.Signal()
	return nil
}

// Stop makes every Take return err; an end by ourselves overrides one by
// the other side, because it is what callers ask about then.
func (s *flowSender) Stop(err error, own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil || own {
		s.err = err
	}
	s.deadline.set(&s.change, time.Time{})
	s.change.Broadcast()
}

// SetDeadline has every Take end at t with [os.ErrDeadlineExceeded]; zero is
// never.
func (s *flowSender) SetDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.deadline.set(&s.change, t)
	}
}

// GiveBack returns n reserved bytes that were not sent.
func (s *flowSender) GiveBack(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.avail += n
}
