package ledger

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestManyCallers lets 64 goroutines draw all that there is, each through an
// account opened by itself, and give back a part each time.
func TestManyCallers(t *testing.T) {
	const bound, callers = 2000, 64
	l := open(t, t.TempDir(), Options{})
	var got, now atomic.Int64
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			a := account(t, l, calls(fmt.Sprint("grant:", g), budget.Unlimited), calls("tenant:t", bound))
			for {
				r, err := a.Reserve(bg(), call(2))
				if isExceeded(err) {
					if r, err = a.Reserve(bg(), call(1)); isExceeded(err) {
						return
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := now.Add(r.Held().Calls); n > bound {
					t.Errorf("%d are granted at once", n)
				}
				now.Add(-r.Held().Calls + 1)
				if err := r.Settle(bg(), call(1)); err != nil {
					t.Error(err)
				}
				got.Add(1)
			}
		})
	}
	wg.Wait()
	if got.Load() != bound {
		t.Errorf("%d were granted of %d", got.Load(), bound)
	}
	wantUsed(t, account(t, l, calls("tenant:t", bound)), bound)
}

// TestManyProcesses lets four processes of 16 goroutines draw all that there
// is: it is granted to the last one, and nothing twice. Where one of them was done
// before the others got to it nothing was contended, and they race again.
func TestManyProcesses(t *testing.T) {
	for range 10 {
		if race(t) > 1 || t.Failed() {
			return
		}
	}
	t.Error("nothing was ever contended")
}

// race returns how many processes got anything.
func race(t *testing.T) (working int) {
	t.Helper()
	const bound, processes = 3000, 4
	dir := t.TempDir()
	var all []*exec.Cmd
	var outs []*strings.Builder
	for range processes {
		cmd, out := startHelper(t, dir, "race", bound, 16, processes)
		all, outs = append(all, cmd), append(outs, out)
	}
	total := 0
	for i, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		var got int
		if _, err := fmt.Sscanf(outs[i].String(), "got %d", &got); err != nil {
			t.Fatalf("%q: %v", outs[i], err)
		}
		if total += got; got > 0 {
			working++
		}
	}
	if total != bound {
		t.Errorf("%d were granted of %d", total, bound)
	}
	l := open(t, dir, Options{})
	sum := int64(0)
	for s := range 4 {
		chain, err := account(t, l, calls(fmt.Sprint("session:", s), -1), calls("tenant:t", bound)).Chain(bg())
		if err != nil {
			t.Fatal(err)
		}
		sum += chain[0].Used.Calls
	}
	if sum != bound {
		t.Errorf("the sessions used %d of %d", sum, bound)
	}
	wantUsed(t, account(t, l, calls("tenant:t", bound)), bound)
	return working
}

// TestKilled kills processes at any moment while they draw. What they used and
// no more than their reservations stays charged, on every account of the
// chain, and others go on at once.
func TestKilled(t *testing.T) {
	const rounds, goroutines = 25, 8
	dir := t.TempDir()
	l := open(t, dir, Options{})
	tenant := account(t, l, calls("tenant:t", budget.Unlimited))
	before := used(t, tenant)
	for range rounds {
		cmd, out := startHelper(t, dir, "kill", budget.Unlimited, goroutines, 1)
		// With pauses: a reader holds the lock that the process waits for.
		testenv.Until(t, "the process draws", func() bool { return used(t, tenant) >= before+100 })
		cmd.Process.Kill()
		cmd.Wait()
		done := int64(strings.Count(out.String(), "u"))
		after := used(t, tenant)
		if got := after - before; got < done || got > done+3*goroutines {
			t.Errorf("a process that used %d and held at most %d more was charged %d", done, 3*goroutines, got)
		}
		spend(t, tenant, 1)
		before = after + 1
	}
	sum := int64(0)
	for s := range 4 {
		sum += used(t, account(t, l, calls(fmt.Sprint("session:", s), -1), calls("tenant:t", -1)))
	}
	grants, kept := int64(0), 0
	must := l.Entries(bg(), func(e Entry) bool {
		kept++
		if strings.HasPrefix(e.ID, "grant:") {
			grants += e.Used.Calls
		}
		return true
	})
	if s, err := l.Sweep(bg()); must != nil || err != nil || len(s.Damaged) > 0 || s.Kept != kept || grants == 0 || grants > sum+3*goroutines*rounds {
		t.Errorf("grants used %d, %d accounts; swept %+v, %v, %v", grants, kept, s, err, must)
	}
	if d := sum + rounds - before; d < -3*goroutines*rounds || d > 3*goroutines*rounds {
		t.Errorf("sessions used %d and the tenant %d", sum+rounds, before)
	}
}

func used(t *testing.T, a *Account) int64 {
	t.Helper()
	chain, err := a.Chain(bg())
	if err != nil {
		t.Fatal(err)
	}
	return chain[0].Used.Calls
}

// TestWaitingEndsWithTheContext checks the lock as another process would.
func TestWaitingEndsWithTheContext(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	a := account(t, l, calls("tenant:t", 10))
	f, err := os.OpenFile(filepath.Join(a.root, lockName), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(bg())
	results := make(chan error, 3)
	for range cap(results) { // one waits for the lock, the others for their turn
		go func() {
			_, err := a.Reserve(ctx, call(1))
			results <- err
		}()
	}
	for n := 0; ; n++ { // others do not wait
		id := fmt.Sprint("tenant:", n)
		if l.turn(filepath.Join(l.dir, keyOf(id).String())) != l.turn(a.root) {
			spend(t, account(t, l, calls(id, 10)), 1)
			break
		}
	}
	cancel()
	for range cap(results) {
		wantCode(t, <-results, sandbox.CodeBusy, "context canceled")
	}
	f.Close()
	wantUsed(t, a, 0)
	spend(t, a, 1)
}

// TestLockFileIsReplaced checks that a lock file that was removed is made anew.
func TestLockFileIsReplaced(t *testing.T) {
	a := account(t, open(t, t.TempDir(), Options{}), calls("tenant:t", 10))
	if err := os.Remove(filepath.Join(a.root, lockName)); err != nil {
		t.Fatal(err)
	}
	spend(t, a, 1)
	wantUsed(t, a, 1)
}
