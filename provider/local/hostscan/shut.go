package hostscan

import (
	"path"
	"slices"

	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// A shut says how far a folder is closed, and so what is looked for in it.
type shut uint8

const (
	free   shut = iota // all that matches, and sockets
	frozen             // closed for writing alone: what matches a glob that closes reading, sockets, and links
	sealed             // links, and nothing that matches: closed for reading, or not shown
)

// An origin is the denied file or folder that something was found for.
type origin struct {
	path string
	rule string
	read bool
	// search says that what lies below can still be read inside.
	search bool
	yields bool // what is opened in it stays open
}

// shut says what o makes of a folder. No origin is nil.
func (o *origin) shut() shut {
	switch {
	case o == nil:
		return free
	case o.search:
		return frozen
	}
	return sealed
}

// deny notes what is denied by path. A folder that is closed for writing alone
// is looked into from above, for what must not be read in it.
func (w *walk) deny(q Request) {
	for _, p := range q.Exclude {
		w.skip[path.Clean(p)] = true
	}
	for _, p := range q.Opened {
		w.opened[path.Clean(p)] = true
	}
	firm := map[string]bool{} // of several denies of one path, one that does not yield counts
	for i := range w.denied {
		d := &w.denied[i]
		if d.Path = path.Clean(d.Path); d.Read {
			w.skip[d.Path], w.sealed[d.Path] = true, true
			firm[d.Path] = firm[d.Path] || !d.Yields
		}
	}
	for i := range w.denied {
		w.denied[i].Yields = w.denied[i].Yields && !firm[w.denied[i].Path]
	}
	w.denied = slices.DeleteFunc(w.denied, func(d plan.Deny) bool { return !d.Read && w.sealed[d.Path] })
	for _, d := range w.denied {
		if !d.Read {
			w.frozen[d.Path] = d.Rule
		}
	}
}

// meet returns what closes the folder at p, which a walk from above comes by: o,
// which closes the folder that it lies in or is nil, or what denies it by path.
func (w *walk) meet(p string, o *origin) *origin {
	rule, denied := w.frozen[p]
	if !denied {
		return o
	}
	w.met[p] = true
	if o == nil {
		o = &origin{path: p, rule: rule, search: true}
	}
	return o
}

// below returns what closes the folder s of n, which lies at p; o closes n.
func (w *walk) below(p string, n *node, s sub, o *origin) *origin {
	if w.opens(p, o) {
		o = nil
	}
	if s.hit != free {
		i := slices.IndexFunc(n.hits, func(m match) bool { return m.name == s.name })
		g := w.s.match.globs[n.hits[i].glob]
		o = &origin{path: p, rule: g.Rule, read: n.hits[i].read, search: !n.hits[i].read, yields: n.hits[i].read && g.Yields}
	}
	return w.meet(p, o)
}

// opens reports whether what lies at p, which o closes, stays open.
func (w *walk) opens(p string, o *origin) bool { return o != nil && o.yields && w.opened[p] }

// openedBelow reports whether p, or a folder on the way to it from the folder
// closed, stays open.
func (w *walk) openedBelow(p, closed string) bool {
	for ; p != closed && p != "/"; p = path.Dir(p) {
		if w.opened[p] {
			return true
		}
	}
	return false
}
