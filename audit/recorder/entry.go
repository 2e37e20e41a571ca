package recorder

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
)

// ruleRequired is the rule by which an operation is refused that could not be
// put on record.
const ruleRequired = "requireEvidence"

// An Entry is an operation that has begun. Its End must be called.
type Entry struct {
	w       *Recorder
	id      string
	require bool
	like    evidence.Record // of the begin, without data
	began   time.Time
	over    atomic.Bool
}

// Begin records that an operation begins. It sets ID (unless it is one of
// [NewID]), Writer and Time of b, and shortens its texts to what is kept.
//
// Of a Parent it sets Head, of the first Keeper that has chains.
//
// With require, an error means that the operation must not run: a Keeper has
// not accepted the begin in time, there is no Keeper, or ctx has ended; the
// code is then [sandbox.CodeUnavailable] and the Field "requireEvidence". The
// Recorder itself records that refusal as soon as it can. Without require, Begin
// returns an error only when the Recorder is closed.
func (w *Recorder) Begin(ctx context.Context, b evidence.Begin, require bool) (_ *Entry, err error) {
	if err := w.enter(); err != nil {
		return nil, err
	}
	if b.Parent, err = w.headed(ctx, b, require); err != nil {
		w.leave()
		return nil, err
	}
	e, rec, err := w.entry(b, require)
	if err != nil {
		w.leave()
		return nil, err
	}
	w.begun.Add(1)
	err = w.deliver(ctx, require, rec)
	if err == nil || !require {
		return e, nil
	}
	refusal := evidence.End{Status: evidence.Denied, Code: sandbox.CodeUnavailable, Rule: ruleRequired, Detail: "the begin could not be put on record in time"}
	if end, eerr := e.end(refusal); eerr == nil {
		w.offer(end)
	}
	e.over.Store(true)
	w.ended.Add(1)
	w.leave()
	return nil, err
}

// headed returns the Parent of b with the place where the chain of its tenant ends.
// Without require, a chain that cannot be read leaves that out.
func (w *Recorder) headed(ctx context.Context, b evidence.Begin, require bool) (*evidence.Parent, error) {
	if b.Parent == nil {
		return nil, nil
	}
	p := *b.Parent
	p.Head = nil
	for _, k := range w.keepers {
		chained, ok := k.(interface {
			Head(ctx context.Context, tenant string) (*evidence.Head, error)
		})
		if !ok {
			continue
		}
		within, done := context.WithTimeout(ctx, w.o.within())
		defer done()
		head, err := chained.Head(within, b.Tenant)
		if err != nil && require {
			return nil, &sandbox.Error{
				Code: sandbox.CodeUnavailable, Op: "record an operation", Field: ruleRequired, Message: "the end of the evidence chain cannot be read, which the begin names", Err: err,
				Hint: "see: sandbox evidence verify",
			}
		}
		p.Head = head
		break
	}
	return &p, nil
}

// Refused records an operation that does not begin. It writes both records at
// once, as [evidence.Minor]: requests cost nothing, so a caller that repeats a
// forbidden request without end would otherwise push records of completed
// operations out of the files. The Status of end is [proof.Denied] unless end
// sets another. Without require, Refused returns an error only when the Recorder
// is closed.
func (w *Recorder) Refused(ctx context.Context, b evidence.Begin, end evidence.End, require bool) error {
	if err := w.enter(); err != nil {
		return err
	}
	defer w.leave()
	e, begin, err := w.entry(b, require)
	if err != nil {
		return err
	}
	e.over.Store(true)
	if end.Status == "" {
		end.Status = evidence.Denied
	}
	rec, err := e.end(end)
	if err != nil {
		return err
	}
	begin.Share, rec.Share = evidence.Minor, evidence.Minor
	w.refused.Add(1)
	if err := w.deliver(ctx, require, begin, rec); require {
		return err
	}
	return nil
}

// ID returns the id of the operation.
func (e *Entry) ID() string { return e.id }

// End puts on record how the operation has ended. It does so although ctx has
// ended, within a time of its own. ID of end is filled in, Time and Duration
// where they are zero; a Status that there is not becomes [proof.OK] where there
// is no Code, and else [proof.Failed].
//
// An error means that evidence is required and the end is not on record yet; it
// is kept, and written as soon as it can be. A second End is refused.
func (e *Entry) End(ctx context.Context, end evidence.End) error {
	if !e.over.CompareAndSwap(false, true) {
		return sandbox.Errorf(sandbox.CodeInternal, "record an operation", "operation %s has ended before", e.id)
	}
	defer e.w.leave()
	e.w.ended.Add(1)
	rec, err := e.end(end)
	if err != nil {
		return err
	}
	if err := e.w.deliver(context.WithoutCancel(ctx), e.require, rec); e.require {
		return err
	}
	return nil
}

