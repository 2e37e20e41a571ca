// Package recorder records the begin and the end of operations, on disk and in
// other sinks.
//
// A begin is written before the operation runs. Where evidence is required, an
// operation does not run without it. Otherwise a sink that fails or blocks
// delays no caller: the recorder keeps a bounded number of records for it and
// delivers them with the next ones; it counts the records that are lost beyond
// that, and reports them in a record as soon as one can be written.
//
// When a program dies, the ends of its running operations are unknown. Each
// Recorder holds the lock of a file of its own while it is open; the next
// Recorder that opens looks through the files without a lock holder, and records
// the missing ends as aborted. Readers pair begins and ends by the id of the
// operation; see pairs in package evidence.
package recorder

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
)

// The defaults of Options.
const (
	DefaultQueue = 1024 // records
	DefaultWait  = time.Second
)

// Options are what a Recorder needs.
type Options struct {
	Sinks []Sink
	// Writers is the folder of the files of programs that write evidence, see
	// [statedir.Dir.Writers]. It is required where a Sink is a [Keeper], and is
	// made when something begins.
	Writers string
	Log     logrus.FieldLogger // required

	Queue int // records that may wait for one sink; 0 takes DefaultQueue
	// Wait is how long an operation waits where evidence is not required; 0
	// means DefaultWait. Where evidence is required, and for other writes, the
	// limit is five seconds, or Wait if it is longer.
	Wait time.Duration
	// Sync makes the own file survive a loss of power. It goes with records
	// that do.
	Sync bool
	Now  func() time.Time // default time.Now
}

// within is how long what has to be written may take.
func (o Options) within() time.Duration { return max(writeWithin, o.Wait) }

// A Recorder writes begins and ends. It is safe for concurrent use. Its errors
// are of type *[sandbox.Error].
type Recorder struct {
	o       Options
	id      string
	openSet *openSet
	sinks   []*sinkWriter
	rings   []*Memory
	keepers []Keeper

	begun, ended, refused, aborted atomic.Int64

	mu     sync.Mutex
	closed bool
	open   int // operations that run
}

// Open returns a Recorder and records the missing ends of programs that have
// died, see [Recorder.Recover]. When the recovery fails or takes longer than
// five seconds, or [Options.Wait] if that is longer, Open logs the failure, and
// the next Recorder continues it.
func Open(o Options) (*Recorder, error) {
	const op = "open the record of operations"
	if o.Log == nil {
		return nil, sandbox.Errorf(sandbox.CodeValidation, op, "there is no log")
	}
	if o.Queue < 0 || o.Wait < 0 {
		return nil, sandbox.Errorf(sandbox.CodeValidation, op, "a queue of %d records and %s to wait are less than none", o.Queue, o.Wait)
	}
	if o.Queue == 0 {
		o.Queue = DefaultQueue
	}
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	w := &Recorder{o: o, id: NewID()}
	w.openSet = &openSet{dir: o.Writers, id: w.id, sync: o.Sync}
	for _, s := range o.Sinks {
		switch s := s.(type) {
		case nil:
			return nil, sandbox.Errorf(sandbox.CodeValidation, op, "a sink is nil")
		case *Memory:
			w.rings = append(w.rings, s)
			continue
		case Keeper:
			w.keepers = append(w.keepers, s)
		}
		w.sinks = append(w.sinks, newSinkWriter(s, o, w.openSet.enter))
	}
	if len(w.keepers) > 0 && o.Writers == "" {
		return nil, sandbox.Errorf(sandbox.CodeValidation, op, "there is no folder for the files of writers")
	}
	ctx, done := context.WithTimeout(context.Background(), o.within())
	defer done()
	if _, err := w.Recover(ctx); err != nil {
		o.Log.WithError(err).Warn("not all operations of programs that have ended are on record as aborted")
	}
	return w, nil
}

// Writer returns the id of this Recorder, that begins carry.
func (w *Recorder) Writer() string { return w.id }

// Flush waits until all sinks have what is there, and returns why one has not.
func (w *Recorder) Flush(ctx context.Context) error {
	var errs []error
	for _, o := range w.sinks {
		errs = append(errs, o.flush(ctx))
	}
	return errors.Join(errs...)
}

// Close refuses new operations and writes pending records, within five seconds,
// or [Options.Wait] if that is longer. Running operations can still be ended;
// the last end writes the rest. The error names the sinks and what they lack.
// As long as records that must be kept are pending, the Recorder counts as
// alive, so that no other program records finished operations as aborted. Close
// can be called again.
func (w *Recorder) Close() error {
	w.mu.Lock()
	w.closed = true
	idle := w.open == 0
	w.mu.Unlock()
	ctx, done := context.WithTimeout(context.Background(), w.o.within())
	defer done()
	var missing, kept error
	for _, o := range w.sinks {
		err := o.flush(ctx)
		if missing = errors.Join(missing, err); o.keeps {
			kept = errors.Join(kept, err)
		}
	}
	if idle && kept == nil {
		return errors.Join(missing, w.openSet.end())
	}
	return missing
}

// enter counts an operation, unless the Recorder is closed.
func (w *Recorder) enter() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return noEvidence("the record of operations is closed", nil)
	}
	w.open++
	return nil
}

// leave counts an operation that has ended.
func (w *Recorder) leave() {
	w.mu.Lock()
	w.open--
	last := w.closed && w.open == 0
	w.mu.Unlock()
	if !last {
		return
	}
	if err := w.Close(); err != nil {
		w.o.Log.WithError(err).Error("operations are not all on record")
	}
}

// NewID returns an id for an operation: 16 random bytes as 32 hex digits.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // which does not fail
	return hex.EncodeToString(b[:])
}

func noEvidence(message string, cause error) error {
	hint := "look for a full disk or a busy one at the state folder"
	if e := (*sandbox.Error)(nil); errors.As(cause, &e) && e.Hint != "" {
		hint = e.Hint // of the error's origin, which knows more
	}
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "record an operation", Field: "requireEvidence", Message: message, Err: cause, Retryable: true,
		Hint: hint,
	}
}

// Counters are the statistics of a Recorder since it was opened. They only grow,
// except for Waiting.
type Counters struct {
	Begun   int64          `json:"begun"`   // operations
	Ended   int64          `json:"ended"`   // of those
	Refused int64          `json:"refused"` // that did not begin
	Aborted int64          `json:"aborted"` // of other programs, written here
	Sinks   []SinkCounters `json:"sinks"`
}

// SinkCounters are the statistics of one sink, in records.
type SinkCounters struct {
	Name     string `json:"name"`
	Written  int64  `json:"written"`
	Lost     int64  `json:"lost"`     // it will never get; of a Memory: that it no longer contains
	Waiting  int64  `json:"waiting"`  // it has yet to get
	Failures int64  `json:"failures"` // writes that failed
}

// Counters returns what happened so far.
func (w *Recorder) Counters() Counters {
	c := Counters{Begun: w.begun.Load(), Ended: w.ended.Load(), Refused: w.refused.Load(), Aborted: w.aborted.Load()}
	for _, o := range w.sinks {
		c.Sinks = append(c.Sinks, o.counters())
	}
	for _, m := range w.rings {
		m.mu.Lock()
		c.Sinks = append(c.Sinks, SinkCounters{Name: m.name, Written: m.dropped + int64(len(m.ring)), Lost: m.dropped})
		m.mu.Unlock()
	}
	return c
}
