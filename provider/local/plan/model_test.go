package plan

import (
	"fmt"
	"path"
	"strings"
)

// A tree is a host in memory: the kind of each path, and the targets of links.
// It implements [Host] for the tests.
type tree struct {
	kinds map[string]Kind
	links map[string]Target
}

func (h tree) Kind(p string) (Kind, error) { return h.kinds[p], nil }

func (h tree) Link(p string) (Target, error) { return h.links[p], nil }

func (h tree) Names(dir string) (names []string, err error) {
	for p, k := range h.kinds {
		if p != "/" && path.Dir(p) == dir && k != Missing {
			names = append(names, path.Base(p))
		}
	}
	return names, nil
}

// A mounted is one mount of the model: of memory, of a host path, or of a mask
// that no user can open.
type mounted struct {
	source  string // on the host, or "" for memory
	file    bool
	ro      bool
	mode    uint32
	mask    bool
	closed  map[string]bool     // folders in memory that cannot be listed
	entries map[string]Kind     // of memory, by path below it
	on      map[string]*mounted // mounts on it, by path below it
}

// A model applies the steps of a plan as the kernel does.
type model struct {
	host tree
	root *mounted
}

func memory(mode uint32) *mounted {
	return &mounted{mode: mode, closed: map[string]bool{}, entries: map[string]Kind{"": Dir}, on: map[string]*mounted{}}
}

// place returns the mount that contains p and p's path below the mount. Like a
// lookup, it takes the topmost mount at each name.
func (m *model) place(p string) (*mounted, string) {
	cur, rel := m.root, ""
	for _, name := range strings.Split(strings.Trim(p, "/"), "/") {
		if name == "" {
			continue
		}
		rel = strings.TrimPrefix(rel+"/"+name, "/")
		for cur.on[rel] != nil {
			cur, rel = cur.on[rel], ""
		}
	}
	return cur, rel
}

// kind returns the kind of rel in the mount.
func (m *model) kind(in *mounted, rel string) Kind {
	switch {
	case in.source == "":
		return in.entries[rel]
	case rel == "" && in.file:
		return File
	}
	return m.host.kinds[path.Join(in.source, rel)]
}

// run applies one step. It returns an error if bwrap would create a path on the
// host.
func (m *model) run(o Op) error {
	in, rel := m.place(o.Target)
	if o.Kind == OpRemountRo {
		if rel != "" {
			return fmt.Errorf("%s is no mount point", o.Target)
		}
		in.ro = true
		return nil
	}
	kind := Dir
	if o.Kind == OpMaskFile || o.File {
		kind = File
	}
	parent, prel := m.place(path.Dir(o.Target))
	if m.kind(parent, prel) != Dir {
		return fmt.Errorf("%s has no folder to be in", o.Target)
	}
	if o.Kind == OpDir || o.Kind == OpSymlink {
		if m.kind(in, rel) != Missing || in.source != "" || in.ro {
			return fmt.Errorf("%s cannot be made", o.Target)
		}
		in.entries[rel], in.closed[rel] = Dir, o.Mode == 0o111
		if o.Kind == OpSymlink {
			in.entries[rel] = Link
		}
		return nil
	}
	switch have := m.kind(in, rel); {
	case have == Missing && in.source == "" && !in.ro:
		in.entries[rel] = kind
	case have == kind, kind == File && (have == Socket || have == Other):
	default:
		return fmt.Errorf("%s has no mount point: there is %v, want %v", o.Target, have, kind)
	}
	n, err := m.mount(o)
	if err != nil {
		return err
	}
	if rel == "" {
		// A mount on the root of another mount hides that mount and everything
		// on it.
		*in = *n
		return nil
	}
	in.on[rel] = n
	return nil
}

func (m *model) mount(o Op) (*mounted, error) {
	n := memory(o.Mode)
	switch o.Kind {
	case OpBind, OpRoBind:
		have := m.host.kinds[o.Source]
		if have != Dir && have != File || o.File != (have == File) {
			return nil, fmt.Errorf("%s: the source %s is %v", o.Target, o.Source, have)
		}
		n.source, n.file, n.ro = o.Source, o.File, o.Kind == OpRoBind
	case OpMaskFile:
		n.mask, n.ro, n.file = true, true, true
		n.entries[""] = File
	case OpMaskDir:
		n.mask, n.ro = true, !o.Open
	case OpDev:
		n.entries["shm"] = Dir
	case OpTmpfs, OpProc:
	default:
		return nil, fmt.Errorf("%s is not known", o.Kind)
	}
	return n, nil
}

// A sight is the result of looking up a path inside.
type sight struct {
	path     string // inside
	host     string // the host path that it shows, or ""
	kind     Kind
	writable bool // the mount is writable
	mask     bool
	point    bool // the path is a mount point
}

// walk visits everything inside, links not followed.
func (m *model) walk(visit func(sight)) { m.visit("/", m.root, "", true, visit) }

func (m *model) visit(at string, in *mounted, rel string, point bool, visit func(sight)) {
	s := sight{path: at, kind: m.kind(in, rel), writable: !in.ro, mask: in.mask, point: point}
	if in.source != "" {
		s.host = path.Join(in.source, rel)
	}
	visit(s)
	if s.kind != Dir {
		return
	}
	names := map[string]bool{}
	if in.source != "" {
		list, _ := m.host.Names(s.host)
		for _, n := range list {
			names[n] = true
		}
	}
	for e := range in.entries {
		if e != "" && path.Dir("/"+e) == "/"+rel {
			names[path.Base(e)] = true
		}
	}
	for n := range names {
		next, below, isPoint := in, strings.TrimPrefix(rel+"/"+n, "/"), false
		for next.on[below] != nil {
			next, below, isPoint = next.on[below], "", true
		}
		m.visit(path.Join(at, n), next, below, isPoint, visit)
	}
}

// simulate applies the stubs and the steps of p to the host.
func simulate(p Plan, h tree) (*model, error) {
	m := &model{host: tree{copied(h.kinds), h.links}, root: memory(0o755)}
	for _, s := range p.Placeholders {
		if m.host.kinds[s.Path] != Missing || m.host.kinds[path.Dir(s.Path)] != Dir {
			return nil, fmt.Errorf("the stub %s is there or has no folder", s.Path)
		}
		m.host.kinds[s.Path] = File
		if s.Dir {
			m.host.kinds[s.Path] = Dir
		}
	}
	for _, o := range p.Ops {
		if err := m.run(o); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Kind, err)
		}
	}
	return m, nil
}
