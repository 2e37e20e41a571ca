package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	tenants "github.com/bulkhead-dev/sandbox/tenant"
)

func TestRequestsAreBoundedByTheSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := admission(t, Options{Rules: limited(tenants.NoLimits().With(tenants.RequestsPerSecond, 10))})
		served := func(tenant string) (n int, last error) {
			for range 100 {
				if last = a.Request(local, tenant); last != nil {
					return n, last
				}
				n++
			}
			return n, nil
		}
		n, err := served("a")
		if n != 10 {
			t.Errorf("%d requests were served at once, want 10", n)
		}
		wantExceeded(t, err, tenants.RequestsPerSecond, "tenant a")
		if wait, ok := tenants.RetryAfter(err); !ok || wait != 100*time.Millisecond {
			t.Errorf("the next one may come after %v (%v), want 100ms", wait, ok)
		}
		if n, _ := served("b"); n != 10 {
			t.Errorf("%d requests of another tenant were served, want 10", n)
		}
		time.Sleep(500 * time.Millisecond)
		if n, _ := served("a"); n != 5 {
			t.Errorf("%d requests were served after half a second, want 5", n)
		}
	})
}

func TestRequestsCountForTheTokensAbove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := admission(t, Options{Rules: limited(tenants.NoLimits())})
		quotas := map[string]tenants.Limits{"parent": tenants.NoLimits().With(tenants.RequestsPerSecond, 3)}
		for _, child := range []string{"one", "two", "three"} {
			if err := a.Request(bearing("a", quotas, child, "parent"), "a"); err != nil {
				t.Fatal(err)
			}
		}
		wantExceeded(t, a.Request(bearing("a", quotas, "four", "parent"), "a"), tenants.RequestsPerSecond, "token parent")
		if err := a.Request(bearing("a", nil, "other"), "a"); err != nil {
			t.Errorf("a token that is not below it is refused: %v", err)
		}
	})
}

func TestTenantThatIsNotServed(t *testing.T) {
	a := admission(t, Options{Rules: func(tenant string) config.TenantRules {
		return config.TenantRules{Limits: tenants.NoLimits(), Refused: tenant == "stranger"}
	}})
	_, commandErr := a.Command(t.Context(), local, "stranger")
	_, holdErr := a.Hold(t.Context(), plain("stranger", 1))
	for what, err := range map[string]error{"request": a.Request(local, "stranger"), "command": commandErr, "sandbox": holdErr} {
		if sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
			t.Errorf("%s: got %v, want it refused", what, err)
		}
	}
	if err := a.Request(local, "friend"); err != nil {
		t.Error(err)
	}
}

// TestParallelCommandsStayWithinTheLimit has 64 callers run commands all the
// time; no more than the limit run at once, and all slots are released.
func TestParallelCommandsStayWithinTheLimit(t *testing.T) {
	const limit = 7
	synctest.Test(t, func(t *testing.T) {
		a := admission(t, Options{Rules: limited(tenants.NoLimits().With(tenants.Commands, limit))})
		var now, most, ran, refused atomic.Int64
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range 50 {
					release, err := a.Command(t.Context(), local, "a")
					if err != nil {
						if sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
							t.Error(err)
						}
						refused.Add(1)
						continue
					}
					n := now.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					time.Sleep(50 * time.Microsecond) // of the bubble's clock
					now.Add(-1)
					ran.Add(1)
					release()
					release()
				}
			})
		}
		wg.Wait()
		if most.Load() > limit || ran.Load() < 50 || refused.Load() == 0 {
			t.Errorf("%d ran at once, %d in all, %d were refused; %d is the limit", most.Load(), ran.Load(), refused.Load(), limit)
		}
		wantHeld(t, a, "a", tenants.Want{})
		if got := a.Load(); got != (tenants.Load{}) {
			t.Errorf("the queue is left as %+v", got)
		}
	})
}

// TestBurstDelaysOthersByTheirShare holds that 1000 commands of one tenant delay
// another's by one slot's time, however long they run.
func TestBurstDelaysOthersByTheirShare(t *testing.T) {
	const hold = 100 * time.Millisecond
	for _, lasts := range []time.Duration{10 * time.Millisecond, hold, time.Hour} {
		for _, slots := range []int{1, 4} {
			t.Run(fmt.Sprintf("%d slots, commands of %v", slots, lasts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := admission(t, Options{Rules: limited(tenants.NoLimits()), Turns: always(slots, 1000, hold)})
					ctx, cancel := context.WithCancel(t.Context())
					var wg sync.WaitGroup
					var ran atomic.Int64
					for range 1000 {
						wg.Go(func() {
							release, err := a.Command(ctx, local, "a")
							if err != nil {
								return
							}
							ran.Add(1)
							time.Sleep(lasts)
							release()
						})
					}
					synctest.Wait()
					bound := 2 * min(hold, lasts) // the one that has the slot, and one turn of a's
					var worst time.Duration
					for range 20 {
						began := time.Now()
						release, err := a.Command(ctx, local, "b")
						if err != nil {
							t.Fatal(err)
						}
						worst = max(worst, time.Since(began))
						release()
					}
					if worst > bound {
						t.Errorf("b had to wait for %v, and %v is its bound", worst, bound)
					}
					if a.Load().Waiting < 500 {
						t.Errorf("nobody was in the way: %+v after %d", a.Load(), ran.Load())
					}
					cancel()
					time.Sleep(2 * time.Hour)
					wg.Wait()
					wantHeld(t, a, "a", tenants.Want{})
				})
			})
		}
	}
}

func TestTooManyWaitForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := admission(t, Options{Rules: limited(tenants.NoLimits()), Turns: always(1, 2, time.Minute)})
		release, err := a.Command(t.Context(), local, "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if _, err := a.Command(ctx, local, "a"); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want the end of the context", err)
				}
			})
		}
		synctest.Wait()
		_, err = a.Command(t.Context(), local, "a")
		if _, retry := tenants.RetryAfter(err); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded || !retry {
			t.Errorf("got %v, want the third to be sent away for a while", err)
		}
		wantHeld(t, a, "a", tenants.Want{Commands: 3})
		cancel()
		wg.Wait()
		wantHeld(t, a, "a", tenants.Want{Commands: 1})
		release()
		wantHeld(t, a, "a", tenants.Want{})
	})
}

func TestRulesFollowTheSettings(t *testing.T) {
	var now atomic.Pointer[config.Settings]
	few := &config.Settings{Tenants: &config.TenantsSettings{Defaults: &config.TenantLimits{Commands: new(int64(1))}}}
	now.Store(few)
	a := admission(t, Options{Rules: Rules(now.Load)})
	release, err := a.Command(t.Context(), local, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	_, err = a.Command(t.Context(), local, "a")
	wantExceeded(t, err, tenants.Commands, "tenant a")
	now.Store(nil)
	second, err := a.Command(t.Context(), local, "a")
	if err != nil {
		t.Fatalf("after the bound was taken away: %v", err)
	}
	second()
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	good := Options{Keeper: tenants.New(time.Now), Rules: limited(tenants.NoLimits()), Turns: always(1, 0, time.Second)}
	for name, change := range map[string]func(*Options){
		"no slots": func(o *Options) { o.Turns = always(0, 0, time.Second) }, "waiting below nothing": func(o *Options) { o.Turns = always(1, -1, time.Second) },
		"no keeper": func(o *Options) { o.Keeper = nil }, "no rules": func(o *Options) { o.Rules = nil }, "no hold": func(o *Options) { o.Turns = always(1, 0, 0) }, "no turns": func(o *Options) { o.Turns = nil },
	} {
		o := good
		change(&o)
		if _, err := New(o); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := New(good); err != nil {
		t.Errorf("control: %v", err)
	}
}

// TestTurnsChange holds that commands begin by the turns that apply when they
// arrive, that waiting commands get the additional slots, and that invalid turns
// leave everything as it was.
func TestTurnsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := Turns{Slots: 1, Waiting: 1, Hold: time.Hour}
		a := admission(t, Options{Rules: limited(tenants.NoLimits()), Turns: func() Turns { return now }})
		run := func() (begun chan func()) {
			begun = make(chan func(), 1)
			go func() {
				release, err := a.Command(t.Context(), local, "a")
				if err != nil {
					t.Error(err)
				}
				begun <- release
			}()
			synctest.Wait()
			return begun
		}
		first, second := run(), run()
		if len(first) != 1 || len(second) != 0 {
			t.Fatalf("with one slot %d and %d begin", len(first), len(second))
		}
		now = Turns{Slots: 3, Waiting: 1, Hold: time.Hour}
		third := run()
		if len(second) != 1 || len(third) != 1 {
			t.Fatalf("with three slots %d and %d begin", len(second), len(third))
		}
		now = Turns{Slots: 0, Waiting: 1, Hold: time.Hour} // which no settings may say
		fourth := run()
		if got := a.Load(); got.Held != 3 || got.Waiting != 1 {
			t.Errorf("after turns that cannot be the load is %+v", got)
		}
		now = Turns{Slots: 1, Waiting: 0, Hold: time.Minute}
		if _, err := a.Command(t.Context(), local, "a"); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
			t.Errorf("where nobody may wait any more: %v", err)
		}
		(<-first)()
		(<-second)()
		synctest.Wait()
		if len(fourth) != 0 {
			t.Error("slots that are there no more were handed on")
		}
		(<-third)()
		synctest.Wait()
		if got := a.Load(); len(fourth) != 1 || got.Held != 1 {
			t.Errorf("the last one has not begun: %+v", got)
		}
		(<-fourth)()
		last := run()
		if len(last) != 1 {
			t.Fatal("nobody holds a slot, and nobody gets one")
		}
		time.Sleep(time.Minute + time.Second) // the new time to hold one
		if got := a.Load(); got.Held != 0 {
			t.Errorf("it is held for longer than is said now: %+v", got)
		}
		(<-last)()
	})
}
