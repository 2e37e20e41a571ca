package record

import (
	"context"
	"encoding/json"
	"time"

	"github.com/bulkhead-dev/sandbox/evidence"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/violation/store"
)

// Bounds of a batch: the evidence keeps so much in one write.
const (
	maxBatch      = 256
	maxBatchBytes = 256 << 10
)

// write is the writer: it takes what has gathered in the queue, until that is
// closed and empty.
func (r *Recorder) write() {
	defer close(r.ended)
	pause := time.NewTimer(quiet)
	defer pause.Stop()
	var b batch
	for {
		select {
		case it, ok := <-r.queue:
			if !ok {
				if err := r.settle(); err != nil {
					r.o.Log.WithError(err).Error("what passes the way out is not all on record")
				}
				return
			}
			r.gather(&b, it)
			r.commit(&b)
		case <-pause.C:
			_ = r.settle() // tried again; what is lost was told when it was
		}
		pause.Reset(quiet)
	}
}

// A batch is what is written at once.
type batch struct {
	items    []item // of events, in their order
	records  []evidence.Record
	refusals []store.Record
	size     int
	flushes  []chan error
}

// gather fills the batch with it and what waits behind it.
func (r *Recorder) gather(b *batch, it item) {
	for {
		r.add(b, it)
		if len(b.items) >= maxBatch || b.size >= maxBatchBytes || len(b.flushes) > 0 {
			return
		}
		select {
		case next, ok := <-r.queue:
			if !ok {
				return
			}
			it = next
		default:
			return
		}
	}
}

func (r *Recorder) add(b *batch, it item) {
	if it.flush {
		b.flushes = append(b.flushes, it.done)
		return
	}
	it.event = bounded(it.event, r.o.Now())
	rec := it.record()
	var err error
	if rec.Data, err = encode(it.event); err != nil {
		r.lost(it, err)
		it.answer(err)
		return
	}
	b.items, b.records = append(b.items, it), append(b.records, rec)
	b.size += len(rec.Data) + 512
	if v, ok := it.refusal(); ok {
		b.refusals = append(b.refusals, v)
	}
}

// commit writes the batch, answers who waits for it, and empties it.
func (r *Recorder) commit(b *batch) {
	var err error
	if len(b.items) > 0 {
		err = r.keep(b)
		r.list(b)
	}
	for _, it := range b.items {
		it.answer(err)
	}
	for _, done := range b.flushes {
		if e := r.settle(); err == nil {
			err = e
		}
		done <- err
	}
	clear(b.items) // or what is in them would be held until the next large batch
	*b = batch{items: b.items[:0], records: b.records[:0], refusals: b.refusals[:0]}
}

// keep writes the evidence of a batch, and with it what was lost before.
func (r *Recorder) keep(b *batch) error {
	ctx, done := context.WithTimeout(context.Background(), writeWithin)
	defer done()
	before, told := r.losses.take()
	err := r.o.Evidence.Append(ctx, append(told, b.records...)...)
	if err != nil {
		r.losses.giveBack(before)
		for _, it := range b.items {
			r.lost(it, err)
		}
		return err
	}
	r.counts.recorded.Add(int64(len(b.items)))
	r.counts.batches.Add(1)
	return nil
}

// list writes the refusals of a batch. That they are not among the violations
// is told in the log; they are in the evidence.
func (r *Recorder) list(b *batch) {
	if r.o.Violations == nil || len(b.refusals) == 0 {
		return
	}
	ctx, done := context.WithTimeout(context.Background(), writeWithin)
	defer done()
	if err := r.o.Violations.Append(ctx, b.refusals...); err != nil {
		r.counts.unlisted.Add(int64(len(b.refusals)))
		r.o.Log.WithError(err).WithField("refusals", len(b.refusals)).Warn("what was refused is not among the violations")
		return
	}
	r.counts.refusals.Add(int64(len(b.refusals)))
}

// settle writes what is lost and what was only counted.
func (r *Recorder) settle() error {
	ctx, done := context.WithTimeout(context.Background(), writeWithin)
	defer done()
	if before, told := r.losses.take(); len(told) > 0 {
		if err := r.o.Evidence.Append(ctx, told...); err != nil {
			r.losses.giveBack(before)
			return err
		}
	}
	return r.o.Evidence.Flush(ctx)
}

// answer tells who waits how the write went.
func (it item) answer(err error) {
	if it.done != nil {
		it.done <- err
	}
}

// record is the evidence of an item, without its data.
func (it item) record() evidence.Record {
	m := it.who.meta
	rec := evidence.Record{
		Time: it.event.Time, Tenant: m.Tenant, Agent: m.Agent, Session: m.Session, Sandbox: it.event.Sandbox, Command: it.event.Caller,
		Type: evidence.TypeEgress, Data: json.RawMessage(`{}`),
	}
	switch {
	case it.event.Verdict != policy.Allow:
		rec.Share = evidence.Minor
	case it.who.require:
		rec.Share = evidence.Exact
	}
	return rec
}
