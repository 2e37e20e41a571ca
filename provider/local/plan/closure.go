package plan

import (
	"cmp"
	"path"
	"slices"
)

// A closure is what the denies of one host path come to.
type closure struct {
	path string
	kind Kind
	read bool
	stub bool // missing, and kept so
	dir  bool // the stub is a folder
	sock bool // the stub is a socket
	rule string
	// frozen is a folder in which no name may be made, renamed or removed,
	// because a link lies there that must stay; it closes nothing else.
	frozen string   // the rule
	names  []string // that can be written to in it all the same
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

// awaken closes the missing paths that a stub makes be there, whether a rule
// keeps them or a mount needs them.
func (b *builder) awaken() error {
	for p, latent := range b.latent {
		_, needed := b.stubs[p]
		if !needed && !b.closures[p].stub {
			continue
		}
		for _, c := range latent {
			b.add(c)
		}
	}
	return nil
}

// deny adds the closure of d, at the links-th link on the way.
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
			b.add(closure{path: p, kind: kind, read: d.Read, rule: d.Rule})
		case kind == Link:
			return changed(p, d.Rule, "a folder above a denied path has become a link")
		case kind != Dir:
			// Nothing is below it, and nothing can be while it is there.
			b.keepFile(p, kind, d)
			return nil
		}
	}
	return nil
}

// keepMissing closes p, the first missing part of d's path.
func (b *builder) keepMissing(p string, d Deny) {
	leaf := p == d.Path
	if d.Keep {
		b.add(closure{path: p, read: d.Read && leaf, stub: true, dir: d.Dir || !leaf, sock: d.Socket && leaf, rule: d.Rule})
	}
	if !d.Keep || !leaf {
		b.latent[d.Path] = append(b.latent[d.Path], closure{path: d.Path, read: d.Read, stub: true, dir: d.Dir, sock: d.Socket, rule: d.Rule})
	}
}

// keepFile closes what stands where a folder on the way to d would have to be:
// while it can be neither removed nor renamed, no such folder can be made.
func (b *builder) keepFile(p string, kind Kind, d Deny) {
	if d.Keep {
		b.add(closure{path: p, kind: kind, rule: d.Rule})
	}
}

// denyLink closes what the link at d.Path leads to and, with Keep, the link.
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

// add joins c with what there is at its path. The result does not depend on
// the order: reading counts more than writing, then the lesser name.
func (b *builder) add(c closure) {
	old, ok := b.closures[c.path]
	if !ok {
		b.closures[c.path] = c
		return
	}
	if !old.closes() || c.closes() && (c.read && !old.read || c.read == old.read && c.rule < old.rule) {
		old, c = c, old
	}
	// The stronger is old now.
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

// over returns what closes the host path p itself or a folder above it:
// first what closes it for reading, then what closes it for writing.
func over(closures map[string]closure, p string) (c closure, ok bool) {
	for q := range up(p) {
		switch d := closures[q]; {
		case !d.closes():
		case d.read:
			return d, true
		default:
			c, ok = d, true
		}
	}
	return c, ok
}
