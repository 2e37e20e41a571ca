//go:build linux

package server

import (
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"

	"golang.org/x/sys/unix"
)

// A forks holds the bound of processes of one command, or of one line of a
// shell: each process is counted before it is made. It counts exactly where one
// process makes the others. Where several make some at once, as many more may be
// made as there are calls that the kernel takes longer than goingFor to carry
// out, before the command ends. Threads are not asked about. Its methods are safe for concurrent use; a nil one allows
// everything.
//
// It keeps a number that is never too small, and looks into /proc only where
// that number has come to the bound.
type forks struct {
	m     *command
	audit *audit
	bound int64
	ours  int // processes of our own below the shim, which do not count

	mu    sync.Mutex
	tree  *meterTree
	table meterTable
	most  int64             // processes there may be, at most
	going map[int]time.Time // threads whose call was let go on lately, and since when
	over  bool
}

const (
	// goingFor is how long a call that was let go on may take to be visible in
	// /proc, and goingPause between two looks when there is one.
	goingFor   = 20 * time.Millisecond
	goingPause = 2 * time.Millisecond
)

// newForks returns the forks that decide for m, or nil where a bounds no
// processes or the kernel cannot ask the guest. Then the auditor alone enforces
// the bound.
func newForks(m *command, a *audit, ours int) *forks {
	if a == nil || a.bounds.Processes <= 0 || m.conn == nil || m.conn.srv.nursery == nil || !m.conn.srv.nursery.maker.Counts() {
		return nil
	}
	f := &forks{m: m, audit: a, bound: a.bounds.Processes, ours: ours, going: map[int]time.Time{}}
	if ours > 0 {
		f.most = f.bound // a shell runs, and what it has left
	}
	return f
}

// below says which shim the processes are below, before any of them asks.
func (f *forks) below(shim int) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tree = newTree(shim, meterBounds{Processes: f.bound}, meterOptions{Ours: f.ours})
}

// allow reports whether a thread may make one more process. Where it may not,
// the command has reached its limit and ends.
func (f *forks) allow(thread int) bool {
	if f == nil {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.going, thread) // its call before has ended
	if f.over || f.most >= f.bound && f.count() >= f.bound {
		if !f.over && f.audit.reach(hitOf(wire.LimitTreeProcesses, f.most+1, f.bound)) {
			f.m.signalGroup(unix.SIGKILL) // at once: a program whose call fails could end by itself first
			go f.m.kill(0)
		}
		f.over = true
		return false
	}
	f.most++
	f.going[thread] = time.Now()
	return true
}

// count looks how many processes there are. A call that was let go on may not
// have made its process yet, so that it is waited for where the number would be
// too small without it.
func (f *forks) count() int64 {
	for deadline := time.Now().Add(goingFor); ; time.Sleep(goingPause) {
		f.look()
		now := time.Now()
		for thread, since := range f.going {
			if now.Sub(since) > goingFor {
				delete(f.going, thread)
			}
		}
		going := int64(len(f.going))
		if f.most >= f.bound || f.most+going < f.bound || now.After(deadline) {
			f.most = min(f.most+going, max(f.most, f.bound-1))
			return f.most
		}
	}
}

// look sets most to what /proc shows. What cannot be read leaves it as it is.
func (f *forks) look() {
	if f.tree != nil && f.table.Read() == nil {
		f.most = f.tree.Look(&f.table).Processes
	}
}