// entry returns an operation and the record of its begin.
func (w *Recorder) entry(b evidence.Begin, require bool) (*Entry, evidence.Record, error) {
	now := w.o.Now()
	if !isID(b.ID) {
		b.ID = NewID()
	}
	b.Writer, b.Time = w.id, now.UTC()
	data, err := encodeBegin(b)
	if err != nil {
		return nil, evidence.Record{}, err
	}
	e := &Entry{w: w, id: b.ID, require: require, began: now, like: evidence.Record{
		Time: b.Time, Tenant: name(b.Tenant, false), Agent: name(b.Agent, false), Session: name(b.Session, false),
		Sandbox: name(b.Sandbox, false), Command: b.ID, Type: evidence.TypeBegin, Share: evidence.Exact,
	}}
	rec := e.like
	rec.Data = data
	return e, rec, nil
}

// end returns the record of an end.
func (e *Entry) end(end evidence.End) (evidence.Record, error) {
	now := e.w.o.Now()
	end.ID = e.id
	if end.Time.IsZero() {
		end.Time = now
	}
	if end.Duration == 0 {
		end.Duration = now.Sub(e.began)
	}
	end.Time, end.Duration = end.Time.UTC(), max(end.Duration, 0)
	switch end.Status {
	case evidence.OK, evidence.Denied, evidence.Failed, evidence.Aborted:
	default:
		end.Status = evidence.Failed
		if end.Code == "" {
			end.Status = evidence.OK
		}
	}
	return endRecord(e.like, end)
}

// endRecord returns the record of an end, for the operation of begin.
func endRecord(begin evidence.Record, end evidence.End) (evidence.Record, error) {
	data, err := encodeEnd(end)
	if err != nil {
		return evidence.Record{}, err
	}
	begin.Type, begin.Time, begin.Data, begin.Share = evidence.TypeEnd, end.Time, data, evidence.Exact
	return begin, nil
}

// offer gives records to all sinks and waits for none.
func (w *Recorder) offer(rs ...evidence.Record) {
	for _, m := range w.rings {
		_ = m.Write(context.Background(), rs...) // which does not fail
	}
	for _, o := range w.sinks {
		o.offer(rs)
	}
}

// deliver gives records to all sinks and waits for the Keepers. The error says
// which of them has not taken them in time.
func (w *Recorder) deliver(ctx context.Context, require bool, rs ...evidence.Record) error {
	for _, m := range w.rings {
		_ = m.Write(ctx, rs...) // which does not fail
	}
	var waits []wait
	var failed error
	for _, o := range w.sinks {
		if !o.keeps {
			o.offer(rs)
			continue
		}
		x := wait{sinkWriter: o, done: make(chan error, 1)}
		if x.queue = w.place(ctx, require, o, &job{records: rs, done: x.done}); x.queue == nil {
			o.lose(rs)
			failed = notTaken(o, errFull)
			continue
		}
		waits = append(waits, x)
	}
	if require && len(w.keepers) == 0 {
		return noEvidence("no sink keeps records", nil)
	}
	for _, x := range waits {
		if err := await(ctx, x.done, x.queue.limit(require, w.o.Wait)); err != nil && failed == nil {
			failed = notTaken(x.sinkWriter, err)
		}
	}
	return failed
}

// A wait is what a caller waits for.
type wait struct {
	sinkWriter *sinkWriter
	queue      *queue
	done       chan error
}

// place finds a place for a job, after a retry of the waiting records if
// necessary. It returns nil when there is none.
func (w *Recorder) place(ctx context.Context, require bool, o *sinkWriter, j *job) *queue {
	l, again := o.put(j)
	if l != nil {
		return l
	}
	limit := w.o.Wait / hasty
	if require {
		limit = o.within
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-again:
	case <-t.C:
	case <-ctx.Done():
	}
	l, _ = o.put(j)
	return l
}

// limit says how long a caller waits for a sink.
func (l *queue) limit(require bool, wait time.Duration) time.Duration {
	if require {
		return l.within
	}
	return l.patience(wait)
}

var errLate = errors.New("it takes too long")

// await returns the result of a write, or an error when the context or the
// limit ends the wait.
func await(ctx context.Context, done <-chan error, limit time.Duration) error {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return errLate
	case <-ctx.Done():
		return ctx.Err()
	}
}

func notTaken(o *sinkWriter, err error) error {
	return noEvidence(fmt.Sprintf("the operation cannot be put on record in %s", o.sink.Name()), err)
}
