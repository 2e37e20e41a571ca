package docker_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A crowdTime is how long commands of many callers took.
type crowdTime struct {
	p50, p99 time.Duration
	once     time.Duration // to serve every caller once
}

// crowd runs /bin/true by many callers at once, each several times in a row.
func (s *scene) crowd(callers, each int) crowdTime {
	s.t.Helper()
	times := make([]time.Duration, callers*each)
	var done sync.WaitGroup
	all := time.Now()
	for i := range callers {
		done.Go(func() {
			for j := range each {
				begun := time.Now()
				if err := s.true(); err != nil {
					s.t.Error(err)
					return
				}
				times[i*each+j] = time.Since(begun)
			}
		})
	}
	done.Wait()
	c := crowdTime{once: time.Since(all) / time.Duration(each)}
	slices.Sort(times)
	c.p50, c.p99 = times[len(times)/2], times[len(times)*99/100]
	return c
}

// TestCrowdIsServedInTurn holds that among 64 callers even the 99th
// percentile is not far from the time that it takes to serve each caller
// once, below which nobody can get the mean. The machine may have other
// things to do, so the best of some rounds counts.
func TestCrowdIsServedInTurn(t *testing.T) {
	const callers, each, bound = 64, 10, 1.6
	s := newScene(t, "crowd", nil)
	must(t, s.true())
	best := 1e9
	for range 20 {
		c := s.crowd(callers, each)
		if t.Failed() {
			return
		}
		t.Logf("p50 %v, p99 %v, each once %v", c.p50, c.p99, c.once)
		if best = min(best, float64(c.p99)/float64(c.once)); best < bound {
			return
		}
	}
	t.Errorf("the 99th percentile is %.2f times the time to serve each caller once, must be below %.2f", best, bound)
}

// TestStayingCommandsHoldUpNobody has more commands run on than may start at
// once, and many short ones beside them.
func TestStayingCommandsHoldUpNobody(t *testing.T) {
	s := newScene(t, "staying", nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, script := range []string{"while :; do :; done", "sleep 1000"} {
		for range 10 {
			if _, err := s.sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", script}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := s.crowd(16, 5)
	if c.p99 > 20*time.Second {
		t.Errorf("p50 %v, p99 %v beside commands that stay", c.p50, c.p99)
	}
	t.Logf("beside commands that stay: p50 %v, p99 %v", c.p50, c.p99)
}
