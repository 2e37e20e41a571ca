package plan

import (
	"cmp"
	"maps"
	"path"
	"slices"
)

// A closure is the combined effect of all denies of one host path.
type closure struct {
	path        string
	kind        Kind
	read        bool
	placeholder bool // the path is missing and must stay so
	dir         bool // the stub is a folder
	sock        bool // the stub is a socket
	rule        string
	// yields marks a closure for reading inside which opens apply; opens also
	// allow writing unless firm names a rule that closes writing.
	yields bool
	firm   string
	// frozen names the rule by which no name in this folder may be created,
	// renamed or removed, because the folder holds a link that must stay. It
	// closes nothing else.
	frozen string   // the rule
	names  []string // names in the folder that stay writable
}

func (c closure) closes() bool { return c.rule != "" }

// close computes the closures of all denies.
func (b *builder) close() error {
	if len(b.w.Denies) > maxDenies {
		return tooMuch("paths are denied", len(b.w.Denies), maxDenies)
	}
	for _, d := range b.w.Denies {
		if err := b.deny(d, 0); err != nil {
			return err
		}
	}
	return nil
}

// awaken applies the closures of missing paths that a stub will create, whether
// a rule or a mount needs the stub.
func (b *builder) awaken() error {
	for p, latent := range b.latent {
		_, needed := b.placeholders[p]
		if !needed && !b.closures[p].placeholder {
			continue
		}
		for _, c := range latent {
			b.add(c)
		}
	}
	return nil
}

// deny adds the closure of d, after following links links.
func (b *builder) deny(d Deny, links int) error {
	if !clean(d.Path) || d.Rule == "" {
		return invalid(d.Path, d.Rule, "a denied path has to be absolute and clean, and its rule named", "")
	}
	if d.Path == "/" {
		return invalid("/", d.Rule, "the rule closes every path there is", "name the folders that are to be closed")
	}
	for _, p := range down("/", d.Path) {
		kind, err := b.host.Kind(p)
		if err != nil {
			return err
		}
		switch {
		case kind == Missing:
			b.keepMissing(p, d)
			return nil
		case p == d.Path && kind == Link:
			return b.denyLink(d, links)
		case p == d.Path:
			b.add(closure{path: p, kind: kind, read: d.Read, rule: d.Rule, yields: d.Yields && d.Read, firm: d.firm()})
		case kind == Link:
			return changed(p, d.Rule, "a folder above a denied path has become a link")
		case kind != Dir:
			// No path exists below this file, and none can while the file
			// exists.
			b.keepFile(p, kind, d)
			return nil
		}
	}
	return nil
}

// firm returns the rule of a write-only deny; no open applies to such a deny.
func (d Deny) firm() string {
	if d.Read {
		return ""
	}
	return d.Rule
}

// keepMissing closes p, the first missing part of d's path.
func (b *builder) keepMissing(p string, d Deny) {
	leaf := p == d.Path
	if d.Keep {
		b.add(closure{path: p, read: d.Read && leaf, placeholder: true, dir: d.Dir || !leaf, sock: d.Socket && leaf, rule: d.Rule})
	}
	if !d.Keep || !leaf {
		b.latent[d.Path] = append(b.latent[d.Path], closure{path: d.Path, read: d.Read, placeholder: true, dir: d.Dir, sock: d.Socket, rule: d.Rule})
	}
}

// keepFile closes a file at the place of a folder on the path to d: while the
// file can be neither removed nor renamed, no such folder can be created.
func (b *builder) keepFile(p string, kind Kind, d Deny) {
	if d.Keep {
		b.add(closure{path: p, kind: kind, rule: d.Rule})
	}
}

// denyLink closes the target of the link at d.Path and, with Keep, the link.
func (b *builder) denyLink(d Deny, links int) error {
	t, err := b.host.Link(d.Path)
	if err != nil {
		return err
	}
	if links++; links > maxLinks || t.Real == d.Path {
		return changed(d.Path, d.Rule, "a denied path leads through too many links")
	}
	if d.Keep {
		b.add(closure{path: path.Dir(d.Path), kind: Dir, frozen: d.Rule})
	}
	if d.Link {
		return nil
	}
	d.Path = t.Real
	return b.deny(d, links)
}

