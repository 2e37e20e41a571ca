// This file counts what one operation uses while it runs, and stops it when a
// budget is used up: bytes exactly, at the first byte too many; times by
// looking every [Interval] at the latest, by ending the operation's context.
//
// A meter holds a reservation that is always a little ahead of the usage: as
// much again as was used so far, within bounds. So an operation needs few draws
// from the accounts, withholds little from others, and a crash charges little
// that was not used.

package budget

import (
	"context"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// Interval is the longest time between two looks at a clock.
const meterInterval = 50 * time.Millisecond

const (
	// shortest is the shortest time between two looks, close to the end of a
	// budget.
	shortest = 5 * time.Millisecond

	// patience is how long times run on while the accounts cannot be reached,
	// because other processes work on them or the disk stalls; then the
	// operation goes on with its reservation, and ends when that is used up.
	// Ending an operation wastes what it was charged, and many processes on a
	// busy disk occupy accounts for seconds; usage in the meantime is charged
	// all the same.
	patience = 10 * time.Second

	// silence is how long a clock may take to answer, while the others are read
	// as usual. It is this long because an operation whose clock is silent is
	// ended: on a busy machine a guest, the reader of its answers or the whole
	// machine may stall for seconds. Meanwhile the guest itself bounds the
	// usage of a program.
	silence = 15 * time.Second

	// settling bounds the wait for the accounts at the end of an operation,
	// whose context may have ended already. It is longer than patience, because
	// an amount that is not settled stays charged.
	settling = 30 * time.Second
)

// A Meter counts for one operation. It is safe for concurrent use.
type Meter struct {
	ctx    context.Context
	stop   context.CancelCauseFunc
	ended  chan struct{} // closed by End
	gone   chan struct{} // closed when no goroutine looks at clocks any more
	wake   chan struct{} // there is another clock
	finish sync.Once
	err    error // of the settlement

	mu     sync.Mutex
	res    Reservation
	held   [NumKinds]int64
	used   [NumKinds]int64
	tight  [NumKinds]bool // the last time there was less to be had than asked for
	waived bool           // nothing of it is charged
	clocks []*clock
}

// errEnded is the cause of a context whose operation has ended by itself.
var errEnded = sandbox.Errorf(sandbox.CodeInternal, "meter budget", "the operation has ended")

// Start reserves first, which is what is known beforehand (one call, say) and
// counts as used, and begins to count time. When no time is left, or less than
// first needs, it refuses and takes nothing. The operation has to run with the
// returned context; the cause of its end is the error that says what was used
// up. The caller must call [Meter.End].
func Start(ctx context.Context, from Source, first Amount) (*Meter, context.Context, error) {
	if err := CheckDraw(first); err != nil {
		return nil, nil, err
	}
	want := Add(first, One(WallMs, 1))
	res, err := from.Reserve(ctx, want)
	if err != nil {
		return nil, nil, err
	}
	m := &Meter{
		ended: make(chan struct{}), gone: make(chan struct{}), wake: make(chan struct{}, 1),
		res: res, held: Values(want), used: Values(first),
	}
	begin := time.Now()
	wall := func() (time.Duration, error) { return time.Since(begin), nil }
	m.clocks = []*clock{{kind: WallMs, read: wall, speed: 1}}
	m.ctx, m.stop = context.WithCancelCause(ctx)
	go m.look()
	return m, m.ctx, nil
}

// Add counts n of kind k, calls or files or bytes whose number is known, before
// they happen: all, or none and an error. It does not stop the operation, which may do without them.
func (m *Meter) Add(k Kind, n int64) error {
	if n < 0 {
		return CheckDraw(One(k, n))
	}
	for {
		m.mu.Lock()
		short := n - (m.held[k] - m.used[k])
		if short <= 0 {
			m.used[k] += n
			m.mu.Unlock()
			return nil
		}
		m.mu.Unlock()
		if _, err := m.more(m.ctx, One(k, short), One(k, short)); err != nil {
			return err
		}
	}
}

// Waive has the operation cost nothing: End settles with no use at all, of calls
// and time neither. It is for an operation that was refused without anything done.
func (m *Meter) Waive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waived = true
}

// Used returns what was used so far, with times as they were last read.
func (m *Meter) Used() Amount {
	m.mu.Lock()
	defer m.mu.Unlock()
	return FromValues(m.used)
}

// End stops counting, looks at the clocks once more and settles what was used;
// the operation's context ends. The error says that the accounts could not be
// reached, and then all that was reserved stays charged. Further calls return
// the same.
func (m *Meter) End() (used Amount, err error) {
	m.finish.Do(func() {
		close(m.ended)
		m.stop(errEnded)
		<-m.gone
		m.last()
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.waived {
			m.used = [NumKinds]int64{}
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), settling)
		defer cancel()
		m.err = m.res.Settle(ctx, FromValues(m.used))
		m.held = m.used // nothing is used afterwards
	})
	return m.Used(), m.err
}

// last reads the clocks once more. Where usage can no longer be determined, the
// reserved amount counts.
func (m *Meter) last() {
	m.mu.Lock()
	clocks := m.clocks
	m.mu.Unlock()
	for _, c := range clocks {
		err := c.look(silence)
		m.mu.Lock()
		if c.count(m); err != nil {
			m.used[c.kind] = max(m.used[c.kind], m.held[c.kind])
		}
		m.mu.Unlock()
	}
}

// more reserves more, unless the operation has ended; then the error is the
// cause. It is called without m.mu: the accounts may take their time.
func (m *Meter) more(ctx context.Context, least, want Amount) (Amount, error) {
	if m.ctx.Err() != nil {
		return Amount{}, context.Cause(m.ctx)
	}
	got, err := m.res.More(ctx, least, want)
	switch {
	case err != nil && m.ctx.Err() != nil:
		return Amount{}, context.Cause(m.ctx)
	case err != nil:
		return Amount{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.ended: // it went back with the rest, or is about to
		return Amount{}, errEnded
	default:
	}
	for k, n := range Values(got) {
		m.held[k] += n
	}
	return got, nil
}

// ahead is how much more of kind k is reserved at a time, after so many were
// used.
func ahead(k Kind, used int64) int64 {
	switch k {
	case BytesIn, BytesOut:
		return min(max(used, 4<<10), 1<<20)
	case CPUMs, GPUMs, WallMs:
		return min(max(used, 100), 1000)
	}
	return 0
}
