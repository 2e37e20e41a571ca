//go:build linux

package server

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A number greater than that of any process, so that the kernel has no clock
// for it.
const nobody = 1 << 23

// TestHidden looks for ten seconds, twenty times a second, at a process that
// has short children do its work, and holds what is counted: for one that
// ignores their end about what they use, and for one that waits for them what
// the kernel says and nothing more.
func TestHidden(t *testing.T) {
	const apart, looks = 50 * time.Millisecond, 200
	for _, tt := range []struct {
		name  string
		busy  float64       // the share of the time that a child runs
		wait  time.Duration // of a child for a processor, of which it has 10 ms
		waits bool
		want  time.Duration
		off   time.Duration
	}{
		{"ignored and busy all the time", 1, 0, false, 8 * time.Second, 2 * time.Second},
		{"ignored and busy half of the time", 0.5, 0, false, 3500 * time.Millisecond, 1500 * time.Millisecond},
		{"waited for, busy all the time", 1, 0, true, 10 * time.Second, 0},
		{"waited for, busy half of the time", 0.5, 0, true, 5 * time.Second, 0},
		{"waited for, hardly ever busy", 0.02, 0, true, 200 * time.Millisecond, 20 * time.Millisecond},
		{"waited for, and each waits for a processor", 0.2, 40 * time.Millisecond, true, 400 * time.Millisecond, 150 * time.Millisecond},
		{"ignored, and each waits for a processor", 1, 40 * time.Millisecond, false, 1800 * time.Millisecond, 500 * time.Millisecond},
		{"idle", 0, 0, false, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(20) {
				rng := rand.New(rand.NewPCG(seed, 1))
				tree := newTree(shim, meterBounds{}, meterOptions{Exact: true})
				tree.waited = func(int) (time.Duration, bool) { return tt.wait, true }
				now, last, pid := time.Now(), time.Duration(0), nobody
				for n := range looks {
					parent := stat{pid: nobody, parent: shim, start: 20}
					if tt.waits {
						share := float64(tick) / float64(tick+tt.wait)
						parent.reaped = uint64(float64(n) * tt.busy * share * float64(apart/tick))
					}
					tab := at(0, parent)
					if rng.Float64() < tt.busy {
						pid++
						tab.procs = append(tab.procs, stat{pid: pid, parent: nobody, start: uint64(n) + 21, own: 1, running: true})
						tab.sort()
					}
					tab.at = now.Add(time.Duration(n) * apart)
					u := tree.Look(tab)
					if u.CPU < last && !tt.waits {
						t.Fatalf("time went back from %v to %v", last, u.CPU)
					}
					last = u.CPU
				}
				lowest := tt.want - tt.off - time.Duration(float64(apart)*tt.busy) - 2*tick
				if last < lowest || last > tt.want+tt.off {
					t.Errorf("seed %d: %v, want about %v", seed, last, tt.want)
				}
			}
		})
	}
}

// TestHiddenOfTheGone holds that what was hidden stays when who hid it is gone.
func TestHiddenOfTheGone(t *testing.T) {
	tree := newTree(shim, meterBounds{}, meterOptions{Exact: true})
	tree.waited = func(int) (time.Duration, bool) { return 0, true }
	now, before := time.Now(), time.Duration(0)
	for n := range 20 {
		tab := at(0, stat{pid: nobody, parent: shim, start: 20}, stat{pid: nobody + 1 + n, parent: nobody, start: uint64(n) + 21, own: 1, running: true})
		tab.at = now.Add(time.Duration(n) * 50 * time.Millisecond)
		before = tree.Look(tab).CPU
	}
	tab := at(0)
	tab.at = now.Add(time.Second)
	if u := tree.Look(tab); before < 250*time.Millisecond || u.CPU < before {
		t.Errorf("%v, and %v when it was gone", before, u.CPU)
	}
}

// TestParseWaited holds that what is no such file says nothing.
func TestParseWaited(t *testing.T) {
	for in, want := range map[string]time.Duration{"1 2 3\n": 2, "0 468868 1": 468868, "0 0 0": 0} {
		if got, _, ok := parseWaited([]byte(in)); !ok || got != want {
			t.Errorf("%q: %v, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "1 2", "1 2 3 4", "1 -2 3", "1 99999999999999999999 3", "1 9223372036854775807 3", "a b c"} {
		if got, _, ok := parseWaited([]byte(in)); ok {
			t.Errorf("%q: %v", in, got)
		}
	}
}
