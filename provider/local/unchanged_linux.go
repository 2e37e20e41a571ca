package local

import (
	"time"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
	"golang.org/x/sys/unix"
)

const (
	// unchangedFor bounds how long a plan holds because no change was reported.
	// A scan afterwards finds what no watch covers, such as links to files in
	// denied folders.
	unchangedFor = time.Second
	// leastSteady is how many plans in a row must be the same before folders
	// are watched. The number grows up to mostSteady when the watches are lost
	// repeatedly.
	leastSteady, mostSteady = 2, 1024
)

// unchanged is the directory watcher of a planner, which does not look at the
// host while it reports no change. The planner's mutex guards the fields. The
// zero value watches nothing.
type unchanged struct {
	watch  *hostpath.DirWatch
	since  time.Time // start of the last look with all watches in place; zero is none
	steady int       // consecutive equal plans
	wanted int       // equal plans that are required before folders are watched
	closed bool
}

// holds reports whether nothing has changed since the last look. If it returns
// false, a look that begins now sees every change that was reported so far.
func (u *unchanged) holds() bool {
	if u.watch == nil {
		return false
	}
	switch u.watch.Now() {
	case hostpath.Quiet:
		return time.Since(u.since) < unchangedFor
	case hostpath.Lost:
		u.drop()
	}
	u.since = time.Time{}
	return false
}

// drop closes the watches until enough plans were equal again.
func (u *unchanged) drop() {
	if u.watch != nil {
		u.watch.Close()
	}
	u.watch, u.since, u.steady, u.wanted = nil, time.Time{}, 0, min(2*max(u.wanted, leastSteady), mostSteady)
}

// broken records that there is a new plan, which no look has confirmed yet.
func (u *unchanged) broken() { u.since, u.steady = time.Time{}, 0 }

// close closes the watches for good.
func (u *unchanged) close() {
	u.drop()
	u.closed = true
}

// look records a look at the host that began at began and found what the last
// one did. Only a look that began with all watches in place counts.
func (u *unchanged) look(began time.Time, p *planner, now seen) {
	if u.steady++; u.closed || u.steady < max(u.wanted, leastSteady) || !p.watchable(now) {
		return
	}
	fresh, err := u.add(p, now)
	switch {
	case err != nil:
		u.drop()
	case !fresh:
		u.since = began
	}
}

// add watches everything that the plan depends on, and reports whether some of
// it was not watched before.
func (u *unchanged) add(p *planner, now seen) (fresh bool, err error) {
	if u.watch == nil {
		if u.watch, err = hostpath.NewDirWatch(); err != nil {
			return false, err
		}
	}
	note := func(added bool, e error) bool {
		fresh, err = fresh || added, e
		return e == nil
	}
	for _, v := range p.last.world.Views {
		if !note(u.watch.Path(v.Source)) {
			return false, err
		}
	}
	for path := range p.last.world.Kinds {
		if !note(u.watch.Path(path)) {
			return false, err
		}
	}
	for path := range p.last.world.Names {
		if !note(u.watch.Folder(path)) {
			return false, err
		}
	}
	for _, root := range p.picture.Scan.Roots {
		if !note(u.watch.Path(root)) {
			return false, err
		}
	}
	for _, path := range now.found.Folders {
		if !note(u.watch.Folder(path)) {
			return false, err
		}
	}
	if fresh && u.watch.Now() == hostpath.Lost { // checked at once: a later mount must not invalidate the result
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
