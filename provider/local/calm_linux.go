package local

import (
	"time"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
	"golang.org/x/sys/unix"
)

const (
	// unchangedFor bounds how long a plan holds because nothing was heard of. What
	// a scan finds by waiting, such as links to files in denied folders, is
	// found all the same.
	unchangedFor = time.Second
	// leastSteady is how many plans in a row must have been the same before
	// watches are made, and mostSteady is what that grows to where they are
	// lost again and again.
	leastSteady, mostSteady = 2, 1024
)

// A lull spares a planner the look at the host while nothing happens there.
// Its fields belong to the planner, and its zero value spares nothing.
type lull struct {
	watch  *hostpath.DirWatch
	since  time.Time // when the look began that the watches have made good; zero is none
	steady int       // plans that were the same, in a row
	wanted int       // how many there must be
	closed bool
}

// holds reports whether nothing has changed since the last look. When it says
// no, a look that begins now sees every change that was reported so far.
func (l *lull) holds() bool {
	if l.watch == nil {
		return false
	}
	switch l.watch.Now() {
	case hostpath.Quiet:
		return time.Since(l.since) < unchangedFor
	case hostpath.Lost:
		l.drop()
	}
	l.since = time.Time{}
	return false
}

// drop gives the watches up, for a while.
func (l *lull) drop() {
	if l.watch != nil {
		l.watch.Close()
	}
	l.watch, l.since, l.steady, l.wanted = nil, time.Time{}, 0, min(2*max(l.wanted, leastSteady), mostSteady)
}

// broken says that there is a new plan, of which nothing is known yet.
func (l *lull) broken() { l.since, l.steady = time.Time{}, 0 }

// close gives the watches up for good.
func (l *lull) close() {
	l.drop()
	l.closed = true
}

// look notes a look at the host, which began at the given moment and has found
// what the last one did. Only one that began with all watches in place counts.
func (l *lull) look(began time.Time, p *planner, now seen) {
	if l.steady++; l.closed || l.steady < max(l.wanted, leastSteady) || !p.watchable(now) {
		return
	}
	fresh, err := l.add(p, now)
	switch {
	case err != nil:
		l.drop()
	case !fresh:
		l.since = began
	}
}

// add watches all that the plan depends on, and reports whether some of it was
// not watched before.
func (l *lull) add(p *planner, now seen) (fresh bool, err error) {
	if l.watch == nil {
		if l.watch, err = hostpath.NewDirWatch(); err != nil {
			return false, err
		}
	}
	note := func(added bool, e error) bool {
		fresh, err = fresh || added, e
		return e == nil
	}
	for _, v := range p.last.world.Views {
		if !note(l.watch.Path(v.Source)) {
			return false, err
		}
	}
	for path := range p.last.world.Kinds {
		if !note(l.watch.Path(path)) {
			return false, err
		}
	}
	for path := range p.last.world.Names {
		if !note(l.watch.Folder(path)) {
			return false, err
		}
	}
	for _, root := range p.picture.Scan.Roots {
		if !note(l.watch.Path(root)) {
			return false, err
		}
	}
	for _, path := range now.found.Folders {
		if !note(l.watch.Folder(path)) {
			return false, err
		}
	}
	if fresh && l.watch.Now() == hostpath.Lost { // asked at once: who mounts later must not make this doubtful
		return false, hostpath.ErrCannot
	}
	return fresh, nil
}

// watchable reports whether folders are all that the plan depends on: links
// lead elsewhere, git is asked for what is in files, and what we have put in
// the place of something may become more than that.
func (p *planner) watchable(now seen) bool {
	q, w := p.picture.Protect, p.last.world
	if q.Own != "" || len(q.Writable) > 0 || len(w.Links) > 0 || len(p.last.plan.Placeholders) > 0 || len(now.found.Unreadable) > 0 {
		return false
	}
	for _, h := range now.found.Hits {
		if h.Kind == plan.Link {
			return false
		}
	}
	for path, kind := range w.Kinds {
		var st unix.Stat_t
		if kind == plan.Missing && !hostpath.Gone(unix.Lstat(path, &st)) {
			return false // the stub of another process, or out of our reach
		}
	}
	return true
}
