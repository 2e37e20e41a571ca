package plan

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// A layer is one view, tmpfs or other mount over the empty root, at its target.
type layer struct {
	target string
	kind   layerKind
	view   View // of a view: Write is true only while no deny takes it
	source Kind // kind of a view's source
	tmpfs  sandbox.Tmpfs
	closed closure // of a view: the deny that hides all of it
	sealed closure // of a view: the deny that takes its Write
}

type layerKind uint8

const (
	layerView layerKind = iota
	layerTmpfs
	layerFolder // a folder in memory that shows another folder name by name
	layerOwn    // /proc, /dev, /dev/shm
)

// host returns the host path that the view l shows at the inside path p.
func (l layer) host(p string) string { return moved(p, l.target, l.view.Source) }

// inside returns where the view l shows the host path p.
func (l layer) inside(p string) string { return moved(p, l.view.Source, l.target) }

// shows reports whether l is a view that is not closed.
func (l layer) shows() bool { return l.kind == layerView && !l.closed.closes() }

// isDir reports whether l's mount point is a folder.
func (l layer) isDir() bool { return l.kind != layerView || l.source == Dir }

// stack collects the layers of the world by target, because the longest target
// wins.
func (b *builder) stack() error {
	for _, own := range []string{"/proc", "/dev", "/dev/shm"} {
		b.layers[own] = layer{target: own, kind: layerOwn}
	}
	for _, t := range b.w.Tmpfs {
		if !clean(t.Target) || t.Target == "/" || t.Size <= 0 {
			return invalid(t.Target, "", "a tmpfs needs an absolute target below the root, and a size", "")
		}
		if b.reserved(t.Target) {
			return invalid(t.Target, "", "the folder belongs to the system", "choose another target")
		}
		b.layers[t.Target] = layer{target: t.Target, kind: layerTmpfs, tmpfs: t}
	}
	for _, v := range b.w.Views {
		if err := b.show(v); err != nil {
			return err
		}
	}
	for _, s := range b.w.Symlinks {
		if !clean(s.Target) || s.To == "" {
			return invalid(s.Target, "", "a link needs an absolute name and a text", "")
		}
		b.links[s.Target] = s.To
	}
	if err := b.reopen(); err != nil {
		return err
	}
	if err := b.openUp(); err != nil {
		return err
	}
	return b.checkLinks()
}

func (b *builder) reserved(p string) bool { return under(p, "/proc") || under(p, "/dev") }

// show adds the view v as requested.
func (b *builder) show(v View) error {
	switch {
	case !clean(v.Source) || !clean(v.Target):
		return invalid(v.Target, v.Why, fmt.Sprintf("source %q and target have to be absolute and clean", v.Source), "")
	case b.reserved(v.Target):
		return invalid(v.Target, v.Why, "the folder belongs to the system", "choose another target")
	}
	l, ok, err := b.viewed(v)
	if err != nil || !ok {
		return err
	}
	b.layers[v.Target] = l
	return nil
}

// covers reports whether l is memory without write permission for any user: its
// only purpose is to cover content of the host.
func (l layer) covers() bool { return l.kind == layerTmpfs && l.tmpfs.Mode&0o222 == 0 }

// viewed makes the layer of v, with the effect of the denies on its source. It
// returns false if v is optional and its source is missing.
func (b *builder) viewed(v View) (l layer, ok bool, err error) {
	l = layer{target: v.Target, kind: layerView, view: v}
	if l.source, err = b.host.Kind(v.Source); err != nil {
		return l, false, err
	}
	switch {
	case l.source == Dir || l.source == File:
	case l.source == Socket && v.Socket && !v.Write:
	case l.source == Missing:
		if v.Optional {
			return l, false, nil
		}
		return l, false, invalid(v.Source, v.Why, "there is no such folder or file", "make it, or take it out of the settings")
	case l.source == Link:
		return l, false, changed(v.Source, v.Why, "what is to be shown has become a link")
	default:
		return l, false, invalid(v.Source, v.Why, "a socket or device cannot be shown",
			"take it out of the settings; filesystem.allowUnixSockets is for sockets")
	}
	c, denied := over(b.closures, b.opens, v.Source)
	switch {
	case !denied, !c.read && !v.Write:
		return l, true, nil
	case !v.Optional:
		return l, false, invalid(v.Source, c.rule, "the rule closes what the sandbox cannot do without: "+v.Why,
			"narrow the rule so that it names neither this path nor a folder above it")
	case c.read:
		l.closed = c
	default:
		l.sealed = c
	}
	l.view.Write = false
	return l, true, nil
}

// top returns the layer that decides about the inside path p, and false where
// only the empty root is.
func (b *builder) top(p string) (layer, bool) { return topOf(b.layers, p) }

func topOf(layers map[string]layer, p string) (layer, bool) {
	for q := range up(p) {
		if l, ok := layers[q]; ok {
			return l, true
		}
	}
	return layer{}, false
}

// below returns the layer that l is mounted on.
func (b *builder) below(l layer) (layer, bool) {
	if l.target == "/" {
		return layer{}, false
	}
	return b.top(path.Dir(l.target))
}

// sortedLayers returns the layers, parents before what is mounted on them.
func (b *builder) sortedLayers() []layer {
	list := make([]layer, 0, len(b.layers))
	for _, l := range b.layers {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b layer) int {
		return cmp.Or(cmp.Compare(depth(a.target), depth(b.target)), cmp.Compare(a.target, b.target))
	})
	return list
}

// checkLinks refuses links that would lie in the content of a view, and mounts
// whose path passes through a link.
func (b *builder) checkLinks() error {
	for target := range b.links {
		if l, ok := b.top(target); ok && l.kind != layerFolder {
			return invalid(target, "", "a link is to be made where something else is shown: "+l.target, "")
		}
	}
	for target := range b.layers {
		for q := range up(target) {
			if _, ok := b.links[q]; ok {
				return invalid(target, b.layers[target].view.Why, "the way to the target leads through the link "+q,
					"name the target without links")
			}
		}
	}
	return nil
}
