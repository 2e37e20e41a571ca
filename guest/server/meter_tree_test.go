//go:build linux

package server

import (
	"testing"
	"time"
)

const shim = 10 // the root in these tests

// at makes a table of the shim, which has reaped so many ticks, and procs.
func at(reaped uint64, procs ...stat) *meterTable {
	t := &meterTable{procs: append([]stat{{pid: 1}, {pid: shim, parent: 1, reaped: reaped}, {pid: 99, parent: 1, own: 1e6, rss: 1 << 40}}, procs...)}
	t.sort()
	return t
}

// TestTime follows the processor time of trees over several looks.
func TestTime(t *testing.T) {
	busy := func(pid, parent int, own uint64) stat {
		return stat{pid: pid, parent: parent, start: uint64(pid), own: own}
	}
	reaping := func(s stat, reaped uint64) stat {
		s.reaped = reaped
		return s
	}
	for _, tt := range []struct {
		name  string
		looks []*meterTable
		want  uint64 // ticks, at the last look
	}{
		{"one process", []*meterTable{at(0, busy(20, shim, 5))}, 5},
		{"what the stage has reaped for others does not count", []*meterTable{at(700, busy(20, shim, 5))}, 5},
		{"a tree", []*meterTable{at(0, busy(20, shim, 5), busy(21, 20, 6), busy(22, 21, 7), busy(23, 99, 100))}, 18},
		{"children that were waited for", []*meterTable{at(0, busy(20, shim, 5)), at(0, reaping(busy(20, shim, 5), 40))}, 45},
		{"waited for and seen before count once", []*meterTable{
			at(0, busy(20, shim, 5), busy(21, 20, 30)), at(0, reaping(busy(20, shim, 5), 31)),
		}, 36},
		{"children that nobody waits for", []*meterTable{
			at(0, busy(20, shim, 5), busy(21, 20, 30)), at(0, busy(20, shim, 5), busy(22, 20, 30)), at(0, busy(20, shim, 5)),
		}, 65},
		{"orphans that the stage reaps", []*meterTable{
			at(100, busy(20, shim, 5)), at(100, busy(20, shim, 5), busy(21, shim, 30)), at(135, busy(20, shim, 5)),
		}, 40},
		{"a parent and its child vanish at once", []*meterTable{
			at(0, busy(20, shim, 5), busy(21, 20, 10), busy(22, 21, 30)), at(0, busy(20, shim, 5)),
		}, 45},
		{"a number is used again", []*meterTable{
			at(0, busy(20, shim, 5), busy(21, 20, 30)), at(0, busy(20, shim, 5), stat{pid: 21, parent: 20, start: 500, own: 1}),
		}, 36},
		{"a process on its way to another parent", []*meterTable{
			at(0, busy(20, shim, 5), busy(21, 20, 30)),
			at(0, busy(21, 20, 31)), // its parent is gone, and it is not the shim's yet
			at(5, busy(21, shim, 32)),
		}, 37},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree := newTree(shim, meterBounds{CPU: time.Hour}, meterOptions{})
			var got meterUse
			var last time.Duration
			for _, tab := range tt.looks {
				got = tree.Look(tab)
				if got.CPU < last {
					t.Errorf("time went back from %v to %v", last, got.CPU)
				}
				last = got.CPU
			}
			if want := time.Duration(tt.want) * tick; got.CPU != want {
				t.Errorf("%v, want %v", got.CPU, want)
			}
		})
	}
	tree := newTree(shim, meterBounds{CPU: time.Hour}, meterOptions{Earlier: true})
	if u := tree.Look(at(3, busy(20, shim, 50))); u.CPU != 0 {
		t.Errorf("what was used before counts: %v", u.CPU)
	}
	if u := tree.Look(at(4, busy(20, shim, 57))); u.CPU != 8*tick {
		t.Errorf("%v, want 8 ticks", u.CPU)
	}
}

// TestCount holds what counts as a process, and that a table which cannot be
// true is read to its end.
func TestCount(t *testing.T) {
	tree := newTree(shim, meterBounds{Processes: 1}, meterOptions{})
	for _, tt := range []struct {
		name string
		tab  *meterTable
		want int64
	}{
		{"a tree", at(0, stat{pid: 20, parent: shim}, stat{pid: 21, parent: 20}, stat{pid: 22, parent: 21}), 3},
		{"others", at(0, stat{pid: 20, parent: 1}, stat{pid: 21, parent: 20}), 0},
		{"no stage", &meterTable{}, 0},
		{"two that are each other's parents", at(0, stat{pid: 20, parent: 21}, stat{pid: 21, parent: 20}), 0},
	} {
		if u := tree.Look(tt.tab); u.Processes != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, u.Processes, tt.want)
		}
	}
	ours := newTree(shim, meterBounds{Processes: 1}, meterOptions{Ours: 1})
	if u := ours.Look(at(0, stat{pid: 20, parent: shim}, stat{pid: 21, parent: shim})); u.Processes != 1 {
		t.Errorf("one of ours among two: %d", u.Processes)
	}
	self := &meterTable{procs: []stat{{pid: shim, parent: 20}, {pid: 20, parent: shim}}}
	self.sort()
	if u := tree.Look(self); u.Processes != 1 {
		t.Errorf("a stage below itself has %d", u.Processes)
	}
}

func TestNear(t *testing.T) {
	b := meterBounds{CPU: 10 * time.Second, Memory: 100, Processes: 8, Files: 8}
	for _, tt := range []struct {
		use  meterUse
		want bool
	}{
		{meterUse{CPU: 5 * time.Second, Memory: 50, Processes: 4, Files: 4}, false},
		{meterUse{CPU: 6 * time.Second}, true}, {meterUse{Memory: 51}, true}, {meterUse{Processes: 5}, true}, {meterUse{Files: 5}, true},
	} {
		if got := b.Near(tt.use); got != tt.want {
			t.Errorf("%+v: %v", tt.use, got)
		}
	}
	if (meterBounds{}).Near(meterUse{Memory: 1 << 40, Processes: 9}) {
		t.Error("near to no bound")
	}
}
