package plan

import (
	"path"
)

// mount adds the steps of one layer.
func (b *builder) mount(l layer) {
	if l.target == "/" {
		return // the root exists
	}
	b.parents(l.target)
	on, onto := b.below(l)
	if onto && on.shows() && on.view.Write && b.maskOn(on, l.target) == "" {
		b.pin(on, l.target, l.view.Why)
	}
	o := Op{Target: l.target, Rule: l.view.Why}
	switch {
	case l.target == "/proc":
		o.Kind = OpProc
		for _, p := range b.w.Tell {
			b.ops[p] = b.mask(p, File, "protection: what the kernel tells of the host")
		}
	case l.target == "/dev":
		o.Kind = OpDev
		b.shut = append(b.shut, l.target)
	case l.target == "/dev/shm":
		o.Kind, o.Size, o.Mode = OpTmpfs, b.w.ShmSize, 0o1777
		if o.Size <= 0 {
			o.Size = defaultShm
		}
		b.probe(l.target, Writable, "/dev/shm")
	case l.kind == layerTmpfs:
		o.Kind, o.Size, o.Mode = OpTmpfs, l.tmpfs.Size, l.tmpfs.Mode
		if l.covers() {
			b.shut = append(b.shut, l.target)
			b.probe(l.target, Unwritable, ruleCover)
		} else {
			b.probe(l.target, Writable, "docker.tmpfs")
		}
	case l.kind == layerFolder && (!onto || on.kind == layerFolder):
		o.Kind, o.Mode = OpDir, 0o755
	case l.kind == layerFolder:
		o.Kind, o.Mode = OpTmpfs, 0o755
		b.shut = append(b.shut, l.target)
	case l.closed.closes():
		o = b.mask(l.target, l.source, l.closed.rule)
	default:
		o.Kind, o.Source, o.File = OpRoBind, l.view.Source, l.source != Dir
		if l.view.Write {
			o.Kind = OpBind
			b.probe(l.target, Writable, l.view.Why)
		}
		if l.sealed.closes() {
			b.probe(l.target, Unwritable, l.sealed.rule)
		}
	}
	b.ops[l.target] = o
}

// pin mounts every writable folder between the view l and target onto itself,
// so that none can be renamed.
func (b *builder) pin(l layer, target, rule string) {
	for _, p := range down(l.target, path.Dir(target)) {
		h := l.host(p)
		if c := b.closures[h]; c.closes() {
			return // read-only from here
		}
		if _, ok := b.ops[p]; ok {
			continue
		}
		b.ops[p] = Op{Kind: OpBind, Source: h, Target: p, Rule: rule}
		b.probe(p, Pinned, rule)
	}
}

// closeIn closes c in the view l, if l shows it.
func (b *builder) closeIn(l layer, c closure) error {
	if !l.shows() || !under(c.path, l.view.Source) {
		return nil
	}
	target := l.inside(c.path)
	if top, _ := b.top(target); top.target != l.target {
		return nil // another mount is here
	}
	if c.frozen != "" && l.view.Write {
		if err := b.freeze(l, c, target); err != nil {
			return err
		}
	}
	if !c.closes() || c.path == l.view.Source {
		return nil
	}
	if above, ok := over(b.closures, b.opens, path.Dir(c.path)); ok && (above.read || !c.read) {
		return nil // closed as part of a closed folder
	}
	_, made := b.placeholders[c.path]
	switch {
	case !l.view.Write && c.placeholder && !(c.read && made):
		return nil // the path is missing and cannot be created
	case !l.view.Write && !c.read:
		b.probe(target, Unwritable, c.rule)
		return nil
	}
	if l.view.Write {
		b.pin(l, target, c.rule)
	}
	kind := c.kind
	if c.placeholder {
		kind = File
		if c.dir || b.placeholders[c.path] {
			kind = Dir
		}
		b.placeholders[c.path] = kind == Dir
	}
	if c.read || kind != Dir && kind != File {
		b.ops[target] = b.mask(target, kind, c.rule)
		return nil
	}
	b.ops[target] = Op{Kind: OpRoBind, Source: c.path, Target: target, File: kind != Dir, Rule: c.rule}
	b.probe(target, Unwritable, c.rule)
	return nil
}

// mask hides the content at target. A masked folder with mounts in it can be
// traversed, but not listed.
func (b *builder) mask(target string, kind Kind, rule string) Op {
	b.probe(target, Unreadable, rule)
	b.probe(target, Unwritable, rule)
	if kind != Dir {
		return Op{Kind: OpMaskFile, Target: target, Rule: rule}
	}
	o := Op{Kind: OpMaskDir, Target: target, Rule: rule}
	if b.leads(target) {
		o.Mode, o.Open = 0o111, true
		b.shut = append(b.shut, target)
	}
	return o
}

// freeze removes the right to create, rename and remove names in the folder
// that l shows at target.
func (b *builder) freeze(l layer, c closure, target string) error {
	if _, closed := over(b.closures, b.opens, c.path); closed {
		return nil
	}
	names, err := b.host.Names(c.path)
	if err != nil {
		return err
	}
	if len(names) > maxMounts {
		return tooMuch("names have to stay as they are in "+c.path, len(names), maxMounts)
	}
	b.pin(l, target, c.frozen)
	b.ops[target] = Op{Kind: OpRoBind, Source: c.path, Target: target, Rule: c.frozen}
	delete(b.probes, Probe{target, Writable, l.view.Why})
	b.probe(target, Unwritable, c.frozen)
	b.plan.Notes = append(b.plan.Notes, "no name can be made, renamed or removed in "+target+
		", because a link lies there that has to stay as it is ("+c.frozen+")")
	for _, name := range names {
		kind, err := b.host.Kind(path.Join(c.path, name))
		if err != nil {
			return err
		}
		if kind == Dir || kind == File {
			c.names = append(c.names, name)
			b.thaw(l, c, name, kind)
		}
	}
	for s, dir := range b.placeholders {
		if path.Dir(s) == c.path && dir {
			c.names = append(c.names, path.Base(s))
			b.thaw(l, c, path.Base(s), Dir)
		}
	}
	b.closures[c.path] = c
	return nil
}

// thaw keeps name in the frozen folder c as writable as it was.
func (b *builder) thaw(l layer, c closure, name string, kind Kind) {
	q := path.Join(c.path, name)
	at := l.inside(q)
	if top, _ := b.top(at); top.target != l.target || b.closures[q].closes() {
		return
	}
	if _, ok := b.ops[at]; !ok {
		b.ops[at] = Op{Kind: OpBind, Source: q, Target: at, File: kind == File, Rule: l.view.Why}
		b.probe(at, Pinned, c.frozen)
	}
}

func (b *builder) probe(path string, want Want, rule string) {
	b.probes[Probe{path, want, rule}] = true
}
