package egress

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
)

// Reasons why an event was not queued.
var (
	errFull         = errors.New("too many decisions wait to be written")
	errRecordClosed = errors.New("the record is closed")
)

// recordCounters count the activity of a Recorder since it was created. They
// only grow.
type recordCounters struct {
	Recorded int64 `json:"recorded"` // events in the evidence, as single records or counted
	Refusals int64 `json:"refusals"` // events among the violations, as single records or counted
	Lost     int64 `json:"lost"`     // events missing from the evidence
	Unlisted int64 `json:"unlisted"` // refusals missing from the violations
	Batches  int64 `json:"batches"`  // batches written
	Waits    int64 `json:"waits"`    // callers that found the queue full
}

// recordCounts are recordCounters for concurrent updates.
type recordCounts struct {
	recorded, refusals, lost, unlisted, batches, waits atomic.Int64
}

// Counters returns the current counters.
func (r *Recorder) Counters() recordCounters {
	c := &r.counts
	return recordCounters{
		Recorded: c.recorded.Load(), Refusals: c.refusals.Load(), Lost: c.lost.Load(), Unlisted: c.unlisted.Load(),
		Batches: c.batches.Load(), Waits: c.waits.Load(),
	}
}

// lost counts an event that is not recorded, and logs that at a limited rate.
func (r *Recorder) lost(it item, why error) {
	r.counts.lost.Add(1)
	r.dropped.add(it.record(), r.o.Now())
	now := r.o.Now().UnixNano()
	if last := r.said.Load(); now-last >= int64(sayEvery) || now < last || last == 0 {
		if r.said.CompareAndSwap(last, now) {
			r.o.Log.WithError(why).WithField("sandbox", it.event.Sandbox).WithField("lost", r.counts.lost.Load()).
				Error("what passes the way out is not on record")
		}
	}
}

// maxLosers bounds the sandboxes whose losses are counted separately.
const maxLosers = 256

// dropped count unrecorded events that are not yet reported in a record.
type dropped struct {
	mu    sync.Mutex
	count map[string]loss // by sandbox
}

// A loss is a number of lost records of the same kind.
type loss struct {
	like  evidence.Record
	n     int64
	since time.Time
	until time.Time
}

// add counts a lost record.
func (l *dropped) add(r evidence.Record, now time.Time) { l.join(loss{r, 1, now, now}) }

// join counts lost records. Beyond maxLosers they are counted together,
// without their sandbox.
func (l *dropped) join(more loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == nil {
		l.count = map[string]loss{}
	}
	key := more.like.Tenant + "\x00" + more.like.Sandbox
	if _, ok := l.count[key]; !ok && len(l.count) >= maxLosers {
		key, more.like.Tenant, more.like.Sandbox, more.like.Agent, more.like.Session = "", "", "", "", ""
	}
	have, ok := l.count[key]
	if !ok {
		l.count[key] = more
		return
	}
	if have.like.Agent != more.like.Agent || have.like.Session != more.like.Session {
		have.like.Agent, have.like.Session = "", ""
	}
	have.n += more.n
	if more.since.Before(have.since) {
		have.since = more.since
	}
	if more.until.After(have.until) {
		have.until = more.until
	}
	l.count[key] = have
}

// take returns the losses and resets them.
func (l *dropped) take() []loss {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.SortedFunc(maps.Values(l.count), func(a, b loss) int { return strings.Compare(a.like.Sandbox, b.like.Sandbox) })
	clear(l.count)
	return all
}

// record returns the record that reports a loss.
func (x loss) record() evidence.Record {
	return x.like.Omit(x.n, evidence.Omission{Reason: evidence.OmittedLost, Since: x.since, Until: x.until})
}

// giveBack restores losses that could not be recorded.
func (l *dropped) giveBack(all []loss) {
	for _, x := range all {
		l.join(x)
	}
}

// waiting returns the number of lost events that are not yet reported.
func (l *dropped) waiting() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int64
	for _, x := range l.count {
		n += x.n
	}
	return n
}
