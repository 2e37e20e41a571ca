package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func expiring(id string, at time.Time) Limit {
	return Limit{ID: id, Bound: budget.NoBound(), Expires: at}
}

// files counts the accounts below a root.
func files(t *testing.T, a *Account) int {
	t.Helper()
	m, err := filepath.Glob(filepath.Join(a.root, "??", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(m)
}

func TestExpiry(t *testing.T) {
	c := testenv.New(time.Now())
	l := openAt(t, t.TempDir(), c, Options{})
	a := account(t, l, expiring("grant:g", c.Now().Add(time.Minute)), calls("tenant:t", 100))
	r := reserve(t, a, 10)
	c.Pass(time.Minute - time.Millisecond)
	spend(t, a, 1)
	c.Pass(time.Millisecond)
	_, err := a.Reserve(bg(), call(1))
	wantCode(t, err, sandbox.CodePermissionDeny, "expired")
	_, err = r.More(bg(), call(1), call(1))
	wantCode(t, err, sandbox.CodePermissionDeny, "expired")
	if err := r.Settle(bg(), call(4)); err != nil { // what came back is not lost
		t.Fatal(err)
	}
	wantUsed(t, a, 5, 5)
}

// TestSweep removes what has expired for long and nothing else.
func TestSweep(t *testing.T) {
	c := testenv.New(time.Now())
	l := openAt(t, t.TempDir(), c, Options{})
	soon, later := c.Now().Add(time.Minute), c.Now().Add(time.Hour)
	tenant := calls("tenant:t", 100)
	a := account(t, l, expiring("grant:short", soon), expiring("session:busy", soon), tenant)
	b := account(t, l, expiring("grant:long", later), expiring("session:busy", soon), tenant)
	idle := account(t, l, expiring("session:idle", soon), tenant)
	r := reserve(t, a, 10)
	spend(t, b, 1)
	damaged := filepath.Join(filepath.Dir(idle.chain[0].path), "alien")
	if err := os.WriteFile(damaged, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	c.Pass(time.Minute + grace - time.Second)
	sweep(t, l, 0, 5, 1)
	c.Pass(time.Second)
	sweep(t, l, 2, 3, 1) // the busy session is held by the long grant
	wantUsed(t, b, 1, 11, 11)
	if err := r.Settle(bg(), call(2)); err != nil { // its own account is gone
		t.Fatal(err)
	}
	wantUsed(t, b, 1, 3, 3)
	c.Pass(time.Hour)
	sweep(t, l, 2, 1, 1)
	wantUsed(t, account(t, l, tenant), 3)
	if _, err := l.Account(bg(), expiring("grant:long", later), tenant); sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
		t.Errorf("what was swept can be opened again: %v", err)
	}
}

func sweep(t *testing.T, l *Ledger, removed, kept, damaged int) {
	t.Helper()
	s, err := l.Sweep(bg())
	if err != nil || s.Removed != removed || s.Kept != kept || len(s.Damaged) != damaged {
		t.Errorf("swept %+v (%v), want %d removed, %d kept, %d damaged", s, err, removed, kept, damaged)
	}
}

// TestOpeningProlongs checks that a later opening keeps an account for longer,
// and an earlier expiry does not take it back.
func TestOpeningProlongs(t *testing.T) {
	c := testenv.New(time.Now())
	l := openAt(t, t.TempDir(), c, Options{})
	tenant := calls("tenant:t", 100)
	start := c.Now()
	spend(t, account(t, l, expiring("session:s", start.Add(time.Minute)), tenant), 3)
	account(t, l, expiring("session:s", start.Add(time.Hour)), tenant)
	account(t, l, expiring("session:s", start.Add(2*time.Minute)), tenant)
	c.Pass(30 * time.Minute)
	sweep(t, l, 0, 2, 0)
	wantUsed(t, account(t, l, expiring("session:s", start.Add(time.Hour)), tenant), 3, 3)
	account(t, l, calls("session:s", 100), tenant) // from now on for ever
	account(t, l, expiring("session:s", start.Add(time.Hour)), tenant)
	c.Pass(1000 * time.Hour)
	sweep(t, l, 0, 2, 0)
}

// TestNewAccountsMakeRoom checks that a ledger stays small without a sweep.
func TestNewAccountsMakeRoom(t *testing.T) {
	const atOnce, rounds = 200, 10
	c := testenv.New(time.Now())
	l := openAt(t, t.TempDir(), c, Options{MaxAccounts: 8 * shards})
	tenant := calls("tenant:t", budget.Unlimited)
	var a *Account
	for round := range rounds {
		for n := range atOnce {
			a = account(t, l, expiring(fmt.Sprint("grant:", round, "-", n), c.Now().Add(time.Minute)), tenant)
		}
		c.Pass(time.Hour)
	}
	if n := files(t, a); n > 4*atOnce {
		t.Errorf("%d accounts are left of %d, of which at most %d live", n, rounds*atOnce, atOnce)
	}
}

// TestFull checks that accounts which do not expire are bounded, and that what
// is there goes on.
func TestFull(t *testing.T) {
	l := open(t, t.TempDir(), Options{MaxAccounts: shards})
	tenant := calls("tenant:t", 100)
	first := account(t, l, calls("session:first", 10), tenant)
	for n := range shards + 1 {
		if _, err := l.Account(bg(), calls(fmt.Sprint("session:", n), 10), tenant); err != nil {
			wantCode(t, err, sandbox.CodeUnavailable, "too many budget accounts")
			break
		}
		if n == shards {
			t.Fatal("there is no bound")
		}
	}
	spend(t, first, 1)
	wantUsed(t, first, 1, 1)
}

// TestRemove removes the accounts that are gone and nothing else, also while
// they are in use: a process that has one open can no longer draw from it.
func TestRemove(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	tenant := calls("tenant:t", 100)
	kept := account(t, l, calls("token:kept", 10), tenant)
	gone := account(t, l, calls("token:gone", 10), calls("token:kept", 10), tenant)
	r := reserve(t, gone, 3)
	n, err := l.Remove(bg(), func(e Entry) bool { return e.ID == "token:gone" })
	if err != nil || n != 1 {
		t.Fatalf("removed %d, %v", n, err)
	}
	_, err = r.More(bg(), call(1), call(1))
	wantCode(t, err, sandbox.CodeUnavailable, "removed")
	if err := r.Settle(bg(), call(1)); err != nil { // what is left of the chain gets back what it is due
		t.Fatal(err)
	}
	spend(t, kept, 1)
	wantUsed(t, kept, 2, 2)
}

// TestClockJumps checks that what was used is not forgotten because the clock is
// wrong for a while, and that what was forgotten is not opened anew.
func TestClockJumps(t *testing.T) {
	const year = 365 * 24 * time.Hour
	c := testenv.New(time.Now())
	l := openAt(t, t.TempDir(), c, Options{MaxAccounts: shards}) // a new account looks at all of its shard
	tenant := calls("tenant:t", 1000)
	mine := []Limit{expiring("session:s", c.Now().Add(48*time.Hour)), tenant}
	spend(t, account(t, l, mine...), 3)
	c.Pass(time.Hour)
	sweep(t, l, 0, 2, 0)

	c.Set(year)
	sweep(t, l, 0, 2, 0)
	for n := range 2 * shards {
		if _, err := l.Account(bg(), expiring(fmt.Sprint("grant:", n), c.Now().Add(time.Minute)), tenant); err != nil {
			wantCode(t, err, sandbox.CodeUnavailable, "too many budget accounts")
		}
	}
	c.Set(-year)
	wantUsed(t, account(t, l, mine...), 3, 3)

	_, _ = l.Sweep(bg()) // sees that it was set
	c.Pass(72 * time.Hour)
	if s, err := l.Sweep(bg()); err != nil || s.Removed == 0 {
		t.Fatalf("swept %+v, %v", s, err)
	}
	c.Set(-60 * time.Hour) // it is as if the session were not over
	_, err := l.Account(bg(), mine...)
	wantCode(t, err, sandbox.CodePermissionDeny, "expired")
}
