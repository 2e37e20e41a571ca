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
	refusals []violation.Record
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
	clear(b.items) // or what is in them would be held until the next large batch
	*b = batch{items: b.items[:0], records: b.records[:0], refusals: b.refusals[:0]}
}

// keep writes the evidence of a batch, and with it what was lost before, and
// returns for which tenants that failed. Each has a chain of its own: what
// fails for one is not lost for another.
func (r *Recorder) keep(b *batch) map[string]error {
	ctx, done := context.WithTimeout(context.Background(), r.o.Within)
	defer done()
	all := r.losses.take()
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

// A share is what a batch holds of one tenant.
type share struct {
	before  []loss
	items   []item
	records []evidence.Record // of both
}

func (r *Recorder) keepShare(ctx context.Context, s *share) error {
	err := r.o.Evidence.Append(ctx, s.records...)
	if err != nil {
		r.losses.giveBack(s.before)
		for _, it := range s.items {
			r.lost(it, err)
		}
		return err
	}
	r.counts.recorded.Add(int64(len(s.items)))
	return nil
}

// list writes the refusals of a batch. That they are not among the violations
// is told in the log; they are in the evidence.
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

// settle writes what is lost and what was only counted.
func (r *Recorder) settle() error {
	ctx, done := context.WithTimeout(context.Background(), r.o.Within)
	defer done()
	var first error
	for _, x := range r.losses.take() {
		if err := r.o.Evidence.Append(ctx, x.record()); err != nil {
			r.losses.giveBack([]loss{x})
			first = cmp.Or(first, err)
		}
	}
	if first != nil {
		return first
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
