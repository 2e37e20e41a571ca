package violation

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
)

func total(t *testing.T, s *Store, f Filter) (records int, count int64) {
	t.Helper()
	for r, err := range s.Query(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		records++
		count += r.Count
	}
	return records, count
}

func TestFloodOfOneCommand(t *testing.T) {
	s := open(t, Options{})
	flood := make([]Record, 10000)
	for i := range flood {
		flood[i] = Record{Tenant: "acme", Type: WallPath, Severity: policy.Medium, Resource: fmt.Sprint("/x/", i)}
		if i%10 == 9 {
			flood[i].Type, flood[i].Severity = providerNetwork, policy.High
		}
	}
	add(t, s, flood...)
	records, count := total(t, s, Filter{Tenant: "acme"})
	if records != maxAtOnce+2 || count != 10000 {
		t.Errorf("%d records of %d, want %d of 10000", records, count, maxAtOnce+2)
	}
	n, err := s.Count(t.Context(), Filter{Tenant: "acme"})
	if err != nil || n[WallPath] != 9000 || n[providerNetwork] != 1000 {
		t.Errorf("by type %v, %v", n, err)
	}
	for r := range s.Query(t.Context(), Filter{Tenant: "acme", Types: []Type{providerNetwork}, Limit: 1}) {
		if r.Message != omittedMessage || r.Severity != policy.High || r.Resource != "" {
			t.Errorf("the sum is %+v", r)
		}
	}
}

func TestEqualRecordsOfOneCommand(t *testing.T) {
	s := open(t, Options{})
	r := Record{Type: WallPath, Resource: "/x"}
	other := Record{Type: WallPath, Resource: "/y"}
	add(t, s, r, other, r, r)
	wantQuery(t, s, Filter{}, "/y×1", "/x×3")
}

// TestFloodOfManyCommands repeats a command for an hour.
func TestFloodOfManyCommands(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	s, err := Open(dir, Options{Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	const commands = 3600
	for n := range commands {
		c.now = c.now.Add(time.Second)
		add(t, s, Record{Type: WallPath, Resource: "/always"}, Record{Type: CommandBlocked, Resource: fmt.Sprint("/new/", n)})
	}
	records, count := total(t, s, Filter{})
	if count != 2*commands || records > 60*(maxInWindow+2) {
		t.Errorf("%d records of %d, want at most %d of %d", records, count, 60*(maxInWindow+2), 2*commands)
	}
	if records, count = total(t, s, Filter{Types: []Type{WallPath}}); count != commands || records > 2*61+1 {
		t.Errorf("%d records of %d for one and the same", records, count)
	}
}

// TestFloodInAMinute checks that beyond a number of different records there
// are sums only, and that they are written by Close.
func TestFloodInAMinute(t *testing.T) {
	c := newClock()
	s := open(t, Options{Now: c.Now})
	for n := range 5000 {
		add(t, s, Record{Type: WallPath, Resource: fmt.Sprint("/", n)})
	}
	sizeBefore := size(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if records, count := total(t, s, Filter{}); records != maxInWindow+1 || count != 5000 {
		t.Errorf("%d records of %d, want %d of 5000", records, count, maxInWindow+1)
	}
	if grown := size(t, s) - sizeBefore; grown > 4096 {
		t.Errorf("Close wrote %d bytes", grown)
	}
	// A minute later there is room again.
	c.now = c.now.Add(storeWindow)
	add(t, s, Record{Type: WallPath, Resource: "later"})
	wantQuery(t, s, Filter{Limit: 1}, "later×1")
}

func size(t *testing.T, s *Store) (n int64) {
	t.Helper()
	report, err := s.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int64(report.Records) * 700
}

// TestSessionsDoNotShareAWindow checks that one session's flood costs no other
// session a record, and is not reported as another's.
func TestSessionsDoNotShareAWindow(t *testing.T) {
	s := open(t, Options{})
	var batch []Record
	for n := range 500 {
		batch = append(batch, Record{Tenant: "evil", Type: WallPath, Resource: fmt.Sprint("/", n)})
	}
	batch = append(batch, Record{Tenant: "acme", Type: WallPath, Resource: "/mine"})
	add(t, s, batch...)
	wantQuery(t, s, Filter{Tenant: "acme"}, "/mine×1")
	if records, count := total(t, s, Filter{Tenant: "evil"}); records != maxAtOnce+1 || count != 500 {
		t.Errorf("%d records of %d", records, count)
	}
}

// TestManySessions checks that the memory for windows is bounded and no count
// is lost when one has to go.
func TestManySessions(t *testing.T) {
	s := open(t, Options{})
	const sessions = 4 * maxSessions
	for range 3 {
		for n := range sessions {
			add(t, s, Record{Session: fmt.Sprint(n), Type: WallPath, Resource: "/x"})
		}
	}
	if n := len(s.ledger.windows); n > maxSessions {
		t.Errorf("%d windows", n)
	}
	if _, count := total(t, s, Filter{}); count != 3*sessions {
		t.Errorf("%d counted, want %d", count, 3*sessions)
	}
}

func TestClockSetBack(t *testing.T) {
	c := newClock()
	s := open(t, Options{Now: c.Now})
	r := Record{Type: WallPath, Resource: "/x"}
	add(t, s, r)
	c.now = c.now.Add(-time.Hour)
	add(t, s, r)
	wantQuery(t, s, Filter{}, "/x×1", "/x×1")
}

// TestDiskIsBounded writes ten times the size bound of the journal.
func TestDiskIsBounded(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	s, err := Open(dir, Options{Now: c.Now, MaxFile: 64 << 10, MaxTotal: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 70 {
		c.now = c.now.Add(2 * storeWindow)
		var batch []Record
		for i := range maxAtOnce {
			batch = append(batch, Record{Type: WallPath, Resource: fmt.Sprint(n, "/", i)})
		}
		add(t, s, batch...)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, e := range entries {
		fi, err := os.Stat(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sum += fi.Size()
	}
	if sum > 257<<10 || sum < 100<<10 {
		t.Errorf("%d bytes", sum)
	}
	wantQuery(t, s, Filter{Limit: 1}, "69/63×1")
}

// TestNothingIsLostWhileTheDiskFails takes the folder away for a while.
func TestNothingIsLostWhileTheDiskFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "violations")
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	add(t, s, Record{Type: WallPath, Resource: "before"})
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for n := range maxInWindow + 50 {
		if err := s.Append(t.Context(), Record{Type: WallPath, Resource: fmt.Sprint(n % (maxInWindow + 25))}); sandbox.CodeOf(err) != sandbox.CodeUnavailable && n < maxInWindow-1 {
			t.Fatalf("%d: error %v", n, err)
		}
	}
	if err := s.Close(); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("error %v", err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	if records, count := total(t, s, Filter{}); records != maxInWindow+1 || count != maxInWindow+51 {
		t.Errorf("%d records of %d, want %d of %d", records, count, maxInWindow+1, maxInWindow+51)
	}
}
