package wire

import (
	"io"
	"math"
	"sync"
)

// An Inbox holds the bytes of one channel between the connection's reader,
// which never waits, and the channel's consumer. It holds at most a
// window of bytes. Its methods are safe for concurrent use by one putter and one
// taker.
type Inbox struct {
	mu      sync.Mutex
	ready   sync.Cond
	pending []byte // put and not taken
	taken   []byte // the slice that the last Take returned
	window  int    // bytes that may be under way
	credit  int    // bytes that the sender may still put
	owed    int    // consumed, not yet granted
	closed  bool
	err     error
	discard bool
}

// NewInbox returns an empty Inbox.
func NewInbox() *Inbox { return NewInboxOf(Window) }

// NewInboxOf returns an empty Inbox of another window.
func NewInboxOf(window int) *Inbox {
	b := &Inbox{window: window, credit: window}
	b.ready.L = &b.mu
	return b
}

// Put adds p. More than the sender was granted is a violation; so is
// anything after the end.
func (b *Inbox) Put(p []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(p) > b.credit {
		return Violation("more data than the window allows")
	}
	if b.closed && !b.discard {
		return Violation("data after the end of its channel")
	}
	b.credit -= len(p)
	if b.discard {
		return nil
	}
	b.pending = append(b.pending, p...)
	b.ready.Signal()
	return nil
}

// Close ends the channel: after what is pending Take returns err, io.EOF
// when err is nil. Only the first call counts.
func (b *Inbox) Close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		if err == nil {
			err = io.EOF
		}
		b.closed, b.err = true, err
	}
	b.ready.Broadcast()
}

// Discard drops what is pending and everything to come; a waiting Take returns
// io.EOF. It grants nothing: the caller has to send Stop.
func (b *Inbox) Discard() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending, b.discard = nil, true
	b.ready.Broadcast()
}

// Take waits for bytes and returns all there are. The slice is valid until
// the next call.
func (b *Inbox) Take() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.pending) == 0 && !b.closed && !b.discard {
		b.ready.Wait()
	}
	switch {
	case b.discard:
		return nil, io.EOF
	case len(b.pending) == 0:
		return nil, b.err
	}
	b.pending, b.taken = b.taken[:0], b.pending
	return b.taken, nil
}

// Consumed tells that n taken bytes are done with, and returns how many to
// grant to the sender now: 0 as long as a Credit frame is not worth it.
func (b *Inbox) Consumed(n int) uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owed += n
	if b.owed < b.window/4 {
		return 0
	}
	return b.grant()
}

// grant moves what is owed to the sender. Precondition: mu is held.
func (b *Inbox) grant() uint32 {
	n := b.owed
	if b.closed {
		n = 0 // the sender has finished
	}
	b.owed = 0
	b.credit += n
	return uint32(n)
}

// A Credits counts what the sender of one channel may still send. Its
// methods are safe for concurrent use.
type Credits struct {
	mu     sync.Mutex
	more   sync.Cond
	window int
	avail  int
	err    error
}

// NewCredits returns a full window.
func NewCredits() *Credits { return NewCreditsOf(Window) }

// NewCreditsOf returns another full window.
func NewCreditsOf(window int) *Credits {
	c := &Credits{window: window, avail: window}
	c.more.L = &c.mu
	return c
}

// Take waits until something may be sent, and reserves up to n bytes.
func (c *Credits) Take(n int) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.avail == 0 && c.err == nil {
		c.more.Wait()
	}
	if c.err != nil {
		return 0, c.err
	}
	n = min(n, c.avail)
	c.avail -= n
	return n, nil
}

// Return gives back n reserved bytes that were not sent.
func (c *Credits) Return(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.avail += n
	c.more.Signal()
}

// Grant adds what the receiver granted. More than a window in all is a
// violation.
func (c *Credits) Grant(n uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if uint64(n) > math.MaxInt32 || c.avail+int(n) > c.window {
		return Violation("more credit than a window")
	}
	c.avail += int(n)
	c.more.Signal()
	return nil
}

// Close makes every Take return err, also those that wait.
func (c *Credits) Close(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.more.Broadcast()
}
