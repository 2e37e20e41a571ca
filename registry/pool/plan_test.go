package pool_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/registry/pool"
)

func at(seconds int) time.Time { return time.Unix(1_800_000_000+int64(seconds), 0) }

func TestPlan(t *testing.T) {
	quick := pool.Rate{Starts: 100, Per: time.Second}
	slots := func(states ...pool.State) (out []pool.Slot) {
		for i, s := range states {
			out = append(out, pool.Slot{Name: fmt.Sprint("s", i), Shape: "a", State: s, Since: at(i)})
		}
		return out
	}
	claim := func(names ...string) (out []pool.Claim) {
		for _, n := range names {
			out = append(out, pool.Claim{Slot: n, By: "x"})
		}
		return out
	}
	for _, tt := range []struct {
		name string
		v    pool.View
		want string
	}{
		{"nothing wanted", pool.View{Rate: quick}, ""},
		{"empty", pool.View{Wants: []pool.Want{{"a", 2}}, Rate: quick}, "start a, start a"},
		{"full", pool.View{Wants: []pool.Want{{"a", 2}}, Slots: slots(pool.Ready, pool.Starting), Rate: quick}, ""},
		{"claimed ones do not count", pool.View{Wants: []pool.Want{{"a", 1}}, Slots: slots(pool.Claimed), Claims: claim("s0"), Rate: quick}, "start a"},
		{"one shape rests", pool.View{Wants: []pool.Want{{"a", 2}, {"b", 1}}, Hold: map[string]bool{"a": true}, Slots: slots(pool.Broken), Rate: quick}, "remove s0, start b"},
		{"no rate", pool.View{Wants: []pool.Want{{"a", 2}}}, ""},
		{"rate", pool.View{Wants: []pool.Want{{"a", 9}}, Rate: pool.Rate{Starts: 3, Per: time.Minute}, Started: []time.Time{at(90), at(10)}}, "start a, start a"},
		{"rate used up", pool.View{Wants: []pool.Want{{"a", 9}}, Rate: pool.Rate{Starts: 1, Per: time.Minute}, Started: []time.Time{at(90), at(91)}}, ""},
		{"clock set back", pool.View{Wants: []pool.Want{{"a", 9}}, Rate: pool.Rate{Starts: 1, Per: time.Minute}, Started: []time.Time{at(900)}}, ""},
		{"a shape twice counts once", pool.View{Wants: []pool.Want{{"a", 1}, {"a", 1}}, Rate: quick}, "start a"},
		{"surplus: starting and young ones go", pool.View{Wants: []pool.Want{{"a", 1}}, Slots: slots(pool.Starting, pool.Ready, pool.Ready)}, "remove s0, remove s2"},
		{"another shape", pool.View{Wants: []pool.Want{{"b", 1}}, Slots: slots(pool.Ready), Rate: quick}, "remove s0, start b"},
		{"broken, started anew when it is gone", pool.View{Wants: []pool.Want{{"a", 1}}, Slots: slots(pool.Broken), Rate: quick}, "remove s0"},
		{"removal not finished", pool.View{Slots: slots(pool.Retiring)}, "remove s0"},
		{"a state of another version", pool.View{Wants: []pool.Want{{"a", 1}}, Slots: slots("odd")}, "remove s0"},
		{"start hangs", pool.View{Wants: []pool.Want{{"a", 1}}, Slots: slots(pool.Starting), StartLimit: 99 * time.Second}, "remove s0"},
		{"start takes its time", pool.View{Wants: []pool.Want{{"a", 1}}, Slots: slots(pool.Starting), StartLimit: 101 * time.Second}, ""},
		{"claim is gone", pool.View{Wants: []pool.Want{{"a", 1}}, Slots: slots(pool.Claimed)}, "remove s0"},
		{"after a restart", pool.View{Slots: slots(pool.Ready, pool.Broken, pool.Retiring, pool.Starting), Claims: claim("s0", "s1", "s2", "s3")}, "adopt s0, adopt s1, adopt s2, adopt s3"},
		{"claimed twice", pool.View{Slots: slots(pool.Claimed), Claims: claim("s0", "s0")}, ""},
		{"claim without slot", pool.View{Claims: claim("s9")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.v.Now = at(100)
			got := ""
			for _, a := range pool.Plan(tt.v) {
				if got != "" {
					got += ", "
				}
				if got += string(a.Kind) + " "; a.Kind == pool.Start {
					got += a.Shape
				} else {
					got += a.Slot
				}
				if a.Why == "" {
					t.Errorf("%v has no reason", a)
				}
			}
			if got != tt.want {
				t.Errorf("Plan = %q, want %q", got, tt.want)
			}
		})
	}
}

// A world carries plans out, with claims, crashes and failures in between.
type world struct {
	t       *testing.T
	r       *rand.Rand
	now     int
	next    int
	size    int
	slots   map[string]*pool.Slot
	claims  map[string]string
	started []time.Time
}

