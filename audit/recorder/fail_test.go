package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
)

// TestFailingSink checks that operations run on while a sink fails that is not
// required, and that it gets everything in order when it works again.
func TestFailingSink(t *testing.T) {
	now := time.Now() // it stays, so that the failure is logged once, however long this takes
	g := newRig(t, t.TempDir(), Options{Now: func() time.Time { return now }})
	g.file.set(errNoDisk, nil)
	var ids []string
	for n := range 20 {
		e := g.begin(t, false)
		if n < 15 {
			end(t, e, wrote())
		}
		ids = append(ids, e.ID())
	}
	if c := g.sinkCount(t, "file"); c.Waiting != 35 || c.Lost != 0 || c.Written != 0 || c.Failures == 0 {
		t.Errorf("counters %+v", c)
	}
	if n := g.log.count("not on record"); n != 1 {
		t.Errorf("%d lines of the log", n)
	}
	if len(g.memory.Records()) != 35 {
		t.Errorf("in memory are %d records", len(g.memory.Records()))
	}
	g.file.set(nil, nil)
	end(t, g.begin(t, true), wrote())
	if c := g.sinkCount(t, "file"); c.Waiting != 0 || c.Lost != 0 || c.Written != 37 {
		t.Errorf("counters %+v", c)
	}
	kept := records(t, g.store, "acme")
	for i, r := range g.memory.Records() {
		if i < len(kept) && (r.Command != kept[i].Command || r.Type != kept[i].Type) {
			t.Fatalf("record %d is out of order", i)
		}
	}
	all := operations(t, g.store, "acme")
	for n, id := range ids {
		want := evidence.OK
		if n >= 15 {
			want = ""
		}
		wantStatus(t, all, id, want)
	}
}

// TestOwnTry checks that a caller that arrives while a write fails does not get
// the result of that write, but of the next one.
func TestOwnTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, t.TempDir(), Options{})
		gate := make(chan struct{})
		g.file.set(errNoDisk, gate)
		first := make(chan error, 1)
		go func() {
			_, err := g.Begin(t.Context(), write("acme"), true)
			first <- err
		}()
		synctest.Wait() // in the write that will fail
		g.file.set(nil, nil)
		second := make(chan error, 1)
		go func() {
			e, err := g.Begin(t.Context(), write("acme"), true)
			if err == nil {
				err = e.End(t.Context(), wrote())
			}
			second <- err
		}()
		synctest.Wait()
		close(gate)
		if err := <-first; !errors.Is(err, errNoDisk) {
			t.Errorf("the first: %v", err)
		}
		if err := <-second; err != nil {
			t.Errorf("the second, which came when there was room: %v", err)
		}
	})
}

// TestFlushOwnTry checks the same for a caller of flush, and that no lane is
// writing any more when flush returns.
func TestFlushOwnTry(t *testing.T) {
	for name, after := range map[string]error{"there is room then": nil, "it fails again": errNoDisk} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, t.TempDir(), Options{})
				begin := func() {
					if _, err := g.Begin(t.Context(), write("acme"), false); err != nil {
						t.Error(err)
					}
				}
				gate := make(chan struct{})
				g.file.set(errNoDisk, gate)
				go begin()
				synctest.Wait() // in the write that will fail
				g.file.set(after, nil)
				go begin()
				synctest.Wait()
				flushed := make(chan error, 1)
				writing := make(chan bool, 1)
				go func() {
					err := g.Flush(t.Context())
					g.sinks[0].mu.Lock()
					l := g.sinks[0].lanes["acme"]
					writing <- l != nil && l.writing
					g.sinks[0].mu.Unlock()
					flushed <- err
				}()
				synctest.Wait()
				close(gate)
				if err := <-flushed; !errors.Is(err, after) {
					t.Errorf("flush: %v", err)
				}
				if <-writing {
					t.Error("after the flush somebody writes")
				}
			})
		})
	}
}

