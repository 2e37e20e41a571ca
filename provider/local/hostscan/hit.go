package hostscan

import (
	"cmp"
	"slices"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
	"golang.org/x/sys/unix"
)

// hit checks the match m in the folder fd, which lies at p, and reports it.
func (w *walk) hit(fd int, p string, m match) error {
	at := join(p, m.name)
	var st unix.Stat_t
	if err := hostpath.Stat(fd, m.name, &st); err != nil {
		if hostpath.Gone(err) {
			return nil
		}
		if !closedTo(err) { // a folder that allows listing names and nothing else
			return w.lost(at, err)
		}
	}
	if err := w.room(at); err != nil {
		return err
	}
	h := Hit{
		Path: at, Kind: kind(&st), Dev: uint64(st.Dev), Ino: st.Ino, Links: uint64(st.Nlink),
		Read: m.read, Yields: m.read && w.s.match.globs[m.glob].Yields, Rule: w.s.match.globs[m.glob].Rule,
	}
	if h.Yields {
		if firm := w.s.match.firm(p, m.name, kindOf(uint32(st.Mode)) == unix.DT_DIR, m.fold); firm >= 0 {
			h.Firm = w.s.match.globs[firm].Rule
		}
	}
	o := origin{path: at, rule: h.Rule, read: h.Read, yields: h.Yields}
	switch h.Kind {
	case plan.File:
		w.want(&st, o)
	case plan.Link:
		w.follow(&h)
		if h.To != "" {
			w.denied = append(w.denied, plan.Deny{Path: h.To, Read: h.Read, Yields: h.Yields, Rule: h.Rule})
		}
	}
	w.out.Hits = append(w.out.Hits, h)
	return nil
}

// follow records the target of a link that leads into a root.
func (w *walk) follow(h *Hit) {
	to, err := hostpath.Canonical(h.Path)
	if err != nil { // a loop, or a path that is not accessible
		return
	}
	inside := false
	for _, r := range w.roots {
		if hostpath.Within(r, to) {
			return // the target is or holds a root; closing it would close everything
		}
		inside = inside || hostpath.Within(to, r)
	}
	if !inside {
		return
	}
	h.To = to
	var st unix.Stat_t
	if unix.Lstat(to, &st) == nil {
		h.ToDev, h.ToIno = uint64(st.Dev), st.Ino
	}
}

func kind(st *unix.Stat_t) plan.Kind {
	switch kindOf(uint32(st.Mode)) {
	case unix.DT_REG:
		return plan.File
	case unix.DT_DIR:
		return plan.Dir
	case unix.DT_LNK:
		return plan.Link
	case unix.DT_SOCK:
		return plan.Socket
	}
	return plan.Other
}

// result sorts the findings and removes duplicates. A walk meets a root inside
// another one, and what lies above several roots, more than once.
func (w *walk) result() Result {
	r := w.out
	slices.SortFunc(r.Hits, func(a, b Hit) int { return cmp.Compare(a.Path, b.Path) })
	r.Hits = slices.CompactFunc(r.Hits, func(a, b Hit) bool { return a.Path == b.Path })
	slices.SortFunc(r.Aliases, func(a, b Alias) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Of, b.Of))
	})
	r.Aliases = slices.Compact(r.Aliases)
	for _, list := range []*[]string{&r.Sockets, &r.Found, &r.Unreadable, &r.Skipped} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return r
}