func (w *world) view() pool.View {
	v := pool.View{
		Now: at(w.now), Wants: []pool.Want{{"a", w.size}}, Started: w.started,
		Rate: pool.Rate{Starts: 3, Per: 10 * time.Second}, StartLimit: 30 * time.Second,
	}
	for _, s := range w.slots {
		v.Slots = append(v.Slots, *s)
	}
	for slot, by := range w.claims {
		v.Claims = append(v.Claims, pool.Claim{Slot: slot, By: by})
	}
	return v
}

func (w *world) carryOut(plan []pool.Action) {
	for _, a := range plan {
		switch a.Kind {
		case pool.Start:
			w.next++
			name := fmt.Sprint("s", w.next)
			w.slots[name] = &pool.Slot{Name: name, Shape: a.Shape, State: pool.Starting, Since: at(w.now)}
			w.started = append(w.started, at(w.now))
		case pool.Adopt:
			w.slots[a.Slot].State = pool.Claimed
		case pool.Remove:
			if w.claims[a.Slot] != "" {
				w.t.Fatalf("%s is removed while it is claimed", a.Slot)
			}
			delete(w.slots, a.Slot)
		}
	}
}

// happen does one thing that the world does by itself.
func (w *world) happen() {
	v := w.view()
	slices.SortFunc(v.Slots, func(a, b pool.Slot) int { return a.Since.Compare(b.Since) })
	switch w.r.IntN(7) {
	case 0, 1:
		for _, s := range w.slots {
			if s.State == pool.Starting {
				s.State = pool.Ready
			}
		}
	case 2, 3:
		if list := unclaimed(v); len(list) > 0 {
			if w.claims[list[0].Name] != "" || w.slots[list[0].Name].State != pool.Ready {
				w.t.Fatalf("%s is offered a second time", list[0].Name)
			}
			w.claims[list[0].Name] = fmt.Sprint("session", w.now)
			if w.r.IntN(2) == 0 { // else the orchestrator dies before it notes it
				w.slots[list[0].Name].State = pool.Claimed
			}
		}
	case 4:
		if slot := first(w.claims); slot != "" { // given up
			w.slots[slot].State = pool.Claimed
			delete(w.claims, slot)
		}
	case 5:
		if name := first(w.slots); name != "" { // it dies
			w.slots[name].State = pool.Broken
		}
	case 6:
		w.size = w.r.IntN(6)
	}
}

// first returns the first key of m, so that a world depends on its seed alone.
func first[V any](m map[string]V) string {
	if len(m) == 0 {
		return ""
	}
	return slices.Min(slices.Collect(maps.Keys(m)))
}

func (w *world) check(sizes int) {
	free := 0
	for name := range w.slots {
		if w.claims[name] == "" {
			free++
		}
	}
	if free > sizes {
		w.t.Fatalf("%d slots are nobody's, of a size of %d", free, sizes)
	}
	for slot := range w.claims {
		if w.slots[slot] == nil {
			w.t.Fatalf("%s is claimed and gone", slot)
		}
	}
	recent := 0
	for _, s := range w.started {
		if at(w.now).Sub(s) < 10*time.Second {
			recent++
		}
	}
	if recent > 3 {
		w.t.Fatalf("%d starts in ten seconds", recent)
	}
}

// TestSimulation lets many worlds run. A claim keeps its slot, no slot is
// offered twice, there are never more slots than the size and the claims, and
// in the end, when nothing happens any more, the pool is full.
func TestSimulation(t *testing.T) {
	for seed := range uint64(60) {
		w := &world{t: t, r: rand.New(rand.NewPCG(seed, 1)), size: 4, slots: map[string]*pool.Slot{}, claims: map[string]string{}}
		for w.now = 0; w.now < 500; w.now++ {
			w.happen()
			w.carryOut(pool.Plan(w.view()))
			w.check(w.size)
		}
		for end := w.now + 120; w.now < end; w.now++ {
			for _, s := range w.slots {
				if s.State == pool.Starting {
					s.State = pool.Ready
				}
			}
			w.carryOut(pool.Plan(w.view()))
			w.check(w.size)
		}
		v := w.view()
		if n := len(unclaimed(v)); n != w.size {
			t.Fatalf("world %d: %d slots are ready in the end, of a size of %d", seed, n, w.size)
		}
	}
}

// unclaimed returns the slots that a claim may take, the best one first.
func unclaimed(v pool.View) []pool.Slot {
	var out []pool.Slot
	for _, s := range v.Slots {
		if s.State == pool.Ready && !slices.ContainsFunc(v.Claims, func(c pool.Claim) bool { return c.Slot == s.Name }) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b pool.Slot) int { return a.Since.Compare(b.Since) })
	return out
}
