package egress

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
)

// TestFullQueue checks that callers wait for a bounded time, and that dropped
// events are reported in the log and in a record.
func TestFullQueue(t *testing.T) {
	now := time.Now() // time of all losses, so that they are logged once
	g, s := newShaky(t, RecorderOptions{Queue: 2, Wait: 20 * time.Millisecond, Now: func() time.Time { return now }})
	gate := make(chan struct{})
	s.set(nil, gate)
	g.Record(allowed())
	<-s.in // the writer is busy with the first
	for range 5 {
		g.Record(allowed())
	}
	if c := g.Counters(); c.Lost != 3 || c.Waits != 3 || c.Recorded != 0 {
		t.Errorf("counters %+v", c)
	}
	if n := g.log.count("not on record"); n != 1 {
		t.Errorf("the log tells it %d times", n)
	}
	s.set(nil, nil)
	close(gate)
	g.flush(t)
	wantLoss(t, g, 3, 3)
}

// wantLoss checks how many events are recorded, and how many are reported as
// lost.
func wantLoss(t *testing.T, g *recordRig, kept int, lost int64) {
	t.Helper()
	var n int
	var reported int64
	for _, r := range g.proven(t) {
		if r.Omitted == 0 {
			n++
			continue
		}
		var o evidence.Omission
		if err := json.Unmarshal(r.Data, &o); err != nil || o.Reason != evidence.OmittedLost || o.Since.IsZero() || o.Until.Before(o.Since) {
			t.Errorf("%s, %v", r.Data, err)
		}
		if r.Tenant != "acme" || r.Sandbox != sbx || r.Session != "chat-42" {
			t.Errorf("lost of %+v", r)
		}
		reported += r.Omitted
	}
	if n != kept || reported != lost {
		t.Errorf("%d events are on record and %d told to be lost, want %d and %d", n, reported, kept, lost)
	}
}

// TestFailingStore checks that events that could not be written are reported
// once they can be, and that a sandbox that does not require evidence
// continues.
func TestFailingStore(t *testing.T) {
	g, s := newShaky(t, RecorderOptions{})
	s.set(errNoDisk, nil)
	for range 3 {
		if err := g.Decide(allowed()); err != nil {
			t.Error(err)
		}
	}
	if err := g.Flush(t.Context()); !errors.Is(err, errNoDisk) {
		t.Errorf("flush: %v", err)
	}
	if c := g.Counters(); c.Lost != 3 || c.Recorded != 0 || c.Batches != 0 {
		t.Errorf("counters %+v", c)
	}
	s.set(nil, nil)
	g.Record(allowed())
	g.flush(t)
	wantLoss(t, g, 1, 3)
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// TestLossesAreReportedAtTheEnd checks that losses are recorded without another
// event.
func TestLossesAreReportedAtTheEnd(t *testing.T) {
	g, s := newShaky(t, RecorderOptions{})
	s.set(errNoDisk, nil)
	g.Record(allowed())
	if err := g.Flush(t.Context()); err == nil {
		t.Error("a flush that wrote nothing succeeds")
	}
	s.set(nil, nil)
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	wantLoss(t, g, 0, 1)
}

// TestRequire checks that nothing passes before it is recorded, if the
// settings of a sandbox or of all require it.
func TestRequire(t *testing.T) {
	for name, o := range map[string]RecorderOptions{"of all": {Require: true}, "of the sandbox": {}} {
		t.Run(name, func(t *testing.T) {
			g, s := newShaky(t, o)
			leave := g.Sandbox(sbx, recordWho{Tenant: "acme", Require: true})
			e := allowed()
			e.Caller = "" // credentials left out change nothing
			if err := g.Decide(e); err != nil {
				t.Fatal(err)
			}
			if n := len(g.proven(t)); n != 1 {
				t.Errorf("%d records when it may pass", n)
			}
			s.set(errNoDisk, nil)
			err := g.Decide(e)
			var se *sandbox.Error
			if !errors.As(err, &se) || se.Code != sandbox.CodeUnavailable || se.Field != "requireEvidence" || se.Hint == "" || !errors.Is(err, errNoDisk) {
				t.Errorf("error %v", err)
			}
			g.Record(recordRefused()) // returns
			leave()
			if err := g.Decide(allowed()); (err != nil) != o.Require {
				t.Errorf("after leaving: %v", err)
			}
		})
	}
}

// TestRequiredIsKeptOneByOne checks that many events that require evidence are
// recorded one by one instead of counted.
func TestRequiredIsKeptOneByOne(t *testing.T) {
	g := recordNewRig(t, RecorderOptions{Require: true}, evidence.Options{Burst: 1, Rate: 1})
	for range 20 {
		if err := g.Decide(allowed()); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range g.proven(t) {
		if r.Omitted > 0 {
			t.Errorf("%d are only counted", r.Omitted)
		}
	}
}

// TestRequireWithoutRoom checks that decisions that require evidence are
// refused if the queue is full or closed.
func TestRequireWithoutRoom(t *testing.T) {
	g, s := newShaky(t, RecorderOptions{Require: true, Queue: 1, Wait: 10 * time.Millisecond})
	gate := make(chan struct{})
	s.set(nil, gate)
	g.Record(allowed())
	<-s.in
	g.Record(allowed())
	if err := g.Decide(allowed()); !errors.Is(err, errFull) {
		t.Errorf("with a full queue: %v", err)
	}
	close(gate)
	g.Close()
	if err := g.Decide(allowed()); !errors.Is(err, errRecordClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// TestSlowStore checks that a decision that requires evidence waits no longer
// than a write may take.
func TestSlowStore(t *testing.T) {
	g, s := newShaky(t, RecorderOptions{Require: true, Within: 10 * time.Millisecond})
	gate := make(chan struct{})
	s.set(nil, gate)
	defer close(gate)
	if err := g.Decide(allowed()); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("while the disk stands still: %v", err)
	}
}

// TestManyLosers checks that memory does not grow with the sandboxes that lose
// events, and that the sum stays right.
func TestManyLosers(t *testing.T) {
	var l dropped
	now := time.Now()
	for i := range 3 * maxLosers {
		l.add(evidence.Record{Tenant: "acme", Sandbox: string(rune('a' + i)), Type: evidence.TypeEgress}, now)
	}
	if len(l.count) > maxLosers+1 || l.waiting() != 3*maxLosers {
		t.Errorf("%d sandboxes, %d events", len(l.count), l.waiting())
	}
	all := l.take()
	if l.waiting() != 0 {
		t.Errorf("%d are left", l.waiting())
	}
	l.giveBack(all)
	if l.waiting() != 3*maxLosers {
		t.Errorf("%d are given back", l.waiting())
	}
}