// TestLost checks that records without a place are counted and reported, and
// that begins leave room for ends.
func TestLost(t *testing.T) {
	g := newRig(t, t.TempDir(), Options{Queue: 16})
	running := g.begin(t, false)
	g.file.set(errNoDisk, nil)
	var open []*Entry
	for range 20 {
		open = append(open, g.begin(t, false))
	}
	end(t, running, wrote())
	for _, e := range open[:10] {
		end(t, e, wrote())
	}
	if c := g.sinkCount(t, "file"); c.Waiting != 16 || c.Lost != 12+3 {
		t.Errorf("counters %+v", c)
	}
	g.file.set(nil, nil)
	end(t, g.begin(t, true), wrote())
	reported := map[evidence.Type]int64{}
	for _, r := range records(t, g.store, "acme") {
		var o evidence.Omission
		if r.Omitted == 0 {
			continue
		}
		if err := json.Unmarshal(r.Data, &o); err != nil || o.Reason != evidence.OmittedLost || o.Since.IsZero() || o.Until.Before(o.Since) || r.Agent != "main" {
			t.Errorf("told %+v, %v", r, err)
		}
		reported[r.Type] += r.Omitted
	}
	if reported[evidence.TypeBegin] != 12 || reported[evidence.TypeEnd] != 3 {
		t.Errorf("told %v", reported)
	}
	wantStatus(t, operations(t, g.store, "acme"), running.ID(), evidence.OK)
}

// TestRequired checks that nothing begins when it cannot be put on record, and
// that the refusal is on record later.
func TestRequired(t *testing.T) {
	g := newRig(t, t.TempDir(), Options{})
	running := g.begin(t, true)
	g.file.set(errNoDisk, nil)
	b := write("acme")
	b.ID = NewID()
	_, err := g.Begin(t.Context(), b, true)
	wantRefused(t, err, "no space left")
	if !errors.Is(err, errNoDisk) {
		t.Errorf("error %v does not wrap its cause", err)
	}
	wantRefused(t, g.Refused(t.Context(), write("acme"), evidence.End{Code: sandbox.CodeDenyTool}, true), "no space left")
	wantRefused(t, running.End(t.Context(), wrote()), "no space left")

	stuck := make(chan struct{})
	g.file.set(nil, stuck)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	late := write("acme")
	late.ID = NewID()
	_, err = g.Begin(ctx, late, true)
	wantRefused(t, err, "deadline")
	g.file.set(nil, nil)
	close(stuck)
	end(t, g.begin(t, true), wrote())
	all := operations(t, g.store, "acme")
	wantStatus(t, all, b.ID, evidence.Denied)
	wantStatus(t, all, late.ID, evidence.Denied)
	wantStatus(t, all, running.ID(), evidence.OK)
	if o := all[b.ID]; o.End != nil && (o.End.Code != sandbox.CodeUnavailable || o.End.Rule != "requireEvidence") {
		t.Errorf("end %+v", o.End)
	}
	if len(all) != 5 {
		t.Errorf("%d operations", len(all))
	}
}

// TestStandstill checks that a sink which stands still keeps operations waiting
// for a moment once and then no more, and other tenants not at all.
func TestStandstill(t *testing.T) {
	const wait = 256 * time.Millisecond
	stuck := make(chan struct{})
	slow := &stuckFor{Keeper: NewFile("slow", openStore(t, t.TempDir())), tenant: "acme", gate: stuck, in: make(chan struct{}, 1)}
	g := newRig(t, t.TempDir(), Options{Wait: wait}, slow)
	e := g.begin(t, false)
	<-slow.in
	began := time.Now()
	for range 100 {
		end(t, g.begin(t, false), wrote())
	}
	if took := time.Since(began); took > 150*wait { // if each begin and end waited it would be 200
		t.Errorf("100 operations take %s beside a sink that stands still", took)
	}
	other, err := g.Begin(t.Context(), write("globex"), true)
	if err != nil {
		t.Fatal(err)
	}
	end(t, other, wrote())
	wantStatus(t, operations(t, g.store, "globex"), other.ID(), evidence.OK)
	if c := g.sinkCount(t, "slow"); c.Waiting != 201 || c.Written != 2 {
		t.Errorf("counters %+v", c)
	}
	close(stuck)
	end(t, e, wrote())
	if err := g.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := g.sinkCount(t, "slow"); c.Waiting != 0 || c.Lost != 0 || c.Written != 204 {
		t.Errorf("counters %+v", c)
	}
}

// stuckFor is a Keeper that stands still for one tenant.
type stuckFor struct {
	Keeper
	tenant string
	gate   chan struct{}
	in     chan struct{}
}

func (s *stuckFor) Write(ctx context.Context, rs ...evidence.Record) error {
	if rs[0].Tenant == s.tenant {
		select {
		case s.in <- struct{}{}:
		default:
		}
		<-s.gate
	}
	return s.Keeper.Write(ctx, rs...)
}

