package plan

import sandbox "github.com/bulkhead-dev/sandbox"

// Granted returns w with views for the grants gs: each path at its own name
// and, for a grant to write, also at each place where a view already shows it,
// because commands use that path. Denies stay in force and win over grants. A
// grant of a missing path has no effect.
func Granted(w World, gs []sandbox.Grant) World {
	views := w.Views
	w.Views = append([]View(nil), views...)
	for _, g := range gs {
		v := View{Source: g.Path, Target: g.Path, Write: g.Operation == sandbox.OpWrite, Optional: true, Why: "grant: " + g.Path}
		for _, shown := range views {
			if !under(g.Path, shown.Source) {
				continue
			}
			if at := moved(g.Path, shown.Source, shown.Target); v.Write && !shown.Write && at != g.Path {
				w.Views = append(w.Views, View{Source: v.Source, Target: at, Write: true, Optional: true, Why: v.Why})
			}
		}
		if !coveredBy(views, v) {
			w.Views = append(w.Views, v)
		}
	}
	return w
}

// coveredBy reports whether one of views already shows the content of v, with
// the same rights, so that no further mount is needed.
func coveredBy(views []View, v View) bool {
	best := -1
	for i, shown := range views {
		if under(v.Target, shown.Target) && (best < 0 || len(shown.Target) >= len(views[best].Target)) {
			best = i
		}
	}
	return best >= 0 && under(v.Source, views[best].Source) &&
		moved(v.Source, views[best].Source, views[best].Target) == v.Target && (views[best].Write || !v.Write)
}
