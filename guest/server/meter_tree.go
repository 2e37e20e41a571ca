//go:build linux

package server

import (
	"cmp"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds are what a command may use. Zero is no bound, and what has none is
// not counted.
type meterBounds struct {
	CPU       time.Duration // processor time of all its processes
	Memory    int64         // bytes of all its processes
	Processes int64
	Files     int64 // open files of one process; the kernel holds this bound
}

// A Use is what a command uses.
type meterUse struct {
	CPU       time.Duration
	Memory    int64
	Processes int64
	Files     int64 // of the process that has the most

	// With Options.Exact alone.
	System  time.Duration // of CPU what was used in the kernel, by and large
	Largest int64         // bytes that are resident of the largest process
}

// Near reports whether u is beyond half of one of the bounds, so that it has
// to be looked at more often.
func (b meterBounds) Near(u meterUse) bool {
	return b.CPU > 0 && u.CPU > b.CPU/2 || b.Memory > 0 && u.Memory > b.Memory/2 ||
		b.Processes > 0 && u.Processes > b.Processes/2 || b.Files > 0 && u.Files > b.Files/2
}

// A Tree counts for one command. It remembers what it has seen of processes
// that are gone. It is not safe for concurrent use.
type meterTree struct {
	root   int // the shim
	bounds meterBounds
	o      meterOptions

	begun  bool
	reaped time.Duration // by the root, when it was looked at first
	base   time.Duration // with Earlier: what was used by then
	gone   time.Duration // seen last of children of the root that have vanished
	hidden time.Duration // by processes that are gone
	known  map[int]*entry
	round  int
	at     time.Time     // of the look
	since  time.Duration // of it from the one before, 0 for the first

	members []stat
	buf     []byte
	waited  func(pid int) (wait time.Duration, ok bool) // nil where it is not known
}

// An entry is a process that was seen.
type entry struct {
	stat
	own   time.Duration // hides that of stat, which is less exact
	gone  time.Duration // as with Tree
	first int           // the round in which it was seen first
	round int           // in which it was seen last
	given time.Duration // what it had reaped by the look before
	hides hidden
	met   bool          // it was running when it was seen first
	wait  time.Duration // for a processor, until then
}

// total is the processor time of e and of what it has started and is gone. The
// kernel adds the time of a child to that of a parent which waits for it, and
// of no other: who ignores SIGCHLD would hide its children. So what was seen
// of them stands in for it. Both are the same children's, so that only the
// larger one counts.
func (e *entry) total() time.Duration { return e.own + max(ticks(e.reaped), e.gone) }

// ticks is a number of ticks as a time, or a time that no process comes to.
func ticks(n uint64) time.Duration { return time.Duration(min(n, 1<<36)) * tick }

// Options of a Tree.
type meterOptions struct {
	Swap    bool // memory can be swapped out here, see HasSwap
	Earlier bool // processor time that was used before the first Look does not count
	Ours    int  // processes of our own among them, which do not count as processes

	// Exact has processor time counted, whatever the bounds, and of processes
	// that live by the kernel's own clocks of them. User and System are what
	// the root had reaped when what is counted began, so that the first Look
	// may be at any time.
	Exact        bool
	User, System time.Duration
}

// NewTree returns a Tree for the processes below root. Without Options.Exact the
// first Look must not be late: what the root has reaped before is not counted.
func newTree(root int, b meterBounds, o meterOptions) *meterTree {
	t := &meterTree{root: root, bounds: b, o: o, known: map[int]*entry{}}
	if o.Exact && tellsWaits() {
		t.waited = waited
	}
	return t
}

// Look returns what the processes below the root use according to t. Where
// the root is not found, that is nothing.
func (t *meterTree) Look(tab *meterTable) meterUse {
	root, ok := tab.find(t.root)
	if !ok {
		return meterUse{}
	}
	t.gather(tab)
	u := meterUse{Processes: int64(max(0, len(t.members)-t.o.Ours))}
	if t.bounds.CPU > 0 || t.o.Exact {
		u.CPU = t.time(tab, root)
	}
	if t.o.Exact {
		u.System = max(0, ticks(root.reapedSys)-t.o.System)
		for _, m := range t.members {
			u.System += ticks(m.system) + ticks(m.reapedSys)
			u.Largest = max(u.Largest, m.rss)
		}
	}
	if t.bounds.Memory > 0 {
		u.Memory = t.memory()
	}
	if t.bounds.Files > 0 {
		for _, m := range t.members {
			u.Files = max(u.Files, openFiles(m))
		}
	}
	return u
}

// gather finds the descendants of the root. Every process has one parent, so
// that it is met once at most; the root itself is left out, whatever it says.
func (t *meterTree) gather(tab *meterTable) {
	t.members = t.members[:0]
	add := func(list []stat) {
		for _, c := range list {
			if c.pid != t.root {
				t.members = append(t.members, c)
			}
		}
	}
	add(tab.children(t.root))
	for i := 0; i < len(t.members); i++ {
		add(tab.children(t.members[i].pid))
	}
}

// time returns the processor time since the first call, or since what Exact
// counts began.
func (t *meterTree) time(tab *meterTable, root stat) time.Duration {
	first := !t.begun
	if first {
		t.begun, t.reaped = true, ticks(root.reaped)
		if t.o.Exact {
			t.reaped = t.o.User + t.o.System
		}
	}
	t.round++
	if !first {
		t.since = tab.at.Sub(t.at)
	}
	t.at = tab.at
	for _, m := range t.members {
		e := t.known[m.pid]
		if e == nil || e.start != m.start {
			if e != nil {
				t.credit(e)
			}
			e = &entry{first: t.round}
			t.known[m.pid] = e
			if m.running && t.waited != nil {
				e.wait, e.met = t.waited(m.pid)
			}
		}
		e.given = ticks(e.reaped)
		e.stat, e.own, e.round = m, t.own(m), t.round
	}
	t.settle(tab)
	sum := max(ticks(root.reaped)-t.reaped, t.gone) + t.hidden
	for _, e := range t.known {
		sum += e.total() + e.hides.reported
	}
	if first && t.o.Earlier {
		t.base = sum
	}
	return sum - min(sum, t.base)
}

// own is the processor time of a process itself. Its clock, which every process
// may read, cannot be distinguished from that of another process that has got
// its number since; such a process has used less than what the table says, or
// next to nothing.
func (t *meterTree) own(m stat) time.Duration {
	d := ticks(m.own)
	var now unix.Timespec
	if t.o.Exact && unix.ClockGettime(clockOf(m.pid), &now) == nil {
		d = max(d, min(time.Duration(now.Nano()), ticks(1<<36)))
	}
	return d
}

// clockOf is the clock of the processor time of a process, see
// clock_getcpuclockid(3).
func clockOf(pid int) int32 {
	const ofSchedule = 2 // CPUCLOCK_SCHED: all that it ran, not what ticks hit
	return ^int32(pid)<<3 | ofSchedule
}

// settle hands what was seen of vanished processes to their parents, the
// youngest ones first, because a parent can have vanished too.
func (t *meterTree) settle(tab *meterTable) {
	var vanished []*entry
	for _, e := range t.known {
		if e.round == t.round {
			continue
		}
		if now, ok := tab.find(e.pid); ok && now.start == e.start {
			continue // it was moving to another parent as the table was read
		}
		vanished = append(vanished, e)
	}
	slices.SortFunc(vanished, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.start, a.start), cmp.Compare(b.pid, a.pid))
	})
	for _, e := range vanished {
		delete(t.known, e.pid)
		t.credit(e)
	}
}

// credit adds what was seen of a vanished process to its parent.
func (t *meterTree) credit(e *entry) {
	t.hidden += e.hides.reported
	if p := t.known[e.parent]; p != nil && p.start <= e.start {
		p.gone += e.total()
		if e.met && e.first == e.round && p.round == t.round {
			p.hides.meet(e, t.since, p.given, ticks(p.reaped))
		}
		return
	}
	t.gone += e.total()
}
