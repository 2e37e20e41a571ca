package pool_test

import (
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/registry/pool"
)

func TestDemand(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	// ago are claims so many seconds before now.
	ago := func(seconds ...int) (at []time.Time) {
		for _, s := range seconds {
			at = append(at, now.Add(-time.Duration(s)*time.Second))
		}
		return at
	}
	const gib = 1 << 30
	for _, tt := range []struct {
		name  string
		d     pool.Demand
		at    []time.Time
		want  int
		bound string
	}{
		{"no claims", pool.Demand{Size: 2, Max: 9}, nil, 2, ""},
		{"fewer than the size", pool.Demand{Size: 2, Max: 9}, ago(1), 2, ""},
		{"a burst", pool.Demand{Size: 1, Max: 9}, ago(1, 2, 3, 4), 4, ""},
		{"in any order", pool.Demand{Max: 9}, ago(300, 5, 290, 241, 299), 4, ""},
		{"one a minute", pool.Demand{Max: 9}, ago(1, 61, 121, 181), 1, ""},
		{"of a pool without size", pool.Demand{Max: 3}, ago(2), 1, ""},
		{"over", pool.Demand{Size: 1, Max: 9}, ago(600, 601, 700), 1, ""},
		{"the last moment of the window", pool.Demand{Size: 1, Max: 9}, ago(599, 598), 2, ""},
		{"the clock was set back", pool.Demand{Max: 9}, ago(-30, -3000), 1, ""},
		{"more than the most", pool.Demand{Size: 1, Max: 3}, ago(1, 2, 3, 4, 5), 3, "pool.max"},
		{"a most below the size", pool.Demand{Size: 4, Max: 2}, ago(1, 2, 3, 4, 5), 4, "pool.max"},
		{"without a most", pool.Demand{Size: 1}, ago(1, 2), 1, "pool.max"},
		{"no pool", pool.Demand{}, nil, 0, ""},
		{"memory", pool.Demand{Size: 1, Max: 9, Memory: 5 * gib, Each: 2 * gib}, ago(1, 2, 3, 4), 2, "pool.memory"},
		{"memory below the size", pool.Demand{Size: 4, Memory: gib, Each: 2 * gib}, nil, 0, "pool.memory"},
		{"memory of what has no bound", pool.Demand{Size: 4, Memory: gib}, nil, 0, "pool.memory"},
		{"memory of nothing", pool.Demand{Memory: gib}, nil, 0, ""},
		{"half of the machine", pool.Demand{Size: 1, Max: 9, Host: 8 * gib, Each: 2 * gib}, ago(1, 2, 3, 4), 2, "half of this machine's memory"},
		{"the size is the operator's", pool.Demand{Size: 3, Max: 9, Host: 2 * gib, Each: 2 * gib}, ago(1, 2, 3, 4), 3, "half of this machine's memory"},
		{"memory says more than half", pool.Demand{Size: 1, Max: 9, Memory: 8 * gib, Host: 8 * gib, Each: 2 * gib}, ago(1, 2, 3, 4), 4, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.d.Window = 10 * time.Minute
			if n, bound := tt.d.Kept(tt.at, now); n != tt.want || bound != tt.bound {
				t.Errorf("%d are kept, bound by %q; want %d, %q", n, bound, tt.want, tt.bound)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	last := time.Duration(0)
	for n := range 70 {
		d := pool.Backoff(n)
		if d < last || d > 5*time.Minute || n > 0 && d < time.Second {
			t.Errorf("after %d failures %v, and before %v", n, d, last)
		}
		last = d
	}
	if pool.Backoff(0) != 0 || pool.Backoff(1) != time.Second || pool.Backoff(3) != 4*time.Second || last != 5*time.Minute {
		t.Errorf("%v, %v, %v, in the end %v", pool.Backoff(0), pool.Backoff(1), pool.Backoff(3), last)
	}
	if pool.Backoff(-1) != 0 {
		t.Error("of less than nothing")
	}
}
