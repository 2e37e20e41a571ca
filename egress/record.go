// Record: this part of the package puts what the proxy decides on record: everything into the
// evidence, refusals among the violations, and for the command that asked as
// violations of its own.
//
// The proxy must not wait for a disk. Its decisions go through a bounded queue
// to one writer, which writes what has gathered as one batch. When the queue
// is full the proxy waits for up to a second; what finds no place then, and
// what cannot be written, is counted, and told in the log and in a record as
// soon as one can be written. What waits in the queue is lost with a process
// that is killed. Where a sandbox requires evidence nothing passes before its
// decision is written: that survives the end of the process, however it comes.

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

// The defaults of Options, and bounds.
const (
	defaultQueue  = 4096
	defaultWait   = time.Second
	defaultWithin = 5 * time.Second

	quiet    = time.Second      // after which counts are written
	sayEvery = 10 * time.Second // between two lines of the log about losses
)

// Evidence is what keeps everything; *[evidence.Store] is one.
type recordEvidence interface {
	Append(ctx context.Context, rs ...evidence.Record) error
	Flush(ctx context.Context) error // writes what was only counted
}

var _ recordEvidence = (*evidence.Store)(nil)

// Options are what a Recorder needs.
type RecorderOptions struct {
	Evidence   recordEvidence     // required
	Violations violation.Recorder // nil: refusals are in the evidence alone
	// Require makes every decision to allow wait until it is written, and
	// fail when it cannot be. Who.Require does so for one sandbox.
	Require bool
	Queue   int                // events that may wait to be written; 0 takes DefaultQueue
	Wait    time.Duration      // how long a caller waits for a place; 0 takes DefaultWait
	Within  time.Duration      // bounds a write, and how long Decide waits for one; 0 takes DefaultWithin
	Log     logrus.FieldLogger // required
	Now     func() time.Time   // default time.Now
}

// A Recorder takes the events of a Plane. It is safe for concurrent use. Close
// ends its goroutine.
type Recorder struct {
	o     RecorderOptions
	queue chan item
	ended chan struct{}
	names registry

	open   sync.RWMutex // held for reading while something is put into the queue
	closed bool

	counts recordCounts
	losses losses
	said   atomic.Int64 // when the log was told of a loss, in ns
}

// An item waits for the writer: an event with whose it is, or a request to
// write everything that is kept back.
type item struct {
	event Event
	who   who
	flush bool
	// done hears how the batch went that the item was in; nil: nobody waits.
	done chan error
}

// New returns a Recorder whose writer waits for events.
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

// Record takes an event that nobody waits for: a refusal, or an end. It
// returns at once while there is room in the queue.
func (r *Recorder) Record(e Event) {
	who, _ := r.names.find(e.Sandbox, e.Caller)
	if err := r.put(item{event: e, who: who}); err != nil {
		r.lost(item{event: e, who: who}, err)
	}
}

// Decide takes a decision to allow, before a byte of it passes. An error, of
// type *[sandbox.Error], means that it has to be refused: evidence is required
// and cannot be written, or nobody has said whose the sandbox is. The refusal
// is an event of its own, for Record. Otherwise it is as Record.
func (r *Recorder) Decide(e Event) error {
	who, known := r.names.find(e.Sandbox, e.Caller)
	if !known {
		return noEvidence("nobody has said whose the sandbox is", nil)
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

// Flush waits until everything that was taken before is written, counts
// included. Its error is that of the write.
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

// Close writes what is waiting and ends the writer. What comes later is lost,
// and what would have to be on record is refused. The stores stay open.
func (r *Recorder) Close() error {
	r.open.Lock()
	if !r.closed {
		r.closed = true
		close(r.queue)
	}
	r.open.Unlock()
	<-r.ended
	if n := r.losses.waiting(); n > 0 {
		return noEvidence("decisions are missing in the evidence", nil)
	}
	return nil
}

// put gives an item to the writer, or an error when there is no place for it
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
