package recorder

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
)

// TestBeginAndEnd checks what is kept of one operation, and that it is on disk
// before the operation runs.
func TestBeginAndEnd(t *testing.T) {
	g := newRig(t, t.TempDir(), Options{})
	e := g.begin(t, false)
	got := records(t, g.store, "acme")
	if len(got) != 1 || got[0].Type != evidence.TypeBegin || got[0].Command != e.ID() || got[0].Sandbox != "sbx-1" || got[0].Agent != "main" || got[0].Session != "chat-42" {
		t.Fatalf("after the begin there is %+v", got)
	}
	if len(g.memory.Records()) != 1 {
		t.Errorf("in memory are %d records", len(g.memory.Records()))
	}
	want := write("acme")
	o := operations(t, g.store, "acme")[e.ID()]
	want.ID, want.Writer, want.Time = e.ID(), g.Writer(), o.Begin.Time
	if diff := cmp.Diff(want, *o.Begin); diff != "" || !isID(want.ID) || !isID(want.Writer) || want.Time.IsZero() {
		t.Errorf("begin %+v: %s", o.Begin, diff)
	}

	end(t, e, wrote())
	o = operations(t, g.store, "acme")[e.ID()]
	last := wrote()
	last.ID, last.Time, last.Duration = e.ID(), o.End.Time, o.End.Duration
	if diff := cmp.Diff(last, *o.End); diff != "" || last.Time.Before(want.Time) || last.Duration <= 0 {
		t.Errorf("end %+v: %s", o.End, diff)
	}
	if err := e.End(t.Context(), wrote()); sandbox.CodeOf(err) != sandbox.CodeInternal {
		t.Errorf("a second end: %v", err)
	}
	operations(t, g.store, "acme") // none twice
	if c := g.Counters(); c.Begun != 1 || c.Ended != 1 || c.Sinks[0].Written != 2 {
		t.Errorf("counters %+v", c)
	}
}

// TestRefused checks that a refusal is written whole and at once.
func TestRefused(t *testing.T) {
	g := newRig(t, t.TempDir(), Options{})
	if err := g.Refused(t.Context(), write("acme"), evidence.End{Code: sandbox.CodeDenyTool, Rule: "tools.deny[0]"}, true); err != nil {
		t.Fatal(err)
	}
	if n := <-g.file.in; n != 2 {
		t.Errorf("the first write has %d records", n)
	}
	got := records(t, g.store, "acme")
	if len(got) != 2 {
		t.Fatalf("%d records", len(got))
	}
	wantStatus(t, operations(t, g.store, "acme"), got[0].Command, evidence.Denied)
	if c := g.Counters(); c.Refused != 1 || c.Begun != 0 {
		t.Errorf("counters %+v", c)
	}
}

// TestStatus checks what becomes of an end without one, or with one that there
// is not.
func TestStatus(t *testing.T) {
	g := newRig(t, t.TempDir(), Options{})
	for _, tt := range []struct {
		name string
		end  evidence.End
		want evidence.Status
	}{
		{"nothing said", evidence.End{}, evidence.OK},
		{"a code", evidence.End{Code: sandbox.CodeTimeout}, evidence.Failed},
		{"a word that is none", evidence.End{Status: "fine"}, evidence.OK},
		{"a word that is none, and a code", evidence.End{Status: "fine", Code: sandbox.CodeTimeout}, evidence.Failed},
		{"denied on the way", evidence.End{Status: evidence.Denied, Code: sandbox.CodeCapabilityBlocked}, evidence.Denied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := g.begin(t, true)
			end(t, e, tt.end)
			wantStatus(t, operations(t, g.store, "acme"), e.ID(), tt.want)
		})
	}
}

// TestEndAfterContext checks that an end is written although its context has
// ended, and that a begin that is required is not.
func TestEndAfterContext(t *testing.T) {
	g := newRig(t, t.TempDir(), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	e, err := g.Begin(ctx, write("acme"), true)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := e.End(ctx, wrote()); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, operations(t, g.store, "acme"), e.ID(), evidence.OK)
}

