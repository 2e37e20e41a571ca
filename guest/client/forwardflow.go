package client

import (
	"os"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
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

// A receiver holds what came in and was not read, at most a window.
type receiver struct {
	mu       sync.Mutex
	change   sync.Cond
	buf      []byte
	start    int   // of what was not read, in buf
	credit   int   // what the guest may still send
	owed     int   // read, and not yet granted
	err      error // after what is there; nil while more may come
	shut     error // set by the reader's side: nothing is read any more
	deadline deadline
}

func newReceiver() *receiver {
	r := &receiver{credit: wire.ConnWindow}
	r.change.L = &r.mu
	return r
}

// put adds what the guest sent. It does not wait.
func (r *receiver) put(p []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(p) > r.credit:
		return wire.Violation("more data than the window allows")
	case r.err != nil:
		return wire.Violation("data after the end of its channel")
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

// end lets reads return err when what is there was read. Only the first
// call counts.
func (r *receiver) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
	r.change.Broadcast()
}

// close drops what is there; reads return err from now on.
func (r *receiver) close(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = err
	r.buf, r.start = nil, 0
	r.deadline.set(&r.change, time.Time{})
	r.change.Broadcast()
}

// read waits for bytes. grant is what the guest is to be allowed anew, 0 as
// long as that is not worth a frame.
func (r *receiver) read(p []byte) (n int, grant uint32, err error) {
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
func (r *receiver) took(n int) (grant uint32) {
	if r.start += n; r.start == len(r.buf) {
		r.buf, r.start = r.buf[:0], 0
	} else {
		r.change.Signal() // there is something for the next one who waits
	}
	r.owed += n
	if r.err != nil || r.owed < wire.ConnWindow/4 {
		return 0
	}
	grant = uint32(r.owed)
	r.credit += r.owed
	r.owed = 0
	return grant
}

func (r *receiver) setDeadline(t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut == nil {
		r.deadline.set(&r.change, t)
	}
}

// A sender counts what may still be sent.
type sender struct {
	mu       sync.Mutex
	change   sync.Cond
	avail    int
	err      error // why nothing can be sent any more
	deadline deadline
}

func newSender() *sender {
	s := &sender{avail: wire.ConnWindow}
	s.change.L = &s.mu
	return s
}

// take waits until something may be sent, and reserves up to n bytes.
func (s *sender) take(n int) (int, error) {
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

// grant adds what the guest granted.
func (s *sender) grant(n uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > wire.ConnWindow || s.avail+int(n) > wire.ConnWindow {
		return wire.Violation("more credit than a window")
	}
	s.avail += int(n)
	s.change.Signal()
	return nil
}

// stop makes every take return err; an end by ourselves overrides one by
// the other side, because it is what callers ask about then.
func (s *sender) stop(err error, own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil || own {
		s.err = err
	}
	s.deadline.set(&s.change, time.Time{})
	s.change.Broadcast()
}

func (s *sender) setDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.deadline.set(&s.change, t)
	}
}

// giveBack returns n reserved bytes that were not sent.
func (s *sender) giveBack(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.avail += n
}
