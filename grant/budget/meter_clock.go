package budget

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A meterUsage returns how much time an operation has used so far, including
// all its parts. It is called every [Interval] or more often, by one goroutine
// at a time, and keeps returning the last figure when the measured part has
// ended. An error means that usage can no longer be determined; so do 15
// seconds without an answer, after which it is not called again.
type meterUsage func() (time.Duration, error)

// A clock is one kind of time that is watched.
type clock struct {
	kind    Kind
	read    meterUsage
	speed   int   // how many times faster than real time it may go
	shown   int64 // milliseconds
	counted int64 // of them
	failed  error

	answers chan answer // to the question that was asked last; nil when it was answered
	asked   time.Time   // when that was
}

// An answer is what a [Usage] returns.
type answer struct {
	used time.Duration
	err  error
}

// Watch counts time of kind k, [budget.CPUMs] or [budget.GPUMs], until the end,
// and ends the operation's context when the budget is used up or usage fails.
// When nothing is left it refuses, and the caller must not begin the operation.
// A nil usage means that the kind cannot be metered here, which is
// [sandbox.CodeUnsupported]. Several usages of one kind are added up.
func (m *Meter) Watch(k Kind, usage meterUsage) error {
	if usage == nil {
		return Unmetered(k)
	}
	if k != CPUMs && k != GPUMs {
		return sandbox.Errorf(sandbox.CodeInternal, "meter budget", "%s is no time that is watched", k)
	}
	m.mu.Lock()
	left := m.held[k] - m.used[k]
	m.mu.Unlock()
	if left <= 0 {
		one := One(k, 1)
		if _, err := m.more(m.ctx, one, one); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clocks = append(m.clocks, &clock{kind: k, read: usage, speed: runtime.NumCPU()})
	select {
	case m.wake <- struct{}{}:
	default:
	}
	return nil
}

// look looks at the clocks until the operation ends.
func (m *Meter) look() {
	defer close(m.gone)
	timer := time.NewTimer(shortest)
	defer timer.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.wake:
		case <-timer.C:
		}
		begin := time.Now()
		next, err := m.tick()
		if err != nil {
			m.stop(err)
			return
		}
		timer.Reset(max(shortest, next-time.Since(begin)))
	}
}

// tick reads all clocks, reserves what they need and returns when to read them
// again. An error means that the operation has to end.
func (m *Meter) tick() (time.Duration, error) {
	m.mu.Lock()
	clocks := slices.Clone(m.clocks)
	m.mu.Unlock()
	for _, c := range clocks {
		if err := c.look(meterInterval); err != nil {
			return 0, &sandbox.Error{
				Code: sandbox.CodeUnavailable, Op: "meter budget", Field: "budget." + c.kind.String(), Err: err,
				Message: c.kind.String() + " cannot be measured any more",
			}
		}
	}
	least, want, must := m.needs(clocks)
	if want != (Amount{}) {
		if err := m.renew(least, want); err != nil && (must || sandbox.CodeOf(err) != sandbox.CodeBusy) {
			return 0, err
		}
	}
	return m.pause(clocks), nil
}

// needs counts what the clocks have shown and returns what has to be reserved
// for the next interval; must says that the usage is no longer covered.
func (m *Meter) needs(clocks []*clock) (least, want Amount, must bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var low, high [NumKinds]int64
	for _, c := range clocks {
		c.count(m)
	}
	for _, c := range clocks {
		step := ahead(c.kind, m.used[c.kind])
		left := m.held[c.kind] - m.used[c.kind]
		if left <= step/2 {
			low[c.kind] = max(0, 1-left) // one more than was used, or it is over
			high[c.kind] = step + max(0, -left)
			must = must || left <= 0
		}
	}
	return FromValues(low), FromValues(high), must
}

// renew reserves it, and notes where less was to be had.
func (m *Meter) renew(least, want Amount) error {
	ctx, cancel := context.WithTimeout(m.ctx, patience)
	defer cancel()
	amount, err := m.more(ctx, least, want)
	got := Values(amount)
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, n := range Values(want) {
		if n > 0 {
			m.tight[k] = got[k] < n
		}
	}
	return err
}

// pause is the time until clocks have to be looked at again: sooner where the
// budget is about to be used up.
func (m *Meter) pause(clocks []*clock) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := meterInterval
	for _, c := range clocks {
		if m.tight[c.kind] {
			left := time.Duration(m.held[c.kind]-m.used[c.kind]) * time.Millisecond
			next = min(next, left/time.Duration(c.speed))
		}
	}
	return max(next, shortest)
}

// look reads the clock and rounds up to whole milliseconds. A clock that goes
// back counts as standing still, and so does one that does not answer within
// wait; a later look sees its answer. It is called without m.mu, because a
// usage function may be slow.
func (c *clock) look(wait time.Duration) error {
	if c.failed != nil {
		return c.failed
	}
	a, ok := c.ask(wait)
	switch {
	case ok:
	case time.Since(c.asked) < silence:
		return nil
	default:
		a.err = errors.New("no answer")
	}
	if a.err != nil {
		c.failed = fmt.Errorf("read the clock of %s: %w", c.kind, a.err)
	}
	c.shown = max(c.shown, int64((a.used+time.Millisecond-1)/time.Millisecond))
	return c.failed
}

// ask returns the answer that comes within wait, to the question of now or to
// an older one that was not answered yet.
func (c *clock) ask(wait time.Duration) (answer, bool) {
	if c.kind == WallMs {
		d, err := c.read()
		return answer{d, err}, true
	}
	if c.answers == nil {
		answers := make(chan answer, 1)
		c.answers, c.asked = answers, time.Now()
		go func() {
			d, err := c.read()
			answers <- answer{d, err}
		}()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case a := <-c.answers:
		c.answers = nil
		return a, true
	case <-timer.C:
		return answer{}, false
	}
}

// count adds the time that the clock has shown to the usage of m. The caller
// holds m.mu.
func (c *clock) count(m *Meter) {
	m.used[c.kind] += c.shown - c.counted
	c.counted = c.shown
}
