package plan

import (
	"cmp"
	"path"
	"slices"
)

// Make computes the plan of a sandbox from w. It returns an error if w
// contradicts itself, or if a deny closes a path that the sandbox requires.
func Make(w World) (Plan, error) {
	b, err := build(w, known{&w})
	if err != nil {
		return Plan{}, err
	}
	return b.plan, nil
}

// builder holds the intermediate results of [Make].
type builder struct {
	w            World
	host         Host
	closures     map[string]closure   // by host path
	opens        map[string]Open      // likewise
	latent       map[string][]closure // of missing paths; they apply once the path exists
	layers       map[string]layer     // by target
	links        map[string]string    // by target
	placeholders map[string]bool      // mount points to create on the host; true for folders
	ops          map[string]Op        // by target
	shut         []string             // targets in memory that become read-only at the end
	probes       map[Probe]bool
	plan         Plan
}

func build(w World, h Host) (*builder, error) {
	b := &builder{
		w: w, host: h,
		closures: map[string]closure{}, opens: map[string]Open{}, latent: map[string][]closure{}, layers: map[string]layer{}, links: map[string]string{},
		ops: map[string]Op{}, probes: map[Probe]bool{},
	}
	for _, step := range []func() error{b.openings, b.close, b.stack, b.awaken, b.emit} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// emit turns layers and closures into steps and probes.
func (b *builder) emit() error {
	layers := b.sortedLayers()
	for _, l := range layers {
		b.mount(l)
	}
	for target, to := range b.links {
		b.parents(target)
		b.ops[target] = Op{Kind: OpSymlink, Source: to, Target: target}
	}
	// Writable views come first: they create stubs, which other views show too.
	slices.SortStableFunc(layers, func(a, b layer) int {
		switch {
		case a.view.Write == b.view.Write:
			return 0
		case a.view.Write:
			return -1
		}
		return 1
	})
	for _, c := range b.sortedClosures() {
		for _, l := range layers {
			if err := b.closeIn(l, c); err != nil {
				return err
			}
		}
	}
	b.finish()
	mounts := 0
	for _, o := range b.plan.Ops {
		if o.Kind != OpDir && o.Kind != OpSymlink && o.Kind != OpRemountRo {
			mounts++
		}
	}
	if mounts > maxMounts {
		return tooMuch("mounts are needed", mounts, maxMounts)
	}
	return nil
}

// finish orders the result: parents come first, and folders in memory become
// read-only after all mounts.
func (b *builder) finish() {
	byDepth := func(a, b string) int {
		return cmp.Or(cmp.Compare(depth(a), depth(b)), cmp.Compare(a, b))
	}
	p := &b.plan
	for _, o := range b.ops {
		p.Ops = append(p.Ops, o)
	}
	slices.SortFunc(p.Ops, func(a, b Op) int { return byDepth(a.Target, b.Target) })
	slices.SortFunc(b.shut, func(a, b string) int { return byDepth(b, a) })
	for _, target := range append(b.shut, "/") {
		p.Ops = append(p.Ops, Op{Kind: OpRemountRo, Target: target})
	}
	for s, dir := range b.placeholders {
		p.Placeholders = append(p.Placeholders, Placeholder{Path: s, Dir: dir, Socket: !dir && b.closures[s].sock})
	}
	slices.SortFunc(p.Placeholders, func(a, b Placeholder) int { return byDepth(a.Path, b.Path) })
	for probe := range b.probes {
		p.Probes = append(p.Probes, probe)
	}
	slices.SortFunc(p.Probes, func(a, b Probe) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Want, b.Want), cmp.Compare(a.Rule, b.Rule))
	})
	slices.Sort(p.Notes)
	p.Notes = slices.Compact(p.Notes)
	for target, to := range b.links {
		p.links = append(p.links, Symlink{target, to})
	}
	slices.SortFunc(p.links, func(a, b Symlink) int { return cmp.Compare(a.Target, b.Target) })
	p.layers, p.closures, p.opens = b.layers, b.closures, b.opens
}

// parents creates the folders between target and the mount below it, where that
// mount is memory; elsewhere they exist, see mountPoint.
func (b *builder) parents(target string) {
	on, ok := b.top(path.Dir(target))
	from := "/"
	if ok {
		from = on.target
	}
	if ok && on.shows() {
		mask := b.maskOn(on, target)
		if mask == "" {
			return
		}
		from = mask
	}
	for _, dir := range down(from, path.Dir(target)) {
		if _, taken := b.ops[dir]; taken {
			continue
		}
		o := Op{Kind: OpDir, Target: dir, Mode: 0o755}
		if c := b.closures[dir]; c.read && c.kind == Dir && !ok { // a host folder, of which an open is shown
			o.Mode, o.Rule = 0o111, c.rule
			b.probe(dir, Unreadable, c.rule)
		}
		b.ops[dir] = o
	}
}

// masks reports whether c needs a mask in the view l, which shows it. A missing
// path needs none where nothing can be created.
func masks(l layer, c closure) bool { return c.read && (!c.placeholder || l.view.Write) }

// maskOn returns the closed folder of the view l above target, or "".
func (b *builder) maskOn(l layer, target string) string {
	for _, p := range down(l.target, path.Dir(target)) {
		if masks(l, b.closures[l.host(p)]) {
			return p
		}
	}
	return ""
}
