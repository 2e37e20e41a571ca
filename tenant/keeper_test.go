package tenant

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

func fixed() time.Time { return begin }

func wantExceeded(t *testing.T, err error, account, quota string, retry time.Duration) {
	t.Helper()
	var e *Exceeded
	var known *sandbox.Error
	if !errors.As(err, &known) || known.Code != sandbox.CodeBudgetExceeded || !errors.As(err, &e) {
		t.Fatalf("got %v, want an exceeded quota", err)
	}
	after, ok := RetryAfter(fmt.Errorf("wrapped: %w", err))
	if e.Account != account || e.Quota != quota || known.Resource != account || known.Field != "quota."+quota || after != retry || ok != (retry > 0) || known.Retryable != ok {
		t.Errorf("%+v is of %+v, to retry after %v; want %s of %s, %v", known, e, after, quota, account, retry)
	}
	if !strings.Contains(err.Error(), quota) {
		t.Errorf("%q does not name %s", err, quota)
	}
}

func TestAcquire(t *testing.T) {
	k := New(fixed)
	acme := Account{"acme", Limits{Sandboxes: 2, Commands: 1, Memory: 100, NanoCPUs: 5, Disk: Unlimited}}
	one := Want{Sandboxes: 1, Memory: 40, NanoCPUs: 1, Disk: 1 << 50}
	first, err := k.Acquire(one, acme)
	if err != nil {
		t.Fatal(err)
	}
	second, err := k.Acquire(one, acme)
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.Acquire(one, acme)
	wantExceeded(t, err, "acme", "sandboxes", 0)
	if text := err.Error(); !strings.Contains(text, "used up") || !strings.Contains(text, "remove sandboxes") || strings.Contains(text, "try again") {
		t.Errorf("where waiting is of no use it says %q", text)
	}
	_, err = k.Acquire(Want{Memory: 21}, acme)
	wantExceeded(t, err, "acme", "memory", 0)
	_, err = k.Acquire(Want{Memory: 101}, acme)
	wantExceeded(t, err, "acme", "memory", 0)
	_, err = k.Acquire(Want{Sandboxes: 1, Memory: 101}, acme) // never is worse than later
	wantExceeded(t, err, "acme", "memory", 0)
	if _, err := k.Acquire(one, Account{"other", acme.Limits}); err != nil {
		t.Errorf("another's account is full: %v", err)
	}
	first()
	first()
	first()
	if got := k.Held("acme"); got != one {
		t.Errorf("%+v is held after one was given back", got)
	}
	second()
	if got := k.Held("acme"); got != (Want{}) {
		t.Errorf("%+v is held after all was given back", got)
	}
}

func TestRequests(t *testing.T) {
	now := begin
	k := New(func() time.Time { return now })
	tenant, child := Account{"t", NoLimits().With(RequestsPerSecond, 4).With(RequestBurst, 2)}, Account{"c", NoLimits().With(RequestsPerSecond, 1).With(RequestBurst, 1)}
	ask := func(chain ...Account) error {
		release, err := k.Acquire(Want{Requests: 1}, chain...)
		if err == nil {
			release() // gives no request back
		}
		return err
	}
	if err := ask(tenant, child); err != nil {
		t.Fatal(err)
	}
	wantExceeded(t, ask(tenant, child), "c", "requestsPerSecond", time.Second)
	if err := ask(tenant); err != nil { // nothing was drawn by the one that was refused
		t.Fatal(err)
	}
	wantExceeded(t, ask(tenant), "t", "requestsPerSecond", 250*time.Millisecond)
	wantExceeded(t, ask(tenant, child), "c", "requestsPerSecond", time.Second)
	now = now.Add(time.Second)
	if err := ask(child, tenant); err != nil {
		t.Error(err)
	}
	_, err := k.Acquire(Want{Requests: 3}, tenant)
	wantExceeded(t, err, "t", "requestsPerSecond", 0)
}

