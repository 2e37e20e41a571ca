package manager_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// keepFull refills whenever that is due, and never because time has passed, until
// the test ends.
func keepFull(t *testing.T, m *manager.Manager) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() {
		for {
			select {
			case <-ctx.Done():
				done <- nil
				return
			case <-m.RefillDue():
			}
			for next := time.Duration(0); next <= time.Second && ctx.Err() == nil; {
				var err error
				if _, next, err = m.Refill(ctx); err != nil && ctx.Err() == nil {
					done <- err
					return
				}
			}
		}
	}()
	go func() { done <- m.WatchPool(ctx) }()
	t.Cleanup(func() {
		end()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestRefillIsDueAtOnce holds that the pool is full again after a claim although
// no time passes for its keeper: by the keeper itself, by another program, and by
// a sandbox that found the pool empty.
func TestRefillIsDueAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	keeper, other := r.manager(pooled(1)), r.manager(pooled(1))
	fillPool(t, keeper)
	select {
	case <-keeper.RefillDue():
		t.Error("a refill is due of a pool that is full")
	default:
	}
	keepFull(t, keeper)
	for i, m := range []*manager.Manager{keeper, other} {
		began := time.Now()
		if _, o := mustRun(t, m, fmt.Sprint("s", i), "true"); !o.Claimed {
			t.Fatalf("%d: %+v, %+v", i, o, o.Miss)
		}
		testenv.Until(t, "a full pool", func() bool {
			e, err := keeper.Explain(context.Background(), who("next"), nil, manager.Questions{})
			return err == nil && e.Pool.Ready == 1
		})
		t.Logf("full again after %v", time.Since(began))
	}
	r.holds("in the end", 3, 3, 3, 2)
}

// failing is an engine that makes no container while it is on.
type failing struct {
	docker.Engine
	on    *atomic.Bool
	tries *atomic.Int32
}

func (f failing) Create(ctx context.Context, p container.Plan) (string, []string, error) {
	f.tries.Add(1)
	if f.on.Load() {
		return "", nil, errors.New("no space left on device")
	}
	return f.Engine.Create(ctx, p)
}

// TestRefillBacksOff holds that a slot that cannot be made is tried again later
// each time, however often the pool is looked at and claimed from, that a miss
// says so, and that it is made when that is possible again.
func TestRefillBacksOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	on, tries := &atomic.Bool{}, &atomic.Int32{}
	r.wrap = func(e docker.Engine) docker.Engine { return failing{e, on, tries} }
	m := r.manager(pooled(1))
	ctx := context.Background()
	on.Store(true)
	// look refills at once as many times as a busy pool would.
	look := func() (last time.Duration) {
		t.Helper()
		defer r.clock.stop()() // twenty looks may take longer than the rest that is measured
		for range 20 {
			_, next, err := m.Refill(ctx)
			if err != nil && !strings.Contains(err.Error(), "no space left") {
				t.Fatal(err)
			}
			last = next
		}
		return last
	}
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		next := look()
		if n := tries.Load(); n != int32(i+1) || next > want || next <= want/2 {
			t.Fatalf("after %d rests it was tried %d times and rests %v, want %v", i, n, next, want)
		}
		r.clock.advance(want)
	}
	look()
	if e, err := m.Explain(ctx, who("s"), nil, manager.Questions{}); err != nil || e.Pool.Miss == nil || e.Pool.Miss.Reason != "failing" || strings.Contains(e.Pool.Miss.Detail, "no space") {
		t.Errorf("%+v, %+v, %v", e.Pool, e.Pool.Miss, err)
	}
	if said := r.log.String(); strings.Count(said, "could not be made") != 1 {
		t.Errorf("the log says %s", said)
	}
	r.holds("nothing is left of those that failed", 0, 0, 0, 0)
	on.Store(false)
	r.clock.advance(time.Minute)
	if n := fillPool(t, m); n != 1 || slotsOf(t, m) != 1 {
		t.Errorf("%d slots were made", n)
	}
	mustRun(t, m, "s", "true")
	on.Store(true)
	tries.Store(0)
	if next := look(); tries.Load() != 1 || next > time.Second {
		t.Errorf("after a success it was tried %d times, and rests %v", tries.Load(), next)
	}
}

