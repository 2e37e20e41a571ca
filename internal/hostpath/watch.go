package hostpath

import (
	"errors"
	"sync"
)

// A Watch reports whether what was read from paths of the host is still so, with
// one system call that looks at no file. A caller proceeds like this:
//
//	mark, ok := w.Mark()
//	… read …
//	if all, _ := w.Add(mark, paths, files); ok && all {
//		… keep what was read, with mark and a Places of paths and files …
//	}
//
// and later takes what it has kept where w.Unchanged(mark, places).
//
// The kernel queues an event before the call that makes a change returns, so a
// change that was made before Unchanged is called is always seen. Where that does
// not hold, as on file systems of other machines, Add refuses and nothing is
// kept. It is safe for concurrent use. The zero value is ready;
// with a nil Watch nothing is kept.
type Watch struct {
	mu     sync.Mutex
	on     watcher           // nil: nothing is watched
	skip   int               // marks that are refused before watches are made
	wait   int               // what skip begins with next; 0 is firstMarks
	quiet  int               // calls of Unchanged that were right since
	seq    uint64            // of the last change
	grown  uint64            // when watches were made last: what was marked before may have been read without
	from   uint64            // what was marked before counts as changed
	last   map[string]uint64 // changed paths, with the seq of their change
	closed bool
}

// A watcher is what the system has for it; [DirWatch] is one.
type watcher interface {
	Path(p string) (fresh bool, err error)
	File(p string) (fresh bool, err error)
	Close()

	// full reports whether no more can be watched.
	full() bool
	// poll calls changed for each watched path that has changed since the last
	// call, and reports whether it still knows of all changes.
	poll(changed func(path string)) (ok bool)
}

const (
	// firstMarks is how many marks are refused: a program that does one thing and
	// ends makes fewer, and watches would cost it more than they spare. A request
	// makes about ten.
	firstMarks = 100
	// mostMarks is what that grows to where the watches are lost again and again.
	mostMarks = 4096
	// maxChanged bounds the changes that are remembered.
	maxChanged = 4096
)

// Places are paths that something depends on, with every folder on the way.
type Places map[string]bool

// PlacesOf returns the Places of paths, which are absolute and clean.
func PlacesOf(paths ...[]string) Places {
	all := Places{"/": true}
	for _, list := range paths {
		for _, p := range list {
			for ; !all[p] && p != "" && p != "."; p = parent(p) {
				all[p] = true
			}
		}
	}
	return all
}

// parent is the folder of a clean path.
func parent(p string) string {
	for i := len(p) - 1; i > 0; i-- {
		if p[i] == '/' {
			return p[:i]
		}
	}
	if p == "/" {
		return ""
	}
	return "/"
}

// Mark returns the present moment. Where ok is false nothing that is read now can
// be kept.
func (w *Watch) Mark() (mark uint64, ok bool) {
	if w == nil {
		return 0, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wait == 0 {
		w.wait, w.skip = firstMarks, firstMarks
	}
	if w.on == nil && w.skip > 0 {
		w.skip--
		return 0, false
	}
	if w.closed {
		return 0, false
	}
	w.look()
	return w.seq, true
}

// Add watches paths and files, which are absolute and clean and have no link on
// the way. Of files the content counts too. It reports whether all of them were
// watched at mark already, so that what was read since can be kept. An error is one
// of a path that cannot be watched.
func (w *Watch) Add(mark uint64, paths, files []string) (all bool, err error) {
	if w == nil {
		return false, errNoWatch
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false, errNoWatch
	}
	if w.on == nil {
		if w.on = newWatcher(); w.on == nil {
			return false, errNoWatch
		}
	}
	all = true
	add := func(list []string, one func(string) (bool, error)) error {
		for _, p := range list {
			fresh, err := one(p)
			if err != nil {
				return err
			}
			all = all && !fresh
		}
		return nil
	}
	if err = add(paths, w.on.Path); err == nil {
		err = add(files, w.on.File)
	}
	switch {
	case err != nil && w.on.full():
		w.reset() // of much that is watched nothing may be left
		return false, nil
	case err != nil:
		return false, err
	case !all:
		w.look() // at once: a later mount must not make this doubtful
		w.seq++
		w.grown = w.seq
	}
	return all && w.grown <= mark, nil
}

// errNoWatch reports that there are no watches, or none any more.
var errNoWatch = errors.New("nothing is watched")

// Unchanged reports whether nothing has changed at the places since mark, as far
// as they were all watched then.
func (w *Watch) Unchanged(mark uint64, at Places) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.on == nil {
		return false
	}
	w.look()
	switch {
	case w.on == nil || mark < w.from:
		return false
	case mark != w.seq:
		for p, seq := range w.last {
			if seq > mark && at[p] {
				return false
			}
		}
	}
	if w.quiet++; w.quiet > mostMarks {
		w.wait, w.quiet = firstMarks, 0
	}
	return true
}

// look takes note of what has changed. The caller has mu.
func (w *Watch) look() {
	if w.on == nil {
		return
	}
	ok := w.on.poll(func(p string) {
		w.seq++
		if w.last == nil {
			w.last = map[string]uint64{}
		}
		w.last[p] = w.seq
	})
	if !ok || len(w.last) > maxChanged {
		w.reset()
	}
}

// reset ends all watches: everything that was marked counts as changed.
func (w *Watch) reset() {
	if w.on != nil {
		w.on.Close()
		w.on = nil
		w.skip, w.quiet = w.wait, 0
		w.wait = min(2*w.wait, mostMarks)
	}
	w.seq++
	w.from, w.last = w.seq, nil
}

// Close ends the watches. Nothing is kept any more.
func (w *Watch) Close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reset()
	w.closed = true
}