// TestBurstOfTheRate checks that a rate without a burst lets as many through at
// once as in a second.
func TestBurstOfTheRate(t *testing.T) {
	k := New(fixed)
	a := Account{"a", Limits{RequestsPerSecond: 5}}
	if _, err := k.Acquire(Want{Requests: 5}, a); err != nil {
		t.Error(err)
	}
	_, err := k.Acquire(Want{Requests: 1}, a)
	wantExceeded(t, err, "a", "requestsPerSecond", 200*time.Millisecond)
}

// TestChainIsAllOrNone checks that a refusal of one account leaves nothing in
// the others.
func TestChainIsAllOrNone(t *testing.T) {
	k := New(fixed)
	roomy, full := Account{"roomy", NoLimits()}, Account{"full", Limits{}}
	for _, chain := range [][]Account{{roomy, full}, {full, roomy}} {
		_, err := k.Acquire(Want{Sandboxes: 1, Requests: 1}, chain...)
		wantExceeded(t, err, "full", "sandboxes", 0)
	}
	if got := k.Held("roomy"); got != (Want{}) || len(k.accounts) > 0 {
		t.Errorf("%+v is held", got)
	}
}

func TestRefusedCalls(t *testing.T) {
	k := New(fixed)
	a := Account{"a", NoLimits()}
	for name, try := range map[string]func() (func(), error){
		"no account":      func() (func(), error) { return k.Acquire(Want{}) },
		"one twice":       func() (func(), error) { return k.Acquire(Want{}, a, a) },
		"negative":        func() (func(), error) { return k.Acquire(Want{Memory: -1}, a) },
		"negative draw":   func() (func(), error) { return k.Acquire(Want{Requests: -1}, a) },
		"bad limits":      func() (func(), error) { return k.Acquire(Want{}, Account{"a", Limits{Disk: -2}}) },
		"adopt negative":  func() (func(), error) { return k.Adopt(Want{Memory: -1}, a) },
		"adopt for noone": func() (func(), error) { return k.Adopt(Want{}) },
	} {
		if _, err := try(); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAdopt checks that what is there counts, more than the limits allow too,
// and that no sum overflows.
func TestAdopt(t *testing.T) {
	k := New(fixed)
	a := Account{"a", NoLimits().With(Sandboxes, 2)}
	gone, err := k.Adopt(Want{Sandboxes: 3, Memory: math.MaxInt64}, a)
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.Acquire(Want{Sandboxes: 1}, a)
	wantExceeded(t, err, "a", "sandboxes", 0)
	more, err := k.Adopt(Want{Memory: math.MaxInt64}, a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Acquire(Want{Memory: 1}, a); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Errorf("more than any number is held: %v", err)
	}
	if _, err := k.Acquire(Want{Commands: 1}, a); err != nil {
		t.Errorf("what is not asked for stops others: %v", err)
	}
	gone()
	more()
	if got := k.Held("a"); got != (Want{Commands: 1}) {
		t.Errorf("%+v is held", got)
	}
}

// TestChangedLimits checks that lower limits take nothing away and give nothing.
func TestChangedLimits(t *testing.T) {
	k := New(fixed)
	release, err := k.Acquire(Want{Sandboxes: 5}, Account{"a", Limits{Sandboxes: 5}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.Acquire(Want{Sandboxes: 1}, Account{"a", Limits{Sandboxes: 2}})
	wantExceeded(t, err, "a", "sandboxes", 0)
	release()
	if _, err = k.Acquire(Want{Sandboxes: 2}, Account{"a", Limits{Sandboxes: 2}}); err != nil {
		t.Error(err)
	}
}

// TestKeeperForgets checks that accounts without usage cost no memory.
func TestKeeperForgets(t *testing.T) {
	now := begin
	k := New(func() time.Time { return now })
	limits := NoLimits().With(RequestsPerSecond, 10)
	if _, err := k.Acquire(Want{Sandboxes: 1}, Account{"stays", limits}); err != nil {
		t.Fatal(err)
	}
	for n := range 10000 {
		now = now.Add(50 * time.Millisecond)
		release, err := k.Acquire(Want{Sandboxes: 1, Requests: 1}, Account{fmt.Sprint("goes ", n), limits})
		if err != nil {
			t.Fatal(err)
		}
		release()
	}
	if got := k.Held("stays").Sandboxes; got != 1 || len(k.accounts) > 2*leastSwept {
		t.Errorf("%d held, %d accounts", got, len(k.accounts))
	}
}

// TestManyAtOnce checks that 64 goroutines never have more than the limits at
// one time, and that all is given back in the end.
func TestManyAtOnce(t *testing.T) {
	k := New(time.Now)
	tenant := Account{"tenant", NoLimits().With(Sandboxes, 5).With(Memory, 1000)}
	var now, most, granted, refused atomic.Int64
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 5))
			own := Account{fmt.Sprint("child ", g%4), NoLimits().With(Sandboxes, 2)}
			for range 300 {
				w := Want{Sandboxes: 1 + r.Int64N(2), Memory: r.Int64N(400)}
				release, err := k.Acquire(w, tenant, own)
				if err != nil {
					refused.Add(1)
					continue
				}
				granted.Add(1)
				most.Store(max(most.Load(), now.Add(w.Sandboxes)))
				if n := now.Load(); n > 5 {
					t.Errorf("%d are held", n)
				}
				now.Add(-w.Sandboxes) // before release: others may take them at once
				release()
			}
		})
	}
	wg.Wait()
	if got := k.Held("tenant"); got != (Want{}) || granted.Load() == 0 {
		t.Errorf("%+v is held after %d", got, granted.Load())
	}
	t.Logf("%d granted, %d refused, at most %d at once", granted.Load(), refused.Load(), most.Load())
}