// TestDemandRaisesThePool holds that claims raise how many slots are kept, up to
// pool.max, that sandboxes no slot could be do not, and that the number falls when
// the claims are old.
func TestDemandRaisesThePool(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(settings(`"pool":{"max":2,"window":"5m"},"docker":{"memory":"64m"}`))
	if n := fillPool(t, m); n != 0 {
		t.Fatalf("%d slots without demand", n)
	}
	for i, want := range []int{1, 2, 2} {
		if _, o := mustRun(t, m, fmt.Sprint("s", i), "true"); o.Claimed != (i > 0) || i == 0 && (o.Miss == nil || o.Miss.Reason != "empty" || o.Miss.MadeMS <= 0) {
			t.Errorf("%d: %+v, %+v", i, o, o.Miss)
		}
		testenv.Until(t, "what was claimed is on record", func() bool {
			s, err := m.PoolStatus(context.Background())
			must(t, err)
			return len(s.Claims) == i+1
		})
		if fillPool(t, m); slotsOf(t, m) != want {
			t.Errorf("after %d claims %d slots are kept, want %d", i+1, slotsOf(t, m), want)
		}
	}
	r.clock.advance(4 * time.Minute)
	mustRun(t, m, "late", "true")
	r.clock.advance(2 * time.Minute)
	if fillPool(t, m); slotsOf(t, m) != 1 {
		t.Errorf("%d slots are kept for one claim", slotsOf(t, m))
	}
	r.clock.advance(6 * time.Minute)
	if fillPool(t, m); slotsOf(t, m) != 0 {
		t.Errorf("%d slots are kept without demand", slotsOf(t, m))
	}
}

// TestKilledBetweenClaimAndRefill kills a program that claims a slot and makes
// the next one, at each step. The next program has a full pool, exactly as many
// slots as are wanted, and no container, folder or record is left beside.
func TestKilledBetweenClaimAndRefill(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fillPool(t, r.manager(pooled(1)))
	for i, step := range []string{"claimed", "kept", "slot record", "slot workspace", "slot create", "before create", "after create", "after start", "slot open"} {
		t.Run(step, func(t *testing.T) {
			session := fmt.Sprint("s", i)
			killAt(t, r, step, childSet+"="+pooled(1), childSession+"="+session, childRefills+"=after") // it claims the slot of the step before
			m := r.manager(pooled(1))
			fillPool(t, m)
			if out, o := mustRun(t, m, session, "true"); o.Created {
				t.Errorf("the session is made anew: %q, %+v", out, o)
			}
			r.holds("refilled", i+2, i+2, i+2, i+1)
			if claims, err := filepath.Glob(filepath.Join(r.state.Registry(), "claims", "names", "*.json")); err != nil || len(claims) != i+1 {
				t.Errorf("%v, %v", claims, err)
			}
		})
	}
	if _, o := mustRun(t, r.manager(pooled(1)), "last", "true"); !o.Claimed {
		t.Errorf("%+v, %+v", o, o.Miss)
	}
}

// TestRefillWaitsForPause holds that no slot is made while slots are claimed one after
// the other and some are left, and for how long at most.
func TestRefillWaitsForPause(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(pooled(3))
	fillPool(t, m)
	defer r.clock.stop()()
	refill := func() (started int, next time.Duration) {
		t.Helper()
		started, next, err := m.Refill(context.Background())
		must(t, err)
		return started, next
	}
	claim := func(session string) {
		t.Helper()
		if _, o := mustRun(t, m, session, "true"); !o.Claimed {
			t.Fatalf("%s: %+v", session, o.Miss)
		}
	}
	claim("a")
	if started, next := refill(); started != 0 || next <= 0 || next > time.Second {
		t.Fatalf("at once: %d are started, the next look is in %v", started, next)
	}
	r.clock.advance(200 * time.Millisecond)
	if started, _ := refill(); started != 1 {
		t.Fatalf("after a pause: %d are started", started)
	}
	fillPool(t, m)
	claim("b")
	r.clock.advance(2 * time.Second) // of claims, the last of which is
	claim("c")
	if started, _ := refill(); started == 0 {
		t.Error("claims that go on keep the pool from being filled")
	}
	fillPool(t, m)
	for _, session := range []string{"d", "e", "f"} {
		claim(session)
	}
	if started, _ := refill(); started == 0 {
		t.Error("none is left, and none is started")
	}
}
