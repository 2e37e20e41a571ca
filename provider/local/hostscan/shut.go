package hostscan

import (
	"path"
	"slices"

	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// A shut says how far a folder is closed, and so what a scan searches it for.
type shut uint8

const (
	free   shut = iota // everything that matches, and sockets
	frozen             // closed for writing only: matches of globs that close reading, sockets, and links
	sealed             // closed for reading, or not shown: links only
)

// An origin is the denied file or folder for which a path was found.
type origin struct {
	path string
	rule string
	read bool
	// search says that what lies below is still readable inside.
	search bool
	yields bool // what is opened in it stays open
}

// shut returns the effect of o on a folder. No origin is nil.
func (o *origin) shut() shut {
	switch {
	case o == nil:
		return free
	case o.search:
		return frozen
	}
	return sealed
}

// deny records what is denied by path. The walk enters a folder that is closed
// for writing only from above, to find what is closed for reading in it.
func (w *walk) deny(q Request) {
	for _, p := range q.Exclude {
		w.skip[path.Clean(p)] = true
	}
	for _, p := range q.Opened {
		w.opened[path.Clean(p)] = true
	}
	firm := map[string]bool{} // of several denies of one path, one that does not yield decides
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

// meet returns what closes the folder at p, which a walk from above reaches: o,
// which closes its parent folder or is nil, or the deny of its path.
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

// opens reports whether p, which o closes, stays open.
func (w *walk) opens(p string, o *origin) bool { return o != nil && o.yields && w.opened[p] }

// openedBelow reports whether p, or a folder on the path from the folder closed
// to p, stays open.
func (w *walk) openedBelow(p, closed string) bool {
	for ; p != closed && p != "/"; p = path.Dir(p) {
		if w.opened[p] {
			return true
		}
	}
	return false
}