// TestEndIsKept checks that Close writes an end that could not be written
// before, and that until then no recovery marks the operation as aborted.
func TestEndIsKept(t *testing.T) {
	g := newRig(t, t.TempDir(), Options{})
	e := g.begin(t, false)
	g.file.set(errNoDisk, nil)
	end(t, e, wrote())
	if err := g.Close(); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("close: %v", err)
	}
	next := newRig(t, g.dir, Options{})
	if n := next.Counters().Aborted; n != 0 {
		t.Errorf("%d were aborted", n)
	}
	g.file.set(nil, nil)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, operations(t, g.store, "acme"), e.ID(), evidence.OK)
	if left := writers(t, g.dir); len(left) != 0 {
		t.Errorf("files %v are left", left)
	}
}

// TestOneBadRecord checks that a record which a sink refuses for what it is keeps
// no other from being written.
func TestOneBadRecord(t *testing.T) {
	dir := t.TempDir()
	picky := &pickyKeeper{Keeper: NewFile("picky", openStore(t, dir)), err: errNoDisk}
	g := newRig(t, dir, Options{}, picky)
	for n := range 7 {
		b := write("acme")
		if n == 3 {
			b.Sandbox = "bad"
		}
		if _, err := g.Begin(t.Context(), b, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Flush(t.Context()); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Fatalf("flush: %v", err)
	}
	picky.err = nil
	if err := g.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := g.sinkCount(t, "picky"); c.Written != 6 || c.Lost != 1 || c.Waiting != 0 {
		t.Errorf("counters %+v", c)
	}
}

// pickyKeeper refuses records of the sandbox "bad". Its error is for one
// goroutine.
type pickyKeeper struct {
	Keeper
	err error
}

func (p *pickyKeeper) Write(ctx context.Context, rs ...evidence.Record) error {
	for _, r := range rs {
		if r.Sandbox == "bad" && r.Omitted == 0 && p.err == nil {
			return sandbox.Errorf(sandbox.CodeValidation, "test", "not this one")
		}
	}
	if p.err != nil {
		return p.err
	}
	return nil
}

// TestCallback checks that a function is called in order, one at a time.
func TestCallback(t *testing.T) {
	var got []string // by one goroutine at a time, which -race holds
	c := NewCallback("callback", func(_ context.Context, r evidence.Record) { got = append(got, fmt.Sprint(r.Type, r.Command)) })
	g := newRig(t, t.TempDir(), Options{}, c)
	var want []string
	for range 50 {
		e := g.begin(t, false)
		end(t, e, wrote())
		want = append(want, "begin"+e.ID(), "end"+e.ID())
	}
	if err := g.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("called with %v, want %v", got, want)
	}
}

// TestCallbackPanics checks that a panic costs only the record at hand, and
// that another record reports the loss.
func TestCallbackPanics(t *testing.T) {
	calls, reported := 0, int64(0)
	g := newRig(t, t.TempDir(), Options{}, NewCallback("callback", func(_ context.Context, r evidence.Record) {
		if reported += r.Omitted; r.Omitted > 0 {
			return
		}
		if calls++; calls%3 == 0 {
			panic("no")
		}
	}))
	for range 15 {
		end(t, g.begin(t, false), wrote())
	}
	if err := g.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := g.sinkCount(t, "callback"); calls != 30 || reported != 10 || c.Lost != 10 || c.Written != 20 {
		t.Errorf("%d calls, told of %d, counters %+v", calls, reported, c)
	}
	if g.log.count("panics") == 0 {
		t.Error("the log does not know")
	}
}

// TestCallbackBlocks checks that a function that does not return delays no
// caller, and that the records it misses are bounded, counted and reported.
func TestCallbackBlocks(t *testing.T) {
	stuck, in := make(chan struct{}), make(chan struct{}, 1)
	var kept, reported int64
	g := newRig(t, t.TempDir(), Options{Queue: 16}, NewCallback("callback", func(_ context.Context, r evidence.Record) {
		select {
		case in <- struct{}{}:
		default:
		}
		<-stuck
		if reported += r.Omitted; r.Omitted == 0 {
			kept++
		}
	}))
	end(t, g.begin(t, true), wrote())
	<-in
	for range 100 {
		end(t, g.begin(t, true), wrote())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := g.Flush(ctx); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("flush: %v", err)
	}
	if c := g.sinkCount(t, "callback"); c.Waiting != 16 || c.Lost != 186 {
		t.Errorf("counters %+v", c)
	}
	close(stuck)
	if err := g.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kept != 16 || reported != 186 {
		t.Errorf("kept %d, told of %d", kept, reported)
	}
}
