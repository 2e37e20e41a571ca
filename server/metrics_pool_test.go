package server

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

var _ manager.PoolObserver = (*metrics)(nil)

// TestPool holds what is shown of the pool, by reason, in a bounded number of
// series.
func TestPool(t *testing.T) {
	m, reg := fresh(t, MetricsOptions{})
	m.Attempted(nil, 3*time.Millisecond)
	m.Attempted(&pool.Miss{Reason: pool.Empty}, 800*time.Millisecond)
	m.Attempted(&pool.Miss{Reason: pool.Differs, Fields: []string{"docker.memory"}}, time.Second)
	m.Attempted(&pool.Miss{Reason: pool.Differs}, -time.Second)
	m.Attempted(&pool.Miss{Reason: "a word of\na newer version"}, time.Second)
	m.SlotStarted(time.Second, nil)
	m.SlotStarted(time.Second, errors.New("no space"))
	m.Slots(1, 3)
	m.Slots(2, 3)
	m.Refilled(900 * time.Millisecond)
	shows(t, reg, `
# HELP sandbox_pool_hits_total Sandboxes that were claimed from the pool.
# TYPE sandbox_pool_hits_total counter
sandbox_pool_hits_total 1
# HELP sandbox_pool_slots Slots that can be claimed, and slots that are wanted by settings and demand.
# TYPE sandbox_pool_slots gauge
sandbox_pool_slots{state="ready"} 2
sandbox_pool_slots{state="wanted"} 3
# HELP sandbox_pool_starts_total Slots that were begun to be made, by whether they are there.
# TYPE sandbox_pool_starts_total counter
sandbox_pool_starts_total{ok="false"} 1
sandbox_pool_starts_total{ok="true"} 1
`, "sandbox_pool_hits_total", "sandbox_pool_slots", "sandbox_pool_starts_total")
	want := map[string]float64{"empty": 1, "differs": 2, "other": 1, "draining": 0}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range families {
		if f.GetName() != "sandbox_pool_misses_total" {
			continue
		}
		for _, s := range f.GetMetric() {
			reason := s.GetLabel()[0].GetValue()
			if n, ok := want[reason]; ok {
				seen++
				if s.GetCounter().GetValue() != n {
					t.Errorf("%s: %v, want %v", reason, s.GetCounter().GetValue(), n)
				}
			}
		}
		if len(f.GetMetric()) != len(pool.Reasons())+1 {
			t.Errorf("%d series", len(f.GetMetric()))
		}
	}
	if seen != len(want) {
		t.Errorf("%d reasons are shown", seen)
	}
	for _, name := range []string{"sandbox_pool_claim_seconds", "sandbox_pool_miss_seconds", "sandbox_pool_start_seconds", "sandbox_pool_refill_seconds"} {
		if n, err := testutil.GatherAndCount(reg, name); err != nil || n == 0 {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}
