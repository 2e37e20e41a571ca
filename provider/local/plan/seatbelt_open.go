package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
)

// A step is one of the file rules that follow the allows of a profile, in
// profile order: the last matching rule decides. It applies the denies in
// closed, or open.
type step struct {
	closed []seatbeltClosure
	open   opening
}

// An opening allows reading and writing below folders again, and closes writing
// below fixed, by rule.
type opening struct {
	read, write []string
	fixed       string
	by          string // the rule of the Open
	rule        string // the rule of the deepest deny around it
}

// steps returns the rules for list, the closures of r. If opens apply inside
// denies, the opens and the yielding denies follow by depth, denies last at
// equal depth; the denies that do not yield then follow once more.
func (r Rules) steps(list []seatbeltClosure) ([]step, error) {
	out := []step{{closed: list}}
	var yielding, firm []seatbeltClosure
	for _, c := range list {
		if c.yields {
			yielding = append(yielding, c)
		} else {
			firm = append(firm, c)
		}
	}
	opens, err := r.openings(yielding)
	if err != nil || len(opens) == 0 {
		return out, err
	}
	slices.SortStableFunc(yielding, func(a, b seatbeltClosure) int { return cmp.Compare(a.depth, b.depth) })
	for _, o := range opens {
		i := slices.IndexFunc(yielding, func(c seatbeltClosure) bool { return c.depth >= o.depth })
		if i < 0 {
			i = len(yielding)
		}
		if i > 0 {
			out = append(out, step{closed: yielding[:i:i]})
			yielding = yielding[i:]
		}
		out = append(out, step{open: o.opening})
	}
	return append(out, step{closed: yielding}, step{closed: firm}), nil
}

// A placedOpening is an opening with the depth of its path.
type placedOpening struct {
	opening
	depth int
}

// openings returns the opens of r that take effect, by increasing depth; of
// several with the same path, those for writing come last.
func (r Rules) openings(yielding []seatbeltClosure) ([]placedOpening, error) {
	around := make([]closed, len(yielding))
	for i, c := range yielding {
		var err error
		if around[i], err = c.compiled(); err != nil {
			return nil, err
		}
	}
	opens := slices.Clone(r.Opens)
	slices.SortStableFunc(opens, func(a, b Open) int {
		return cmp.Or(cmp.Compare(seatbeltDepth(a.Path), seatbeltDepth(b.Path)), cmp.Compare(a.Path, b.Path), cmp.Compare(number(a.Write), number(b.Write)))
	})
	writable := sorted(r.Writable, r.Tmp)
	readable := sorted(r.Readable, writable)
	var out []placedOpening
	for _, o := range opens {
		in, deepest := "", 0 // the rule and depth of the deepest deny above o
		for i, c := range around {
			if d := yielding[i].depth; d > deepest && d < seatbeltDepth(o.Path) && c.closes(o.Path) {
				in, deepest = c.rule, d
			}
		}
		if deepest == 0 {
			continue // no deny closes it, or a deny of the same path closes it again
		}
		reads := func(q Open) bool { return q.Read && seatbeltDepth(q.Path) > deepest && hostpath.Within(o.Path, q.Path) }
		if !slices.ContainsFunc(opens, reads) {
			continue
		}
		p := placedOpening{depth: seatbeltDepth(o.Path), opening: opening{by: o.Rule, rule: in}}
		if o.Read {
			p.read = common(o.Path, readable)
		}
		if o.Write {
			p.write = common(o.Path, writable)
		} else {
			p.fixed = o.Path
		}
		out = append(out, p)
	}
	return out, nil
}

// common returns the folders that cover exactly the paths below both p and one
// of the views.
func common(p string, views []string) []string {
	var out []string
	for _, v := range views {
		switch {
		case hostpath.Within(p, v):
			return []string{p}
		case hostpath.Within(v, p):
			out = append(out, v)
		}
	}
	return out
}

func (s step) write(w *writer) {
	denies(w, s.closed)
	w.rule("allow file-read*", each("subpath", s.open.read))
	w.rule("allow file-write*", each("subpath", s.open.write))
	if s.open.fixed != "" {
		w.rule("deny file-write*", each("subpath", []string{s.open.fixed}), w.message())
	}
}

// seatbeltDepth counts the names of an absolute and clean path.
func seatbeltDepth(p string) int { return strings.Count(strings.TrimSuffix(p, "/"), "/") }

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
