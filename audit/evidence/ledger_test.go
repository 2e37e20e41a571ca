package evidence

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// flood returns n records of one sandbox.
func flood(n int, r Record) []Record {
	out := make([]Record, n)
	for i := range out {
		out[i] = numbered(r, i+1)
	}
	return out
}

// TestFloodIsCounted checks that nothing goes missing: the records kept and the
// reported counts add up to what was recorded.
func TestFloodIsCounted(t *testing.T) {
	c := newClock()
	s := open(t, t.TempDir(), Options{Now: c.Now, Burst: 2, Rate: 1})
	add(t, s, flood(5, Record{Sandbox: "a"})...)
	if got := countLines(t, s); got != 3 { // without a flush: the beginning of the flood is reported at once
		t.Errorf("%d records are written, want 3", got)
	}
	if got, want := query(t, s, Filter{}), "+2 +1 2 1"; got != want {
		t.Errorf("finds %q, want %q", got, want)
	}
	c.now = c.now.Add(time.Second)
	add(t, s, flood(4, Record{Sandbox: "a"})...)
	if got, want := query(t, s, Filter{}), "+3 1 +2 +1 2 1"; got != want {
		t.Errorf("while it lasts: finds %q, want %q", got, want)
	}
	add(t, s, flood(2, Record{Sandbox: "a"})...)
	c.now = c.now.Add(sumEvery)
	add(t, s, numbered(Record{Sandbox: "b"}, 9))
	if got := countLines(t, s); got != 8 { // the count is due without a flush
		t.Errorf("%d records are written, want 8", got)
	}
	c.now = c.now.Add(sumEvery)
	add(t, s, flood(3, Record{Sandbox: "a"})...)
	if got, want := query(t, s, Filter{}), "+1 2 1 9 +2 +3 1 +2 +1 2 1"; got != want {
		t.Errorf("afterwards: finds %q, want %q", got, want)
	}
	c.now = c.now.Add(time.Hour)
	add(t, s, numbered(Record{Sandbox: "b"}, 9))
	c.now = c.now.Add(time.Hour)
	add(t, s, numbered(Record{Sandbox: "b"}, 9))
	if got := len(s.ledger.tallies); got != 1 {
		t.Errorf("%d sandboxes are remembered, want that of the last record", got)
	}
}

func countLines(t *testing.T, s *Store) int64 {
	t.Helper()
	j, err := s.journal(folderOf(""))
	if err != nil {
		t.Fatal(err)
	}
	r, err := j.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r.Records - 1 // the first is a checkpoint
}

// TestFloodHidesNobodyElse checks what is counted apart: sandboxes, tenants,
// types, and what was refused from what was done.
func TestFloodHidesNobodyElse(t *testing.T) {
	c := newClock()
	s := open(t, t.TempDir(), Options{Now: c.Now, Burst: 2, Rate: 1})
	noise := flood(10000, Record{Tenant: "acme", Sandbox: "a", Share: Minor})
	for n, r := range []Record{
		{Tenant: "acme", Sandbox: "a"}, {Tenant: "acme", Sandbox: "b", Share: Minor}, {Tenant: "evil", Sandbox: "a", Share: Minor},
		{Tenant: "acme", Sandbox: "a", Share: Minor, Type: "other"}, {Tenant: "acme", Sandbox: "a", Share: Exact},
	} {
		noise = append(noise, numbered(r, 20001+n))
	}
	add(t, s, noise...)
	got := query(t, s, Filter{AllTenants: true}) // at one time, so that one chain comes behind the other
	if want := "20003 +9997 20005 20004 20002 20001 +1 2 1"; got != want {
		t.Errorf("finds %q, want %q", got, want)
	}
}

func TestExactIsNeverCounted(t *testing.T) {
	s := open(t, t.TempDir(), Options{Now: newClock().Now, Burst: 1, Rate: 1})
	add(t, s, flood(500, Record{Share: Exact})...)
	if got := strings.Fields(query(t, s, Filter{})); len(got) != 500 || got[0] != "500" {
		t.Errorf("%d are kept: %v", len(got), got)
	}
}

// TestCountsNameNobodyFalsely checks whose a count says to be.
func TestCountsNameNobodyFalsely(t *testing.T) {
	s := open(t, t.TempDir(), Options{Now: newClock().Now, Burst: 1, Rate: 1})
	one := Record{Tenant: "acme", Agent: "main", Session: "s1", Sandbox: "a", Command: "c1"}
	two := Record{Tenant: "acme", Agent: "main", Session: "s2", Sandbox: "a", Command: "c2"}
	add(t, s, numbered(one, 1), numbered(one, 2), numbered(one, 3), numbered(two, 4))
	for _, tt := range []struct {
		f    Filter
		want string
	}{
		{Filter{Tenant: "acme", Session: "s1"}, "+2 +1 1"},
		{Filter{Tenant: "acme", Session: "s2"}, "+2"},
		{Filter{Tenant: "acme", Agent: "other"}, ""},
		{Filter{Tenant: "acme", Command: "c2"}, "+2 +1"},
		{Filter{Tenant: "evil"}, ""},
	} {
		if got := query(t, s, tt.f); got != tt.want {
			t.Errorf("%+v finds %q, want %q", tt.f, got, tt.want)
		}
	}
}