// add merges c with the closure of the same path. The result does not depend on
// the order: a closure for reading wins over one for writing, then the smaller
// rule name wins.
func (b *builder) add(c closure) {
	old, ok := b.closures[c.path]
	if !ok {
		b.closures[c.path] = c
		return
	}
	if !old.closes() || c.closes() && (c.read && !old.read || c.read == old.read && c.rule < old.rule) {
		old, c = c, old
	}
	// From here on, old is the stronger of the two.
	old.yields = old.yields && (c.yields || !c.read)
	if old.firm == "" || c.firm != "" && c.firm < old.firm {
		old.firm = c.firm
	}
	old.dir = old.dir || c.dir
	old.sock = old.sock && c.sock
	if old.frozen == "" || c.frozen != "" && c.frozen < old.frozen {
		old.frozen = c.frozen
	}
	b.closures[c.path] = old
}

// sortedClosures returns the closures, parents before what is below them.
func (b *builder) sortedClosures() []closure {
	list := make([]closure, 0, len(b.closures))
	for _, c := range b.closures {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b closure) int {
		return cmp.Or(cmp.Compare(depth(a.path), depth(b.path)), cmp.Compare(a.path, b.path))
	})
	return list
}

// over returns the closure of the host path p or of a folder above it: a
// closure for reading first, then one for writing. Opens below a yielding
// closure lift its effect on p, for reading or for both.
func over(closures map[string]closure, opens map[string]Open, p string) (c closure, ok bool) {
	var o opened
	for q := range up(p) {
		switch d := closures[q]; {
		case !d.closes():
		case d.read && !(d.yields && o.read):
			return d, true
		case d.read && d.firm != "":
			d.read, d.rule = false, d.firm
			c, ok = d, true
		case d.read && o.write:
		case d.read:
			d.read = false
			c, ok = d, true
		default:
			c, ok = d, true
		}
		o.by(opens[q])
	}
	return c, ok
}

// opened is the effect of opens on a path, collected on the way up from it.
type opened struct{ read, write, fixed bool }

// by applies an open, if there is one. A read-only open makes what lies below
// it read-only, unless a deeper open says otherwise.
func (o *opened) by(q Open) {
	o.write = o.write || q.Write && !o.fixed
	o.fixed = o.fixed || q.Read && !o.write
	o.read = o.read || q.Read
}

// openings finds the opens that take effect: those whose path exists and passes
// through no link.
func (b *builder) openings() error {
	for _, o := range b.w.Opens {
		if !clean(o.Path) || o.Rule == "" {
			return invalid(o.Path, o.Rule, "a path that is opened has to be absolute and clean, and its rule named", "")
		}
		way := down("/", o.Path)
		for i, p := range way {
			kind, err := b.host.Kind(p)
			if err != nil {
				return err
			}
			if kind == Link {
				b.plan.Notes = append(b.plan.Notes, p+" is a link, so nothing is open there by "+o.Rule)
			}
			if kind != Dir && !(kind == File && i == len(way)-1) {
				break
			}
			if i == len(way)-1 {
				old := b.opens[o.Path]
				if old.Rule != "" && old.Rule < o.Rule {
					o.Rule = old.Rule
				}
				o.Read, o.Write = o.Read || old.Read, o.Write || old.Write
				b.opens[o.Path] = o
			}
		}
	}
	return nil
}

// reopen shows each open again in every view in which a closure hides it.
func (b *builder) reopen() error {
	views := b.sortedLayers()
	base := maps.Clone(b.layers)
	for _, p := range slices.SortedFunc(maps.Keys(b.opens), func(x, y string) int {
		return cmp.Or(cmp.Compare(depth(x), depth(y)), cmp.Compare(x, y))
	}) {
		for _, l := range views {
			if !l.shows() || p == l.view.Source || !under(p, l.view.Source) {
				continue
			}
			target := l.inside(p)
			if top, _ := topOf(base, target); top.target != l.target || !b.hidden(l.view.Source, path.Dir(p)) {
				continue // another mount is here, or no closure hides the path
			}
			v := View{Source: p, Target: target, Write: l.view.Write, Optional: true, Why: b.opens[p].Rule}
			again, ok, err := b.viewed(v)
			if err != nil {
				return err
			}
			if ok && !again.closed.closes() {
				b.layers[target] = again
			}
		}
	}
	return nil
}

// hidden reports whether a closure for reading lies at the host path p or
// between source and p.
func (b *builder) hidden(source, p string) bool {
	return slices.ContainsFunc(down(source, p), func(q string) bool { return b.closures[q].read })
}
