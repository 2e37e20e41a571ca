package tenant

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

var begin = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func TestBucket(t *testing.T) {
	var b bucket
	step := func(name string, at time.Duration, n, rate, burst int64, want time.Duration) {
		t.Helper()
		after, wait := b.take(n, rate, burst, begin.Add(at))
		if wait != want {
			t.Errorf("%s: wait %v, want %v", name, wait, want)
		}
		if wait != 0 && after != b {
			t.Errorf("%s: what was refused was drawn", name)
		}
		b = after
	}
	step("the whole burst", 0, 4, 2, 4, 0)
	step("one too many", 0, 1, 2, 4, 500*time.Millisecond)
	step("two too many", 0, 2, 2, 4, time.Second)
	step("nothing", 0, 0, 2, 4, 0)
	step("a moment too early", 500*time.Millisecond-1, 1, 2, 4, 1)
	step("just in time", 500*time.Millisecond, 1, 2, 4, 0)
	step("after a long rest no more than the burst", time.Hour, 5, 2, 4, -1)
	step("the burst after a rest", time.Hour, 4, 2, 4, 0)
	step("no rate", time.Hour, 1, 0, 0, -1)
	step("unlimited", time.Hour, 1<<40, Unlimited, Unlimited, 0)
	step("a clock that was set back", 0, 1, 2, 4, 500*time.Millisecond)
	step("huge numbers", 2*time.Hour, math.MaxInt64, 1, math.MaxInt64, 0)
	step("a rate beyond all clocks", 2*time.Hour, 1, math.MaxInt64, math.MaxInt64, 1)
}

// TestBucketIsNeverGenerous checks that in no span of time more requests pass
// than the burst and what the rate gives, whatever is requested, and that a
// caller that waits as required is served.
func TestBucketIsNeverGenerous(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		rate, burst := 1+r.Int64N(50), 1+r.Int64N(20)
		var b bucket
		type draw struct {
			at time.Duration
			n  int64
		}
		var draws []draw
		at := time.Duration(0)
		for range 200 {
			at += time.Duration(r.Int64N(int64(2 * time.Second / time.Duration(rate))))
			n := 1 + r.Int64N(burst)
			after, wait := b.take(n, rate, burst, begin.Add(at))
			if wait > 0 && r.IntN(2) == 0 { // waits as required
				at += wait
				if after, wait = b.take(n, rate, burst, begin.Add(at)); wait != 0 {
					t.Fatalf("after the wait it has to wait %v", wait)
				}
			}
			if wait == 0 {
				b, draws = after, append(draws, draw{at, n})
			}
		}
		for i := range draws {
			var sum int64
			for _, d := range draws[i:] {
				sum += d.n
				if given := float64(burst) + (d.at-draws[i].at).Seconds()*float64(rate); float64(sum) > given+1e-6 {
					t.Fatalf("%d of rate %d and burst %d in %v", sum, rate, burst, d.at-draws[i].at)
				}
			}
		}
	}
}
