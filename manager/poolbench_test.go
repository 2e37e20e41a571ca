package manager_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/bench/measure"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/registry"
)

func middle(took []time.Duration) float64 {
	slices.Sort(took)
	return float64(took[len(took)/2].Microseconds()) / 1000
}

// plainStarts tells how long the engine alone takes for containers like the
// slots of the pool: created and started, with nothing of ours inside.
func (r *rig) plainStarts(n int) (took []time.Duration) {
	r.t.Helper()
	ctx := context.Background()
	store, err := registry.Open(r.state.Registry())
	must(r.t, err)
	records, _, err := store.List(sandbox.KindPool)
	must(r.t, err)
	if len(records) == 0 {
		r.t.Fatal("no slot to take after")
	}
	rec, err := store.Get(sandbox.KindPool, records[0].Name)
	must(r.t, err)
	engine, err := measure.Dial()
	must(r.t, err)
	defer engine.Close()
	for i := range n {
		s := *rec.Spec
		s.Name = fmt.Sprintf("sbx-plain-%s-%d", r.state.Instance(), i)
		plan, err := container.NewPlan(s, rec.ConfigHash, time.Now())
		must(r.t, err)
		start := time.Now()
		id, err := engine.Start(ctx, plan, []string{"sleep", "600"})
		took = append(took, time.Since(start))
		must(r.t, err)
		must(r.t, r.engine.Remove(ctx, id))
	}
	return took
}

// BenchmarkClaim measures the time from a new session's request to its first
// output, from a pool that is full; beside it that of a session which has its
// sandbox, and what the engine alone takes for a container.
func BenchmarkClaim(b *testing.B) {
	const size = 20
	r := newRig(b)
	m := r.manager(pooled(size, `"docker":{"memory":"64m"}`))
	fillPool(b, m)
	starts := r.plainStarts(5)
	var claims, later []time.Duration
	for n := 0; b.Loop(); n++ {
		session := fmt.Sprintf("s%d", n)
		claims = append(claims, firstOutput(b, m, session))
		b.StopTimer()
		later = append(later, firstOutput(b, m, session))
		if n%size == size-1 {
			_, err := m.Prune(context.Background(), manager.PruneOptions{Idle: new(time.Nanosecond), Workspaces: true})
			must(b, err)
			fillPool(b, m)
		}
		b.StartTimer()
	}
	b.ReportMetric(middle(starts), "ms-plain-start")
	b.ReportMetric(middle(later), "ms-warm-p50")
	report(b, claims)
}

// BenchmarkBurst claims a pool of a hundred at once: the time of each session
// from the start of all to its first output.
func BenchmarkBurst(b *testing.B) {
	const size = 100
	r := newRig(b)
	m := r.manager(pooled(size, `"docker":{"memory":"64m"}`))
	defer func() {
		if b.Failed() {
			b.Logf("%.2000s", r.log.String())
		}
	}()
	var starts, took []time.Duration
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		_, err := m.Prune(context.Background(), manager.PruneOptions{Idle: new(time.Nanosecond), Workspaces: true})
		must(b, err)
		fillPool(b, m)
		starts = append(starts, r.plainStarts(5)...)
		var mu sync.Mutex
		var cold string
		b.StartTimer()
		begun := time.Now()
		together(size, func(i int) {
			out := &firstWrite{}
			o, err := m.Run(context.Background(), manager.Request{Who: who(fmt.Sprintf("b%d-%d", n, i)), Command: sandbox.Command{Args: []string{"/bin/echo", "x"}, Stdout: out}})
			mu.Lock()
			defer mu.Unlock()
			if err != nil || !o.Claimed {
				cold = fmt.Sprint(o.Miss, err)
				return
			}
			took = append(took, out.at.Sub(begun))
		})
		if cold != "" {
			b.Fatalf("not all were claimed: %s", cold)
		}
	}
	b.ReportMetric(middle(starts), "ms-plain-start")
	report(b, took)
}
