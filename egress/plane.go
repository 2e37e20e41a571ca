package egress

import (
	"crypto/x509"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Options configure a Plane.
type Options struct {
	Dialer *Dialer // required

	// Record is called with each decision before a refusal is answered or a
	// byte passes, and with each end. It is called from many goroutines and
	// must return quickly. If it is nil, events are dropped.
	Record func(Event)

	// Decide, if set, is called in place of Record with decisions to allow. An
	// error turns the decision into a refusal, with which Record is called.
	Decide func(Event) error

	// Now is the clock; nil is time.Now.
	Now func() time.Time

	// Roots are the certificate authorities trusted for the hosts of requests
	// with secrets; nil is those of the system.
	Roots *x509.CertPool

	// QueueTime is how long a connection is queued if limits.connections
	// leaves no room. Zero is a minute.
	QueueTime time.Duration
}

// A Plane is the egress proxy of one orchestrator. It serves any number of
// sandboxes, each through a [Session] of its own. It is safe for concurrent use.
type Plane struct {
	o    Options
	head time.Duration // headTime, except in tests
	// waitMost is maxWaiting, except in tests.
	waitMost int
	waitAll  int64        // limit of queued connections of all sandboxes together
	waiting  atomic.Int64 // queued connections of all sandboxes
	ids      atomic.Uint64
	counts   counts

	mu       sync.Mutex
	sessions map[*Session]struct{}
	closed   bool
}

// New returns a Plane without sandboxes.
func New(o Options) *Plane {
	if o.Record == nil {
		o.Record = func(Event) {}
	}
	if o.Decide == nil {
		o.Decide = func(e Event) error { o.Record(e); return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.QueueTime == 0 {
		o.QueueTime = queueTime
	}
	return &Plane{o: o, head: headTime, waitMost: maxWaiting, waitAll: maxWaitingOfAll(), sessions: map[*Session]struct{}{}}
}

// maxWaitingOfAll returns a quarter of this process's descriptor limit: queued
// connections must leave descriptors for connections that are served.
func maxWaitingOfAll() int64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return maxWaiting
	}
	return int64(min(uint64(l.Cur), 1<<20) / 4)
}

// waits counts n more queued connections, and reports false if that is beyond
// the limit.
func (p *Plane) waits(n int64) bool {
	if p.waiting.Add(n) > p.waitAll && n > 0 {
		p.waiting.Add(-n)
		return false
	}
	return true
}

// Open serves the listener of one sandbox until Close or until the listener
// fails. It takes ownership of l, also if it returns an error. A policy that
// allows nothing is an error: such a sandbox needs no egress session.
func (p *Plane) Open(l net.Listener, o SessionOptions) (*Session, error) {
	w, err := p.newSession(l, o)
	if err != nil {
		closeHostListeners(o.HostListeners)
		l.Close()
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		w.meter.Close()
		w.cancel(errClosed)
		closeHostListeners(o.HostListeners)
		l.Close()
		return nil, failure(sandbox.CodeUnavailable, "the proxy has been closed")
	}
	p.sessions[w] = struct{}{}
	go w.serve()
	return w, nil
}

// Close ends every Session and refuses new ones. It returns when all connections
// are closed.
func (p *Plane) Close() error {
	p.mu.Lock()
	p.closed = true
	sessions := make([]*Session, 0, len(p.sessions))
	for w := range p.sessions {
		sessions = append(sessions, w)
	}
	p.mu.Unlock()
	for _, w := range sessions {
		w.cancel(errClosed)
	}
	for _, w := range sessions {
		w.Close()
	}
	return nil
}

// Counters returns the current counters.
func (p *Plane) Counters() Counters {
	c := p.counts.read()
	c.Waiting = p.waiting.Load()
	return c
}

// forget removes a Session that has ended.
func (p *Plane) forget(w *Session) {
	p.mu.Lock()
	delete(p.sessions, w)
	p.mu.Unlock()
}

// failure returns an error of opening a Session.
func failure(code sandbox.Code, message string) error {
	return sandbox.Errorf(code, "open the way out", "%s", message)
}

// Counters count the activity of a Plane since it was created. All but Open
// and Waiting only grow.
type Counters struct {
	Open         int64 `json:"open"`        // current connections from inside
	Connections  int64 `json:"connections"` // accepted connections
	Waiting      int64 `json:"waiting"`     // currently queued connections
	RefusedConns int64 `json:"turnedAway"`  // connections refused because the limit was reached and the queue was full or too slow
	Allowed      int64 `json:"allowed"`     // requests and tunnels
	Refused      int64 `json:"refused"`
	Failed       int64 `json:"failed"` // allowed and not reached, or ended early
	Asked        int64 `json:"asked"`  // approval questions that were asked
	BytesIn      int64 `json:"bytesIn"`
	BytesOut     int64 `json:"bytesOut"`
	Panics       int64 `json:"panics"` // connections ended by a panic of the proxy
}

// counts are Counters for concurrent updates.
type counts struct {
	open, connections, refusedConns, allowed, refused, failed, asked, bytesIn, bytesOut, panics atomic.Int64
}

func (c *counts) read() Counters {
	return Counters{
		Open: c.open.Load(), Connections: c.connections.Load(), RefusedConns: c.refusedConns.Load(),
		Allowed: c.allowed.Load(), Refused: c.refused.Load(), Failed: c.failed.Load(), Asked: c.asked.Load(),
		BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(), Panics: c.panics.Load(),
	}
}
