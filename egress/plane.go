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

// Options are what a Plane needs.
type Options struct {
	Reach *Dialer // required

	// Record is told each decision before a refusal is answered or a byte
	// passes, and each end. It is called from many goroutines and has to be
	// quick. Nil drops them.
	Record func(Event)

	// Decide, when set, is told of decisions to allow in the place of Record. An
	// error turns the decision into a refusal, of which Record is told.
	Decide func(Event) error

	// Now is the clock; nil is time.Now.
	Now func() time.Time

	// Roots are the authorities that requests with secrets trust for the host
	// they go to; nil is those of the system.
	Roots *x509.CertPool

	// QueueTime is how long a connection waits for its turn where
	// limits.connections leaves no room. Zero is a minute.
	QueueTime time.Duration
}

// A Plane is the proxy of one orchestrator. It serves any number of sandboxes,
// each through a [Way] of its own. It is safe for concurrent use.
type Plane struct {
	o    Options
	head time.Duration // headTime, but in tests
	// waitMost is maxWaiting, but in tests.
	waitMost int
	waitAll  int64        // connections that wait, of all sandboxes together
	waiting  atomic.Int64 // that do
	ids      atomic.Uint64
	counts   counts

	mu     sync.Mutex
	ways   map[*Way]struct{}
	closed bool
}

// New returns a Plane that serves nobody yet.
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
	return &Plane{o: o, head: headTime, waitMost: maxWaiting, waitAll: maxWaitingOfAll(), ways: map[*Way]struct{}{}}
}

// maxWaitingOfAll is a quarter of the descriptors that this process may have:
// connections that wait must not keep those that are served from their hosts.
func maxWaitingOfAll() int64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return maxWaiting
	}
	return int64(min(uint64(l.Cur), 1<<20) / 4)
}

// waits counts n more connections that wait, and reports false when that would
// be too many.
func (p *Plane) waits(n int64) bool {
	if p.waiting.Add(n) > p.waitAll && n > 0 {
		p.waiting.Add(-n)
		return false
	}
	return true
}

// Open serves the listener of one sandbox until Close or until the listener
// fails. It owns l from the call on, also when it returns an error. A policy
// that lets nothing pass is refused: such a sandbox needs no way out.
func (p *Plane) Open(l net.Listener, o WayOptions) (*Way, error) {
	w, err := p.newWay(l, o)
	if err != nil {
		closeDoors(o.Doors)
		l.Close()
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		w.meter.Close()
		w.cancel(errClosed)
		closeDoors(o.Doors)
		l.Close()
		return nil, failure(sandbox.CodeUnavailable, "the proxy has been closed")
	}
	p.ways[w] = struct{}{}
	go w.serve()
	return w, nil
}

// Close ends every Way and refuses new ones. It returns when no connection is
// left.
func (p *Plane) Close() error {
	p.mu.Lock()
	p.closed = true
	ways := make([]*Way, 0, len(p.ways))
	for w := range p.ways {
		ways = append(ways, w)
	}
	p.mu.Unlock()
	for _, w := range ways {
		w.cancel(errClosed)
	}
	for _, w := range ways {
		w.Close()
	}
	return nil
}

// Counters returns what happened so far.
func (p *Plane) Counters() Counters {
	c := p.counts.read()
	c.Waiting = p.waiting.Load()
	return c
}

// forget drops a Way that has ended.
func (p *Plane) forget(w *Way) {
	p.mu.Lock()
	delete(p.ways, w)
	p.mu.Unlock()
}

// failure is an error of opening a Way.
func failure(code sandbox.Code, message string) error {
	return sandbox.Errorf(code, "open the way out", "%s", message)
}

// Counters tell what a Plane has done since it was made. All but Open and
// Waiting only grow.
type Counters struct {
	Open        int64 `json:"open"`        // connections from inside at this moment
	Connections int64 `json:"connections"` // that were taken
	Waiting     int64 `json:"waiting"`     // connections that wait for their turn at this moment
	TurnedAway  int64 `json:"turnedAway"`  // connections beyond what a sandbox may have and what may wait
	Allowed     int64 `json:"allowed"`     // requests and tunnels
	Refused     int64 `json:"refused"`
	Failed      int64 `json:"failed"` // allowed and not reached, or ended early
	Asked       int64 `json:"asked"`  // questions that somebody was asked
	BytesIn     int64 `json:"bytesIn"`
	BytesOut    int64 `json:"bytesOut"`
	Panics      int64 `json:"panics"` // connections that were ended by a fault of the proxy
}

// counts are Counters that many may change.
type counts struct {
	open, connections, turnedAway, allowed, refused, failed, asked, bytesIn, bytesOut, panics atomic.Int64
}

func (c *counts) read() Counters {
	return Counters{
		Open: c.open.Load(), Connections: c.connections.Load(), TurnedAway: c.turnedAway.Load(),
		Allowed: c.allowed.Load(), Refused: c.refused.Load(), Failed: c.failed.Load(), Asked: c.asked.Load(),
		BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(), Panics: c.panics.Load(),
	}
}
