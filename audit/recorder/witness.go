// Package witness puts on record that operations begin and how they end, on
// disk and elsewhere.
//
// A begin is written before the operation runs. Where evidence is required
// nothing runs without it, and otherwise a sink that fails or stands still
// keeps nobody waiting: what it did not get is kept for it, a bounded number,
// and given with what comes next; what is lost beyond that is counted, and told
// by a record as soon as one can be written.
//
// What a program has begun and not ended when it dies, nobody can tell the end
// of. Each Witness holds the lock of a file of its own for as long as it lives;
// the next one opened looks through the files that nobody holds, and writes the
// ends that are missing as aborted. Readers pair begins and ends by the id of
// the operation; package pairs does.
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

// Options are what a Witness needs.
type Options struct {
	Sinks []Sink
	// Writers is the folder of the files of programs that write evidence, see
	// [statedir.Dir.Writers]. It is required where a Sink is a [Keeper], and is
	// made when something begins.
	Writers string
	Log     logrus.FieldLogger // required

	Queue int // records that may wait for one sink; 0 takes DefaultQueue
	// Wait is how long an operation waits where evidence is not required; 0 takes
	// DefaultWait. Where it is required, and for all else that is written, that is
	// five seconds, or Wait if it is longer.
	Wait time.Duration
	// Sync makes the own file survive a loss of power. It goes with records
	// that do.
	Sync bool
	Now  func() time.Time // default time.Now
}

// within is how long what has to be written may take.
func (o Options) within() time.Duration { return max(writeWithin, o.Wait) }

// A Witness writes begins and ends. It is safe for concurrent use. Its errors
// are of type *[sandbox.Error].
type Witness struct {
	o       Options
	id      string
	roll    *roll
	outlets []*outlet
	rings   []*Memory
	keepers []Keeper

	begun, ended, refused, aborted atomic.Int64

	mu     sync.Mutex
	closed bool
	open   int // operations that run
}

// Open returns a Witness and writes what is missing of programs that have
// ended, see [Witness.Recover]; where that fails or takes longer than five
// seconds, or [Options.Wait] if that is longer, the log tells, and the next one
// goes on.
func Open(o Options) (*Witness, error) {
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
	w := &Witness{o: o, id: NewID()}
	w.roll = &roll{dir: o.Writers, id: w.id, sync: o.Sync}
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
		w.outlets = append(w.outlets, newOutlet(s, o, w.roll.enter))
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

// Writer returns the id of this Witness, that begins carry.
func (w *Witness) Writer() string { return w.id }

// Flush waits until all sinks have what is there, and returns why one has not.
func (w *Witness) Flush(ctx context.Context) error {
	var errs []error
	for _, o := range w.outlets {
		errs = append(errs, o.flush(ctx))
	}
	return errors.Join(errs...)
}

// Close refuses what would begin, and writes what waits, within five seconds,
// or [Options.Wait] if that is longer. Operations that still run can still be
// ended; with the last one the rest is written. The error tells what is missing
// where. As long as that is something that has to be kept the Witness counts as
// living, so that nobody takes what has ended for aborted; Close can be called
// again.
func (w *Witness) Close() error {
	w.mu.Lock()
	w.closed = true
	idle := w.open == 0
	w.mu.Unlock()
	ctx, done := context.WithTimeout(context.Background(), w.o.within())
	defer done()
	var missing, kept error
	for _, o := range w.outlets {
		err := o.flush(ctx)
		if missing = errors.Join(missing, err); o.keeps {
			kept = errors.Join(kept, err)
		}
	}
	if idle && kept == nil {
		return errors.Join(missing, w.roll.end())
	}
	return missing
}

// enter counts an operation, unless the Witness is closed.
func (w *Witness) enter() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return noEvidence("the record of operations is closed", nil)
	}
	w.open++
	return nil
}

// leave counts an operation that has ended.
func (w *Witness) leave() {
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
		hint = e.Hint // of whoever knows more
	}
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "record an operation", Field: "requireEvidence", Message: message, Err: cause, Retryable: true,
		Hint: hint,
	}
}

// Counters tell what a Witness has done since it was opened. They only grow,
// but for Waiting.
type Counters struct {
	Begun   int64          `json:"begun"`   // operations
	Ended   int64          `json:"ended"`   // of those
	Refused int64          `json:"refused"` // that did not begin
	Aborted int64          `json:"aborted"` // of other programs, written here
	Sinks   []SinkCounters `json:"sinks"`
}

// SinkCounters tell how one sink does, in records.
type SinkCounters struct {
	Name     string `json:"name"`
	Written  int64  `json:"written"`
	Lost     int64  `json:"lost"`     // it will never get; of a Memory: it does not hold any more
	Waiting  int64  `json:"waiting"`  // it has yet to get
	Failures int64  `json:"failures"` // writes that failed
}

// Counters returns what happened so far.
func (w *Witness) Counters() Counters {
	c := Counters{Begun: w.begun.Load(), Ended: w.ended.Load(), Refused: w.refused.Load(), Aborted: w.aborted.Load()}
	for _, o := range w.outlets {
		c.Sinks = append(c.Sinks, o.counters())
	}
	for _, m := range w.rings {
		m.mu.Lock()
		c.Sinks = append(c.Sinks, SinkCounters{Name: m.name, Written: m.dropped + int64(len(m.ring)), Lost: m.dropped})
		m.mu.Unlock()
	}
	return c
}
