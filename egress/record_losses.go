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

// Why an event found no place.
var (
	errFull         = errors.New("too many decisions wait to be written")
	errRecordClosed = errors.New("the record is closed")
)

// Counters tell what a Recorder has done since it was made. They only grow.
type recordCounters struct {
	Recorded int64 `json:"recorded"` // events that are in the evidence, alone or counted
	Refusals int64 `json:"refusals"` // events that are among the violations, alone or counted
	Lost     int64 `json:"lost"`     // events that are not in the evidence
	Unlisted int64 `json:"unlisted"` // refusals that are not among the violations
	Batches  int64 `json:"batches"`  // that were written
	Waits    int64 `json:"waits"`    // callers that found the queue full
}

// counts are Counters that many may change.
type recordCounts struct {
	recorded, refusals, lost, unlisted, batches, waits atomic.Int64
}

// Counters returns what happened so far.
func (r *Recorder) Counters() recordCounters {
	c := &r.counts
	return recordCounters{
		Recorded: c.recorded.Load(), Refusals: c.refusals.Load(), Lost: c.lost.Load(), Unlisted: c.unlisted.Load(),
		Batches: c.batches.Load(), Waits: c.waits.Load(),
	}
}

// lost notes an event that is not on record, and says so in the log, but not
// more often than anybody would read.
func (r *Recorder) lost(it item, why error) {
	r.counts.lost.Add(1)
	r.losses.add(it.record(), r.o.Now())
	now := r.o.Now().UnixNano()
	if last := r.said.Load(); now-last >= int64(sayEvery) || now < last || last == 0 {
		if r.said.CompareAndSwap(last, now) {
			r.o.Log.WithError(why).WithField("sandbox", it.event.Sandbox).WithField("lost", r.counts.lost.Load()).
				Error("what passes the way out is not on record")
		}
	}
}

// maxLosers bounds the sandboxes whose losses are counted apart.
const maxLosers = 256

// losses count what is not on record and was not told there yet.
type losses struct {
	mu    sync.Mutex
	count map[string]loss // by sandbox
}

// A loss is a number of records like one.
type loss struct {
	like  evidence.Record
	n     int64
	since time.Time
	until time.Time
}

// add counts a record that is lost.
func (l *losses) add(r evidence.Record, now time.Time) { l.join(loss{r, 1, now, now}) }

// join counts records that are lost. Those of too many sandboxes are counted
// together, and then it is not told whose they were.
func (l *losses) join(more loss) {
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

// take returns the losses and forgets them.
func (l *losses) take() []loss {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.SortedFunc(maps.Values(l.count), func(a, b loss) int { return strings.Compare(a.like.Sandbox, b.like.Sandbox) })
	clear(l.count)
	return all
}

// record tells of a loss.
func (x loss) record() evidence.Record {
	return x.like.Omit(x.n, evidence.Omission{Reason: evidence.OmittedLost, Since: x.since, Until: x.until})
}

// giveBack takes what could not be told.
func (l *losses) giveBack(all []loss) {
	for _, x := range all {
		l.join(x)
	}
}

// waiting returns how many lost events were not told yet.
func (l *losses) waiting() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int64
	for _, x := range l.count {
		n += x.n
	}
	return n
}
