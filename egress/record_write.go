package egress

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/policy"
)

// Bounds of a batch, as the evidence limits one write.
const (
	maxBatch      = 256
	maxBatchBytes = 256 << 10
)

// write is the writer: it writes queued items in batches, until the queue is
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
			_ = r.settle() // tried again later; losses are logged when they occur
		}
		pause.Reset(quiet)
	}
}

// A batch is a set of items written together.
type batch struct {
	items    []item // events in order
	records  []evidence.Record
	refusals []violation.Record
	size     int
	flushes  []chan error
}

// gather fills the batch with it and the items queued after it.
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

// commit writes the batch, sends the result to waiting callers, and empties
// it.
func (r *Recorder) commit(b *batch) {
	var err error
	if len(b.items) > 0 {
		failed := r.keep(b)
		r.list(b)
		for i, it := range b.items {
			why := failed[b.records[i].Tenant]
			it.answer(why)
			err = cmp.Or(err, why)
		}
	}
	for _, done := range b.flushes {
		if e := r.settle(); err == nil {
			err = e
		}
		done <- err
	}
	clear(b.items) // releases the items, which would otherwise be kept until the next large batch
	*b = batch{items: b.items[:0], records: b.records[:0], refusals: b.refusals[:0]}
}

// keep writes the evidence of a batch and the pending losses, and returns the
// error for each tenant whose write failed. Each tenant has a chain of its
// own: a failure for one does not lose records of another.
func (r *Recorder) keep(b *batch) map[string]error {
	ctx, done := context.WithTimeout(context.Background(), r.o.Within)
	defer done()
	all := r.dropped.take()
	var tenants []string
	parts := map[string]*share{}
	part := func(tenant string) *share {
		if parts[tenant] == nil {
			parts[tenant] = &share{}
			tenants = append(tenants, tenant)
		}
		return parts[tenant]
	}
	for _, x := range all {
		p := part(x.like.Tenant)
		p.before, p.records = append(p.before, x), append(p.records, x.record())
	}
	for i, it := range b.items {
		p := part(b.records[i].Tenant)
		p.items, p.records = append(p.items, it), append(p.records, b.records[i])
	}
	failed := map[string]error{}
	for _, tenant := range tenants {
		if err := r.keepShare(ctx, parts[tenant]); err != nil {
			failed[tenant] = err
		}
	}
	if len(failed) < len(tenants) {
		r.counts.batches.Add(1)
	}
	return failed
}

// A share is the part of a batch that belongs to one tenant.
type share struct {
	before  []loss
	items   []item
	records []evidence.Record // dropped and events
}

func (r *Recorder) keepShare(ctx context.Context, s *share) error {
	err := r.o.Evidence.Append(ctx, s.records...)
	if err != nil {
		r.dropped.giveBack(s.before)
		for _, it := range s.items {
			r.lost(it, err)
		}
		return err
	}
	r.counts.recorded.Add(int64(len(s.items)))
	return nil
}

// list writes the refusals of a batch as violations. If that fails, the loss
// is logged; the evidence has them.
func (r *Recorder) list(b *batch) {
	if r.o.Violations == nil || len(b.refusals) == 0 {
		return
	}
	ctx, done := context.WithTimeout(context.Background(), r.o.Within)
	defer done()
	if err := r.o.Violations.Append(ctx, b.refusals...); err != nil {
		r.counts.unlisted.Add(int64(len(b.refusals)))
		r.o.Log.WithError(err).WithField("refusals", len(b.refusals)).Warn("what was refused is not among the violations")
		return
	}
	r.counts.refusals.Add(int64(len(b.refusals)))
}

// settle writes losses and counted records.
func (r *Recorder) settle() error {
	ctx, done := context.WithTimeout(context.Background(), r.o.Within)
	defer done()
	var first error
	for _, x := range r.dropped.take() {
		if err := r.o.Evidence.Append(ctx, x.record()); err != nil {
			r.dropped.giveBack([]loss{x})
			first = cmp.Or(first, err)
		}
	}
	if first != nil {
		return first
	}
	return r.o.Evidence.Flush(ctx)
}

// answer sends the result of the write to the waiting caller.
func (it item) answer(err error) {
	if it.done != nil {
		it.done <- err
	}
}

// record returns the evidence record of an item, without its data.
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