// TestManySandboxesAreBounded checks that memory does not grow with the
// sandboxes of one second, and that no count is lost by that.
func TestManySandboxesAreBounded(t *testing.T) {
	c := newClock()
	s := open(t, t.TempDir(), Options{Now: c.Now, Burst: 1, Rate: 1})
	for n := range maxCounted + 100 {
		c.now = c.now.Add(time.Microsecond)
		add(t, s, flood(3, Record{Sandbox: fmt.Sprint("sbx-", n)})...)
	}
	if got := len(s.ledger.tallies); got > maxCounted {
		t.Errorf("%d sandboxes are remembered", got)
	}
	var kept, omitted int64
	for r, err := range s.Query(t.Context(), Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if omitted += r.Omitted; r.Omitted == 0 {
			kept++
		}
	}
	if want := int64(3 * (maxCounted + 100)); kept+omitted != want {
		t.Errorf("%d are kept and %d counted of %d", kept, omitted, want)
	}
}

// TestCountsSurviveAFailure checks that counts which could not be written are
// written later.
func TestCountsSurviveAFailure(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	s := open(t, dir, Options{Now: c.Now, Burst: 1, Rate: 1})
	add(t, s, flood(4, Record{})...)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	breakIt(t, dir)
	if err := s.Flush(gone); err == nil {
		t.Fatal("a flush into a folder that cannot be used succeeds")
	}
	c.now = c.now.Add(2 * sumEvery)
	if err := s.Append(t.Context(), numbered(Record{}, 7)); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Fatalf("error %v", err)
	}
	mendIt(t, dir)
	if got, want := query(t, s, Filter{}), "+2 +1 1"; got != want {
		t.Errorf("finds %q, want %q", got, want)
	}
}

// breakIt puts a folder in the place of the lock of the tenant without a name.
func breakIt(t *testing.T, dir string) {
	t.Helper()
	dir = filepath.Join(dir, folderOf(""))
	if err := os.Rename(dir+"/lock", dir+"/aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/lock", 0o700); err != nil {
		t.Fatal(err)
	}
}

func mendIt(t *testing.T, dir string) {
	t.Helper()
	dir = filepath.Join(dir, folderOf(""))
	if err := os.Remove(dir + "/lock"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+"/aside", dir+"/lock"); err != nil {
		t.Fatal(err)
	}
}

// TestClockSetBack checks that a clock that jumps does not stop the counting.
func TestClockSetBack(t *testing.T) {
	c := newClock()
	s := open(t, t.TempDir(), Options{Now: c.Now, Burst: 1, Rate: 1})
	add(t, s, flood(3, Record{})...)
	c.now = c.now.Add(-time.Hour)
	add(t, s, flood(2, Record{})...)
	if got, want := query(t, s, Filter{}), "+2 +1 +1 1"; got != want {
		t.Errorf("finds %q, want %q", got, want)
	}
}

// BenchmarkAppend measures one append of so many records, checkpoints included.
func BenchmarkAppend(b *testing.B) {
	for _, sync := range []Sync{SyncOff, SyncCheckpoint, SyncAlways} {
		for _, size := range []int{1, 2, 256} {
			b.Run(fmt.Sprint(sync, "/", size), func(b *testing.B) {
				s := open(b, b.TempDir(), Options{Sync: sync})
				rs := flood(size, Record{Tenant: "acme", Agent: "main", Session: "chat-42", Sandbox: "sbx-chat-42-0123456789", Command: "0123456789abcdef", Share: Exact})
				for b.Loop() {
					add(b, s, rs...)
				}
				b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}

// BenchmarkTwoWriters measures an append to a chain to which another store has
// written meanwhile.
func BenchmarkTwoWriters(b *testing.B) {
	dir := b.TempDir()
	stores := []*Store{open(b, dir, Options{Sync: SyncOff}), open(b, dir, Options{Sync: SyncOff})}
	rs := flood(1, Record{Tenant: "acme", Sandbox: "sbx-chat-42-0123456789", Command: "0123456789abcdef", Share: Exact})
	for n := 0; b.Loop(); n++ {
		add(b, stores[n%2], rs...)
	}
}
