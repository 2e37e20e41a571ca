package recorder

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
)

// Bounds of what waits for one sink.
const (
	maxLanes = 4096
	share    = 8 // one tenant may have so little of all the places
)

const (
	sayEvery  = 10 * time.Second // between two lines of the log about one sink
	wakeEvery = time.Second      // between two tries because of other lanes
)

// A sinkWriter is a sink with its pending jobs: one queue, or, for a Keeper, one
// queue per tenant, so that a failure with one tenant's records does not delay
// the records of another.
type sinkWriter struct {
	sink  Sink
	keeps bool
	most  int // records in a batch
	room  int // number of records that may wait in a lane
	// before is called with what is about to be written; its error counts as
	// that of the sink.
	before func([]evidence.Record) error
	within time.Duration // for one write
	log    logrus.FieldLogger
	now    func() time.Time

	mu    sync.Mutex // guards what is in the lanes, too
	lanes map[string]*queue
	said  time.Time // when a failure was last logged
	woke  time.Time // when the other lanes were last retried because one lane succeeded
	count SinkCounters
}

func newSinkWriter(s Sink, o Options, before func([]evidence.Record) error) *sinkWriter {
	out := &sinkWriter{sink: s, most: maxBatch, room: o.Queue, within: o.within(), log: o.Log, now: o.Now, lanes: map[string]*queue{}}
	if _, out.keeps = s.(Keeper); out.keeps {
		out.before = before
	}
	if _, ok := s.(*Callback); ok {
		out.most = 1 // a panic loses what was given, and no more
	}
	out.count.Name = s.Name()
	return out
}

// put passes a job, whose records belong to one tenant, to the sink. When there
// is no room, the lane is nil and the channel is closed when the caller should
// try again.
func (o *sinkWriter) put(j *job) (*queue, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.queue(j.records[0].Tenant)
	if l.put(j) {
		return l, nil
	}
	return nil, l.flush()
}

// offer gives records to the sink, or loses them when there is no place.
func (o *sinkWriter) offer(rs []evidence.Record) {
	if l, _ := o.put(&job{records: rs}); l == nil {
		o.lose(rs)
	}
}

// lose counts records that the sink will never get, and logs the loss.
func (o *sinkWriter) lose(rs []evidence.Record) {
	o.mu.Lock()
	o.queue(rs[0].Tenant).lose(rs)
	o.mu.Unlock()
	o.tell(errFull)
}

// queue returns the lane of a tenant. Beyond a maximum number of lanes, tenants
// share one.
func (o *sinkWriter) queue(tenant string) *queue {
	if !o.keeps {
		tenant = ""
	}
	l := o.lanes[tenant]
	if l == nil && len(o.lanes) >= maxLanes {
		tenant = ""
		l = o.lanes[tenant]
	}
	if l == nil {
		l = &queue{sinkWriter: o, tenant: tenant, dropped: dropped{}}
		o.lanes[tenant] = l
	}
	return l
}

// wake retries the lanes with pending records, because another lane has just
// succeeded. The caller holds the lock.
func (o *sinkWriter) wake() {
	if time.Since(o.woke) < wakeEvery {
		return
	}
	o.woke = time.Now()
	for _, l := range o.lanes {
		if len(l.jobs) > 0 || len(l.dropped) > 0 {
			l.start()
		}
	}
}

// flush waits until no lane is writing, and returns an error when records are
// still pending.
func (o *sinkWriter) flush(ctx context.Context) error {
	o.mu.Lock()
	var ends []chan struct{}
	for _, l := range o.lanes {
		ends = append(ends, l.flush())
	}
	o.mu.Unlock()
	for _, ended := range ends {
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var cause error
	var unreported int64
	for _, l := range o.lanes {
		unreported += l.dropped.waiting()
		if len(l.jobs) > 0 && cause == nil {
			cause = l.failing
		}
	}
	if n := o.count.Waiting + unreported; n > 0 {
		if cause == nil {
			cause = ctx.Err()
		}
		return noEvidence(fmt.Sprintf("%d records are missing in %s", n, o.count.Name), cause)
	}
	return nil
}

// tell logs a failure, at a limited rate.
func (o *sinkWriter) tell(why error) {
	now := o.now()
	o.mu.Lock()
	since := now.Sub(o.said)
	quiet := !o.said.IsZero() && since >= 0 && since < sayEvery // clocks can be set back
	if !quiet {
		o.said = now
	}
	c := o.count
	o.mu.Unlock()
	if !quiet {
		o.log.WithError(why).WithField("sink", c.Name).WithField("waiting", c.Waiting).WithField("lost", c.Lost).
			Error("operations are not on record")
	}
}

// counters returns what happened so far.
func (o *sinkWriter) counters() SinkCounters {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count
}

// write gives records to the sink.
func (o *sinkWriter) write(rs []evidence.Record) (err error) {
	if len(rs) == 0 {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
	}()
	if o.before != nil {
		if err := o.before(rs); err != nil {
			return err
		}
	}
	ctx, done := context.WithTimeout(context.Background(), o.within)
	defer done()
	return o.sink.Write(ctx, rs...)
}

// Why a record finds no place, or is not given again.
var (
	errFull  = errors.New("too many records wait to be written")
	errPanic = errors.New("the sink panics")
)