// TestGivenID checks that an id of the caller stays when it is one.
func TestGivenID(t *testing.T) {
	g := newRig(t, t.TempDir(), Options{})
	b := write("acme")
	b.ID = NewID()
	e, err := g.Begin(t.Context(), b, true)
	if err != nil || e.ID() != b.ID {
		t.Fatalf("id %v, %v", e, err)
	}
	end(t, e, wrote())
	b.ID = "../../etc/passwd"
	if e, err = g.Begin(t.Context(), b, true); err != nil || !isID(e.ID()) {
		t.Fatalf("id %v, %v", e, err)
	}
	end(t, e, wrote())
}

// TestMany has 64 goroutines begin and end for three tenants at once.
func TestMany(t *testing.T) {
	g := newRig(t, t.TempDir(), Options{})
	const goroutines, each = 64, 20
	tenants := []string{"acme", "globex", ""}
	var all sync.WaitGroup
	for n := range goroutines {
		all.Go(func() {
			for range each {
				e, err := g.Begin(t.Context(), write(tenants[n%3]), true)
				if err != nil {
					t.Error(err)
					return
				}
				if err := e.End(t.Context(), wrote()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	total := 0
	for _, tenant := range tenants {
		done := operations(t, g.store, tenant)
		for id := range done {
			wantStatus(t, done, id, evidence.OK)
		}
		total += len(done)
	}
	if total != goroutines*each {
		t.Errorf("%d operations are on record, want %d", total, goroutines*each)
	}
	if c := g.Counters(); c.Sinks[0].Written != 2*goroutines*each || c.Sinks[0].Lost != 0 || c.Sinks[0].Waiting != 0 {
		t.Errorf("counters %+v", c)
	}
}

// TestClose checks that what runs can still be ended, and that nothing is left
// of a writer that has ended everything.
func TestClose(t *testing.T) {
	g := newRig(t, t.TempDir(), Options{})
	e := g.begin(t, true)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Begin(t.Context(), write("acme"), false); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("begin after the close: %v", err)
	}
	if err := g.Refused(t.Context(), write("acme"), evidence.End{}, false); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("refusal after the close: %v", err)
	}
	newRig(t, g.dir, Options{})
	wantStatus(t, operations(t, g.store, "acme"), e.ID(), "")
	end(t, e, wrote())
	wantStatus(t, operations(t, g.store, "acme"), e.ID(), evidence.OK)
	if left := writers(t, g.dir); len(left) != 0 {
		t.Errorf("files %v are left", left)
	}
}

// writers returns the names of the writer files.
func writers(t testing.TB, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(dir, "writers"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// TestOptions checks what is refused.
func TestOptions(t *testing.T) {
	log := (&logBook{}).logger()
	keeper := NewFile("file", openStore(t, t.TempDir()))
	for name, o := range map[string]Options{
		"no log":             {},
		"a queue below none": {Log: log, Queue: -1},
		"a wait below none":  {Log: log, Wait: -1},
		"no folder":          {Log: log, Sinks: []Sink{keeper}},
		"no sink":            {Log: log, Sinks: []Sink{nil}},
	} {
		if w, err := Open(o); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%s: %v, %v", name, w, err)
		}
	}
	w, err := Open(Options{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Begin(t.Context(), write("acme"), true)
	wantRefused(t, err, "no sink keeps records")
	if _, err := w.Begin(t.Context(), write("acme"), false); err != nil {
		t.Error(err)
	}
}

// TestMemory checks that the newest records stay, in order.
func TestMemory(t *testing.T) {
	m, err := NewMemory("memory", 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a", "ab", "abc", "bcd", "cde", "def", "efg"} {
		next := want[len(want)-1:]
		if err := m.Write(t.Context(), evidence.Record{Command: next}); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, r := range m.Records() {
			got += r.Command
		}
		if got != want {
			t.Errorf("holds %s, want %s", got, want)
		}
	}
	if m.Dropped() != 4 {
		t.Errorf("dropped %d", m.Dropped())
	}
	if _, err := NewMemory("memory", -1); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Error(err)
	}
}
