package plan

import (
	"path"
)

// openUp gives every layer its mount point: it exists on the host, the host
// gets it as a stub, or the view below is shown name by name.
func (b *builder) openUp() error {
	if root, ok := b.layers["/"]; ok {
		if root.source != Dir || root.closed.closes() {
			return invalid("/", root.closed.rule, "the root can only be a folder that no rule closes", "")
		}
		if err := b.open(root); err != nil {
			return err
		}
	}
	for range maxOpened {
		again, err := b.openOnce()
		if err != nil || !again {
			return err
		}
	}
	return tooMuch("folders have to be shown name by name", maxOpened+1, maxOpened)
}

// openOnce checks every layer and opens the first view that lacks a mount point
// for one.
func (b *builder) openOnce() (again bool, err error) {
	b.placeholders = map[string]bool{}
	for _, l := range b.sortedLayers() {
		on, ok := b.below(l)
		if !ok || on.kind != layerView {
			continue
		}
		if on.source != Dir {
			return false, invalid(l.target, l.view.Why, "the target lies below a file: "+on.target, "choose another target")
		}
		if on.closed.closes() {
			continue // its mask has the mount point
		}
		fits, err := b.mountPoint(l, on)
		if err != nil {
			return false, err
		}
		if !fits {
			return true, b.open(on)
		}
	}
	return false, nil
}

// mountPoint reports whether the view on has, or gets, the mount point of l.
func (b *builder) mountPoint(l, on layer) (fits bool, err error) {
	want := on.host(l.target)
	for _, q := range down(on.view.Source, want) {
		if c := b.closures[q]; q != want && masks(on, c) {
			if c.kind == Dir || c.placeholder && c.dir {
				return true, nil // the mask has the mount point
			}
			return false, invalid(l.target, c.rule, "the target lies below a closed file", "choose another target")
		}
		kind, err := b.host.Kind(q)
		if err != nil {
			return false, err
		}
		folder := q != want || l.isDir()
		switch {
		case folder && kind == Dir, !folder && kind == File:
		case !on.view.Write:
			return false, nil
		case kind != Missing:
			return false, invalid(l.target, l.view.Why, "the target is taken by something of another kind", "choose another target")
		default:
			b.placeholders[q] = folder
		}
	}
	return true, nil
}

// open replaces the view l by a folder in memory with one view for each name.
func (b *builder) open(l layer) error {
	b.layers[l.target] = layer{target: l.target, kind: layerFolder, view: View{Source: l.view.Source, Why: l.view.Why}}
	names, err := b.host.Names(l.view.Source)
	if err != nil {
		return err
	}
	if len(names) > maxMounts {
		return tooMuch("names have to be shown one by one in "+l.view.Source, len(names), maxMounts)
	}
	for _, name := range names {
		target := path.Join(l.target, name)
		if b.taken(target) || b.reserved(target) {
			continue
		}
		if err := b.openName(l, path.Join(l.view.Source, name), target); err != nil {
			return err
		}
	}
	return nil
}

// taken reports whether another layer has this target.
func (b *builder) taken(target string) bool {
	if _, ok := b.links[target]; ok {
		return true
	}
	_, ok := b.layers[target]
	return ok
}

func (b *builder) openName(l layer, source, target string) error {
	kind, err := b.host.Kind(source)
	if err != nil {
		return err
	}
	switch kind {
	case Link:
		if !b.leads(target) {
			t, err := b.host.Link(source)
			if err != nil {
				return err
			}
			b.links[target] = t.Text
		}
	case File:
		if b.leads(target) {
			return nil
		}
		fallthrough
	case Dir:
		v := View{Source: source, Target: target, Write: l.view.Write, Optional: true, Why: l.view.Why}
		child, ok, err := b.viewed(v)
		if err != nil || !ok {
			return err
		}
		b.layers[target] = child
	}
	return nil // sockets and devices are not shown
}

// leads reports whether a layer lies below target.
func (b *builder) leads(target string) bool {
	for t := range b.layers {
		if t != target && under(t, target) {
			return true
		}
	}
	return false
}
