// This file records the decisions of the proxy: all of them as evidence,
// refusals also as violations, and those of a command as violations of that
// command.
//
// The proxy must not wait for a disk. Decisions go through a bounded queue to
// one writer, which writes the gathered ones as one batch. If the queue is
// full the proxy waits for up to a second; decisions that then find no place,
// and those that cannot be written, are counted, and reported in the log and,
// as soon as possible, in a record. A killed process loses the decisions in
// the queue. If a sandbox requires evidence, nothing passes before its
// decision is written, so that the record survives every kind of exit.

package egress

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
)

// The defaults of RecorderOptions, and bounds.
const (
	defaultQueue  = 4096
	defaultWait   = time.Second
	defaultWithin = 5 * time.Second

	quiet    = time.Second      // delay after which counts are written
	sayEvery = 10 * time.Second // interval between two log lines about losses
)

// recordEvidence stores all events; *[evidence.Store] is one.
type recordEvidence interface {
	Append(ctx context.Context, rs ...evidence.Record) error
	Flush(ctx context.Context) error // writes counted records
}

var _ recordEvidence = (*evidence.Store)(nil)

// RecorderOptions configure a Recorder.
type RecorderOptions struct {
	Evidence   recordEvidence     // required
	Violations violation.Recorder // nil: refusals are in the evidence alone
	// Require makes every decision to allow wait until it is written, and fail
	// if it cannot be written. recordWho.Require does so for one sandbox.
	Require bool
	Queue   int                // events that may be queued; 0 is the default
	Wait    time.Duration      // how long a caller waits for a place; 0 is the default
	Within  time.Duration      // bounds a write, and how long Decide waits for one; 0 is the default
	Log     logrus.FieldLogger // required
	Now     func() time.Time   // default time.Now
}

// A Recorder records the events of a Plane. It is safe for concurrent use.
// Close ends its goroutine.
type Recorder struct {
	o     RecorderOptions
	queue chan item
	ended chan struct{}
	names registry

	open   sync.RWMutex // read-locked while an item is put into the queue
	closed bool

	counts  recordCounts
	dropped dropped
	said    atomic.Int64 // time of the last log line about a loss, in ns
}

// An item is an entry of the writer's queue: an event with its attribution, or
// a request to write all counted records.
type item struct {
	event Event
	who   who
	flush bool
	// done receives the result of the item's batch; nil if no caller waits.
	done chan error
}

// NewRecorder returns a Recorder with a running writer.
func NewRecorder(o RecorderOptions) (*Recorder, error) {
	const op = "open the record of the way out"
	switch {
	case o.Evidence == nil || o.Log == nil:
		return nil, sandbox.Errorf(sandbox.CodeValidation, op, "there is no place for evidence, or no log")
	case o.Queue < 0 || o.Wait < 0 || o.Within < 0:
		return nil, sandbox.Errorf(sandbox.CodeValidation, op, "a queue of %d events, %s to wait or %s to write is less than none", o.Queue, o.Wait, o.Within)
	}
	if o.Queue == 0 {
		o.Queue = defaultQueue
	}
	if o.Wait == 0 {
		o.Wait = defaultWait
	}
	if o.Within == 0 {
		o.Within = defaultWithin
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Recorder{o: o, queue: make(chan item, o.Queue), ended: make(chan struct{})}
	go r.write()
	return r, nil
}

// Record records an event without waiting for the write: a refusal, or an end.
// It returns at once while there is room in the queue.
func (r *Recorder) Record(e Event) {
	who, _ := r.names.find(e.Sandbox, e.Caller)
	if err := r.put(item{event: e, who: who}); err != nil {
		r.lost(item{event: e, who: who}, err)
	}
}

// Decide records a decision to allow, before a byte passes. An error, of type
// *[sandbox.Error], means that the request has to be refused: evidence is
// required and cannot be written, or the sandbox is not registered. The caller
// records the refusal as an event of its own. Otherwise Decide is as Record.
func (r *Recorder) Decide(e Event) error {
	who, known := r.names.find(e.Sandbox, e.Caller)
	if !known {
		return noEvidence("the owner of the sandbox is not known", nil)
	}
	it := item{event: e, who: who}
	it.who.require = it.who.require || r.o.Require
	if !it.who.require {
		if err := r.put(it); err != nil {
			r.lost(it, err)
		}
		return nil
	}
	it.done = make(chan error, 1)
	if err := r.put(it); err != nil {
		r.lost(it, err)
		return noEvidence("the decision cannot be put on record", err)
	}
	ctx, done := context.WithTimeout(context.Background(), r.o.Within)
	defer done()
	select {
	case err := <-it.done:
		if err != nil {
			return noEvidence("the decision cannot be put on record", err)
		}
		return nil
	case <-ctx.Done():
		return noEvidence("the decision was not put on record in time", nil)
	}
}

// Flush waits until all events recorded before are written, counts included.
// It returns the error of the write.
func (r *Recorder) Flush(ctx context.Context) error {
	it := item{flush: true, done: make(chan error, 1)}
	if err := r.putUntil(it, ctx.Done()); err != nil {
		return err
	}
	select {
	case err := <-it.done:
		return err
	case <-ctx.Done():
		return noEvidence("the record was not written in time", ctx.Err())
	}
}

// Close writes the queued events and ends the writer. Later events are lost,
// and later decisions that require evidence are refused. The stores stay open.
func (r *Recorder) Close() error {
	r.open.Lock()
	if !r.closed {
		r.closed = true
		close(r.queue)
	}
	r.open.Unlock()
	<-r.ended
	if n := r.dropped.waiting(); n > 0 {
		return noEvidence("decisions are missing in the evidence", nil)
	}
	return nil
}

// put queues an item for the writer, or returns an error if there is no place
// in time.
func (r *Recorder) put(it item) error {
	r.open.RLock()
	defer r.open.RUnlock()
	if r.closed {
		return errRecordClosed
	}
	select {
	case r.queue <- it:
		return nil
	default:
	}
	r.counts.waits.Add(1)
	t := time.NewTimer(r.o.Wait)
	defer t.Stop()
	select {
	case r.queue <- it:
		return nil
	case <-t.C:
		return errFull
	}
}

func (r *Recorder) putUntil(it item, end <-chan struct{}) error {
	r.open.RLock()
	defer r.open.RUnlock()
	if r.closed {
		return noEvidence(errRecordClosed.Error(), nil)
	}
	select {
	case r.queue <- it:
		return nil
	case <-end:
		return noEvidence(errFull.Error(), nil)
	}
}

func noEvidence(message string, cause error) error {
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "record what passes", Field: "requireEvidence", Message: message, Err: cause, Retryable: true,
		Hint: "look for a full disk or a busy one at the state folder",
	}
}
