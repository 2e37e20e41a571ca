package store

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// decisionLater is a Keys on dir for which it is that much later.
func decisionLater(t *testing.T, dir string, d time.Duration) *Keys {
	t.Helper()
	m := decisionMachine(t, dir)
	m.Pass(d)
	return decisionOpenAt(t, dir, m)
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	m := decisionMachine(t, dir)
	k := decisionOpenAt(t, dir, m)
	use := func(key string, d time.Duration) {
		if _, err := k.Use("t", key, "call-1", m.Now().Add(d)); err != nil {
			t.Fatal(err)
		}
	}
	use("short", time.Minute)
	use("long", 10*time.Hour)
	use("torn", time.Minute)
	if err := os.Truncate(fileOf(dir, "torn"), 10); err != nil {
		t.Fatal(err)
	}
	leftover := filepath.Join(filepath.Dir(fileOf(dir, "long")), newPrefix+"1")
	if err := os.WriteFile(leftover, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var passed time.Duration
	for _, tt := range []struct {
		at            time.Duration
		removed, kept int
	}{
		{0, 0, 3}, {time.Minute + decisionGrace - time.Second, 1, 2}, {time.Minute + decisionGrace + time.Second, 1, 1},
		{9 * time.Hour, 0, 1}, {10*time.Hour + decisionGrace + time.Minute, 1, 0},
	} {
		m.Pass(tt.at - passed)
		passed = tt.at
		s, err := decisionOpenAt(t, dir, m).Sweep()
		if err != nil || s.Removed != tt.removed || s.Kept != tt.kept || !slices.Equal(s.Damaged, []string{fileOf(dir, "torn")}) {
			t.Errorf("after %s: %+v, %v; want %d removed, %d kept", tt.at, s, err, tt.removed, tt.kept)
		}
	}
	m.Pass(20*time.Hour - passed)
	if by, err := decisionOpenAt(t, dir, m).Use("t", "torn", "call-1", m.Now().Add(10*time.Hour)); by != decisionUnknown || err != nil {
		t.Errorf("the damaged one is used by %q, %v", by, err)
	}
}

// TestExtended checks that an entry lives as long as the longest grant that
// used it, whichever was first, and that no other grant shortens or lengthens
// it.
func TestExtended(t *testing.T) {
	dir := t.TempDir()
	use := func(call string, d time.Duration) string {
		by, err := openDecision(t, dir).Use("t", "key", call, time.Now().Add(d))
		if err != nil {
			t.Fatal(err)
		}
		return by
	}
	if use("call-1", time.Minute) != "call-1" || use("call-1", 5*time.Hour) != "call-1" || use("call-1", time.Minute) != "call-1" || use("call-2", 50*time.Hour) != "call-1" {
		t.Error("the key changed hands")
	}
	if s, err := decisionLater(t, dir, 5*time.Hour).Sweep(); err != nil || s.Kept != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := decisionLater(t, dir, 7*time.Hour).Sweep(); err != nil || s.Removed != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestTidies checks that a folder in use does not grow for ever although Sweep
// is not called.
func TestTidies(t *testing.T) {
	dir := t.TempDir()
	old := openDecision(t, dir)
	for i := range 300 {
		if _, err := old.Use("t", fmt.Sprint("old:", i), "call-1", time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	k := decisionLater(t, dir, 2*time.Hour)
	shards := map[string]bool{}
	n := 0
	for ; len(shards) < 64; n++ {
		key := fmt.Sprint("new:", n)
		shards[filepath.Dir(fileOf(dir, key))] = true
		if _, err := k.Use("t", key, "call-2", time.Now().Add(4*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 300 {
		path := fileOf(dir, fmt.Sprint("old:", i))
		if _, err := os.Lstat(path); err == nil && shards[filepath.Dir(path)] {
			t.Errorf("%s is still there", path)
		}
	}
	if s, err := k.Sweep(); err != nil || s.Kept != n {
		t.Errorf("%d were new; %+v, %v", n, s, err)
	}
}

// TestSweepWhileUsed checks that calls get an answer, and never a damaged entry,
// while what they ask about is swept. Only what has expired meanwhile is refused.
func TestSweepWhileUsed(t *testing.T) {
	dir := t.TempDir()
	m := decisionMachine(t, dir)
	var answered atomic.Int32
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			k := decisionOpenAt(t, dir, m)
			for i := range 60 {
				expires := m.Now().Add(time.Duration(1+i%2)*time.Hour + time.Minute)
				by, err := k.Use("t", fmt.Sprint("key:", i%3), fmt.Sprint("call-", g), expires)
				switch {
				case err == nil && by != decisionUnknown:
					answered.Add(1)
				case by == decisionUnknown || m.Now().Before(expires):
					t.Errorf("used by %q, %v", by, err)
				default:
					decisionWantCode(t, err, sandbox.CodePermissionDeny, "expired")
				}
				if i%20 == 0 {
					m.Pass(time.Hour)
				}
				if s, err := k.Sweep(); err != nil || len(s.Damaged) > 0 {
					t.Errorf("%+v, %v", s, err)
				}
			}
		})
	}
	wg.Wait()
	if n := answered.Load(); n < 8*60/2 {
		t.Errorf("%d calls got an answer", n)
	}
}

// TestClockJumps checks that a decision is not used twice because the clock is
// wrong for a while, nor because it is set back after the first use is forgotten.
func TestDecisionClockJumps(t *testing.T) {
	const year = 365 * 24 * time.Hour
	dir := t.TempDir()
	m := decisionMachine(t, dir)
	expires := m.Now().Add(48 * time.Hour)
	use := func(call string) (string, error) { return decisionOpenAt(t, dir, m).Use("t", "key", call, expires) }
	if by, err := use("call-1"); by != "call-1" || err != nil {
		t.Fatalf("used by %q, %v", by, err)
	}
	m.Set(year)
	if s, err := decisionOpenAt(t, dir, m).Sweep(); err != nil || s.Removed != 0 {
		t.Errorf("a year ahead swept %+v, %v", s, err)
	}
	k := decisionOpenAt(t, dir, m) // which tidies
	for n := range 1000 {
		if _, err := k.Use("t", fmt.Sprint("other:", n), "call-3", m.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	m.Set(-year)
	if by, err := use("call-2"); by != "call-1" || err != nil {
		t.Errorf("after the clock was set right it is used by %q, %v", by, err)
	}

	_, _ = decisionOpenAt(t, dir, m).Sweep() // sees that it was set
	m.Pass(72 * time.Hour)
	if s, err := decisionOpenAt(t, dir, m).Sweep(); err != nil || s.Removed != 1 {
		t.Errorf("swept %+v, %v", s, err)
	}
	m.Set(-60 * time.Hour)
	_, err := use("call-2")
	decisionWantCode(t, err, sandbox.CodePermissionDeny, "expired")
}
