package manager_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

func middle(took []time.Duration) float64 {
	slices.Sort(took)
	return float64(took[len(took)/2].Microseconds()) / 1000
}

// BenchmarkClaim measures the time from a new session's request to its first
// output, from a pool that is full; beside it that of a session which has its
// sandbox.
func BenchmarkClaim(b *testing.B) {
	const size = 20
	r := newRig(b)
	m := r.manager(pooled(size, `"docker":{"memory":"64m"}`))
	fillPool(b, m)
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
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		_, err := m.Prune(context.Background(), manager.PruneOptions{Idle: new(time.Nanosecond), Workspaces: true})
		must(b, err)
		fillPool(b, m)
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
	report(b, took)
}