// TestKeeperAgainstModel checks any order of calls against plain sums.
func TestKeeperAgainstModel(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	for range 200 {
		k := New(fixed)
		chain := []Account{{"a", someLimits(r)}, {"b", someLimits(r)}}
		type held struct {
			w       Want
			names   []Account
			release func()
		}
		var all []held
		sums := map[string]Want{}
		for range 100 {
			if n := len(all); n > 0 && r.IntN(3) == 0 {
				i := r.IntN(n)
				h := all[i]
				h.release()
				all = append(all[:i], all[i+1:]...)
				for _, a := range h.names {
					sums[a.Name] = Want{Sandboxes: sums[a.Name].Sandboxes - h.w.Sandboxes, Disk: sums[a.Name].Disk - h.w.Disk}
				}
			}
			w, names := Want{Sandboxes: r.Int64N(3), Disk: r.Int64N(3)}, chain[r.IntN(2):]
			fits := true
			for _, a := range names {
				s := sums[a.Name]
				for _, f := range [][3]int64{{w.Sandboxes, s.Sandboxes, a.Limits.Sandboxes}, {w.Disk, s.Disk, a.Limits.Disk}} {
					fits = fits && (f[0] == 0 || f[2] < 0 || f[0]+f[1] <= f[2])
				}
			}
			release, err := k.Acquire(w, names...)
			if (err == nil) != fits {
				t.Fatalf("%+v of %+v with %+v: %v", w, names, sums, err)
			}
			if err == nil {
				all = append(all, held{w, names, release})
				for _, a := range names {
					sums[a.Name] = Want{Sandboxes: sums[a.Name].Sandboxes + w.Sandboxes, Disk: sums[a.Name].Disk + w.Disk}
				}
			}
			if k.Held("a") != sums["a"] || k.Held("b") != sums["b"] {
				t.Fatalf("held %+v and %+v, want %+v", k.Held("a"), k.Held("b"), sums)
			}
		}
	}
}

func BenchmarkAcquire(b *testing.B) {
	k := New(time.Now)
	chain := []Account{{"tenant", NoLimits().With(Commands, 10)}, {"token", NoLimits()}}
	b.ReportAllocs()
	for b.Loop() {
		release, err := k.Acquire(Want{Commands: 1, Requests: 1}, chain...)
		if err != nil {
			b.Fatal(err)
		}
		release()
	}
}
