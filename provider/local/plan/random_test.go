package plan

import (
	"math/rand/v2"
	"path"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// pick returns a random element of list.
func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// randomTree returns a small host with files of every kind, and its paths.
func randomTree(r *rand.Rand) (h tree, paths []string) {
	h = tree{map[string]Kind{"/": Dir}, map[string]Target{}}
	var grow func(dir string, deep int)
	grow = func(dir string, deep int) {
		for _, name := range []string{"a", "b", "c"} {
			p := path.Join(dir, name)
			kind := pick(r, []Kind{Missing, Dir, Dir, Dir, File, File, Link, Socket, Other})
			if deep == 0 {
				kind = pick(r, []Kind{Dir, Dir, Dir, Link})
			}
			if kind == Dir && deep > 3 {
				kind = File
			}
			paths = append(paths, p)
			if kind == Missing {
				continue
			}
			h.kinds[p] = kind
			if kind == Dir {
				grow(p, deep+1)
			}
		}
	}
	grow("/", 0)
	for _, p := range paths {
		if h.kinds[p] == Link {
			to := pick(r, paths)
			for h.realKind(to) == Link {
				to = path.Dir(to)
			}
			h.links[p] = Target{Text: to, Real: to}
		}
	}
	return h, paths
}

// realKind returns the kind of p, and Link if the path to p passes through a
// link.
func (h tree) realKind(p string) Kind {
	for q := range up(p) {
		if h.kinds[q] == Link {
			return Link
		}
	}
	return h.kinds[p]
}

// randomWorld returns a world on h as a caller would provide it: sources and
// denies are canonical.
func randomWorld(r *rand.Rand, h tree, paths []string) World {
	w := World{ShmSize: 4096}
	canonical := func() string {
		for range 20 {
			if p := pick(r, paths); h.realKind(path.Dir(p)) != Link {
				return p
			}
		}
		return "/a"
	}
	targets := append([]string{"/w", "/w/a", "/w/a/b", "/w/x/y", "/x", "/a/q", "/b/q/r", "/tmp", "/tmp/a"}, paths...)
	for range 1 + r.IntN(4) {
		v := View{Source: canonical(), Write: r.IntN(2) == 0, Optional: r.IntN(5) > 0, Why: "view"}
		for h.kinds[v.Source] == Link || h.kinds[v.Source] == Socket || h.kinds[v.Source] == Other {
			v.Source = path.Dir(v.Source)
		}
		v.Target = pick(r, []string{v.Source, pick(r, targets)})
		w.Views = append(w.Views, v)
	}
	if r.IntN(4) == 0 {
		w.Views = append(w.Views, View{Source: "/", Target: "/", Optional: true, Why: "all", Write: r.IntN(3) == 0})
	}
	for range r.IntN(3) {
		w.Tmpfs = append(w.Tmpfs, sandbox.Tmpfs{Target: pick(r, targets), Size: 4096, Mode: 0o1777})
	}
	for range r.IntN(5) {
		w.Denies = append(w.Denies, Deny{
			Path: canonical(), Read: r.IntN(2) == 0, Keep: r.IntN(2) == 0, Dir: r.IntN(2) == 0, Link: r.IntN(3) == 0, Yields: r.IntN(3) > 0,
			Rule: pick(r, []string{"r1", "r2", "r3"}),
		})
	}
	for range r.IntN(6) {
		w.Opens = append(w.Opens, Open{Path: pick(r, paths), Read: r.IntN(3) > 0, Write: r.IntN(2) == 0, Rule: pick(r, []string{"o1", "o2"})})
	}
	return w
}
