// This file counts the connections, bytes and time of one sandbox's egress
// session, and enforces the limits on them.

package egress

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// defaultIdle is the idle limit of a connection if Limits set none.
const defaultIdle = 5 * time.Minute

// Limits that were exceeded; errors of a meter are these, by errors.Is.
var (
	errConnections = errors.New("too many connections at once")
	errBytesIn     = errors.New("too many bytes into the sandbox")
	errBytesOut    = errors.New("too many bytes out of the sandbox")
	errTotal       = errors.New("the time for the network is over")
	errMeterClosed = errors.New("the way out is closed")
)

// Limits bound the network use of one sandbox, all its connections together.
// Zero is unbounded, except for Idle.
type Limits struct {
	Connections  int           // open at once
	BytesIn      int64         // into the sandbox
	BytesOut     int64         // out of it
	RequestBytes int64         // of the body of one HTTP request that the proxy reads
	Idle         time.Duration // without a byte on a connection; zero is five minutes
	Total        time.Duration // from the creation of the meter
}

// Check returns an error for negative limits.
func (l Limits) Check() error {
	for _, f := range [...]struct {
		name  string
		value int64
	}{
		{"connections", int64(l.Connections)}, {"bytesIn", l.BytesIn}, {"bytesOut", l.BytesOut},
		{"requestBytes", l.RequestBytes}, {"idle", int64(l.Idle)}, {"total", int64(l.Total)},
	} {
		if f.value < 0 {
			e := sandbox.Errorf(sandbox.CodeValidation, "limit network", "the limit is negative")
			e.Field, e.Hint = f.name, "give 0 for no limit"
			return e
		}
	}
	return nil
}

// meterCounts are the counts of a meter.
type meterCounts struct {
	Open    int64 // connections now
	Taken   int64 // connections so far
	Refused int64 // connections beyond the limits
	In      int64 // bytes into the sandbox
	Out     int64 // bytes out of it
}

// A meter counts the network use of one sandbox. It is safe for concurrent
// use.
//
// The first exceeded limit of bytes or time ends it for good: Done is closed
// and every further count is refused, so that connections under way end too.
type meter struct {
	limits Limits
	timer  *time.Timer // nil without Total

	open, taken, refused, in, out atomic.Int64

	end  sync.Once
	done chan struct{}
	err  error // valid once done is closed
}

// newMeter starts a meter; Total runs from now. A negative limit, which
// [Limits.Check] refuses, allows nothing. The caller has to close it.
func newMeter(l Limits) *meter {
	if l.Idle == 0 {
		l.Idle = defaultIdle
	}
	m := &meter{limits: l, done: make(chan struct{})}
	switch {
	case l.Total < 0:
		m.finish(errTotal)
	case l.Total > 0:
		m.timer = time.AfterFunc(l.Total, func() { m.finish(errTotal) })
	}
	return m
}

// Close ends the meter with its closed error, unless it has ended.
func (m *meter) Close() {
	if m.timer != nil {
		m.timer.Stop()
	}
	m.finish(errMeterClosed)
}

// Done returns a channel that is closed when a limit of bytes or time is
// exceeded, or at Close.
func (m *meter) Done() <-chan struct{} { return m.done }

// Err returns why Done was closed, and nil before.
func (m *meter) Err() error {
	select {
	case <-m.done:
		return m.err
	default:
		return nil
	}
}

// Limits returns the limits, with the default for Idle.
func (m *meter) Limits() Limits { return m.limits }

// Counts returns the current counts.
func (m *meter) Counts() meterCounts {
	return meterCounts{m.open.Load(), m.taken.Load(), m.refused.Load(), m.in.Load(), m.out.Load()}
}

// Take counts a connection until release is called; calling it again does
// nothing. A connection beyond the limit gets errConnections, which does not
// end the meter.
func (m *meter) Take() (release func(), err error) {
	if err := m.Err(); err != nil {
		m.refused.Add(1)
		return nil, err
	}
	if n, most := m.open.Add(1), int64(m.limits.Connections); most != 0 && n > most {
		m.open.Add(-1)
		m.refused.Add(1)
		return nil, passed(errConnections)
	}
	m.taken.Add(1)
	return sync.OnceFunc(func() { m.open.Add(-1) }), nil
}

// In counts n bytes that are about to pass into the sandbox. If it returns an
// error, none of them may pass, and they are not counted: a limit is never
// exceeded, not even by a byte.
func (m *meter) In(n int64) error { return m.count(&m.in, n, m.limits.BytesIn, errBytesIn) }

// Out counts n bytes that are about to pass out of the sandbox, as In does.
func (m *meter) Out(n int64) error { return m.count(&m.out, n, m.limits.BytesOut, errBytesOut) }

func (m *meter) count(c *atomic.Int64, n, most int64, over error) error {
	if err := m.Err(); err != nil {
		return err
	}
	if n < 0 {
		return sandbox.Errorf(sandbox.CodeInternal, "count bytes", "a negative number")
	}
	if most == 0 {
		c.Add(n)
		return nil
	}
	for {
		before := c.Load()
		if n > most-before {
			m.finish(over)
			return m.Err()
		}
		if c.CompareAndSwap(before, before+n) {
			return nil
		}
	}
}

func (m *meter) finish(why error) {
	m.end.Do(func() {
		m.err = passed(why)
		close(m.done)
	})
}

// passed returns the error of an exceeded limit.
func passed(why error) error {
	e := &sandbox.Error{
		Code: sandbox.CodeBudgetExceeded, Op: "use network", Err: why,
		Hint: "raise the limits of the network in the settings",
	}
	switch why {
	case errConnections:
		e.Retryable, e.Hint = true, "close connections first, or raise the limits of the network in the settings"
	case errMeterClosed:
		e.Code, e.Hint = sandbox.CodeUnavailable, ""
	}
	return e
}
