package hostscan

import (
	"fmt"
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/policy/path"

	"github.com/bmatcuk/doublestar/v4"
)

// A matcher finds the globs that a path matches. Nearly every name matches
// none, so it tests the last segment first: with a map look-up, then by the
// literal prefix and suffix of each remaining pattern.
type matcher struct {
	globs  []Glob
	exact  map[string][]*compiled // by a last segment without special characters
	loose  []*compiled
	find   map[string]bool
	folded *matcher // the same, ignoring case, for folders that ignore it
	fold   bool
}

// A compiled is one alternative of a glob.
type compiled struct {
	glob           int
	base           string // folder that tail is relative to, "" for any folder
	tail           string // pattern of the rest of the path
	last           string // last segment of tail
	prefix, suffix string // literal parts of last
	single         bool   // tail is only last, at any depth
	spares         bool   // does not match templates
}

// compile makes the matcher for patterns relative to roots.
func compile(globs []Glob, roots, find []string) (*matcher, error) {
	m := &matcher{globs: globs, exact: map[string][]*compiled{}, find: map[string]bool{}}
	m.folded = &matcher{globs: globs, exact: map[string][]*compiled{}, find: map[string]bool{}, fold: true}
	for _, name := range find {
		m.find[name], m.folded.find[path.Fold(name)] = true, true
	}
	for i, g := range globs {
		alternatives, why := path.Parse(g.Pattern)
		if why != "" {
			e := failed(sandbox.CodeValidation, g.Pattern, fmt.Sprintf("the pattern %q %s", g.Pattern, why), "correct or remove it", nil)
			return nil, e
		}
		for _, segments := range alternatives {
			var bases []string
			switch {
			case strings.HasPrefix(g.Pattern, "/"):
				bases = []string{"/"}
			case segments[0] == "**":
				bases = []string{""}
			default:
				bases = roots
			}
			for _, base := range bases {
				if err := m.add(i, base, segments); err != nil {
					return nil, err
				}
			}
		}
	}
	return m, nil
}

// add adds one alternative below base to m and its case-ignoring twin. Leading
// segments without special characters become part of the base, with their links
// resolved, because the matched paths contain no links.
func (m *matcher) add(glob int, base string, segments []string) error {
	last := len(segments) - 1
	n := 0
	if base != "" {
		for n < last && path.Plain(segments[n]) {
			base = strings.TrimSuffix(base, "/") + "/" + path.Unescape(segments[n])
			n++
		}
		canonical, err := hostpath.Canonical(base)
		if err != nil {
			return err
		}
		base = canonical
	}
	tail := strings.Join(segments[n:], "/")
	m.insert(glob, base, tail, segments[last])
	m.folded.insert(glob, path.Fold(base), path.Fold(tail), path.Fold(segments[last]))
	return nil
}

func (m *matcher) insert(glob int, base, tail, last string) {
	c := &compiled{glob: glob, base: base, tail: tail, last: last}
	c.single = base == "" && (tail == "**/"+last || tail == last)
	if path.Plain(last) {
		name := path.Unescape(last)
		m.exact[name] = append(m.exact[name], c)
		return
	}
	c.spares = path.SparesTemplates(last)
	c.prefix = last[:strings.IndexAny(last, `*?[\`)]
	if !strings.ContainsAny(last, `[\`) {
		c.suffix = last[strings.LastIndexAny(last, "*?")+1:]
	}
	m.loose = append(m.loose, c)
}

// matches returns the glob that decides about name in the folder dir, or -1 if
// none matches. The result closes reading if any matching glob does, and does
// not yield if any matching glob does not. A glob that spares templates matches
// the name of a template only for a folder.
func (m *matcher) matches(dir string, name []byte, folder, fold bool) (glob int, read bool) {
	if fold && !m.fold {
		return m.folded.matches(path.Fold(dir), []byte(path.Fold(string(name))), folder, true)
	}
	glob = -1
	take := func(c *compiled) {
		g := m.globs[c.glob]
		if glob < 0 || g.Read && (!read || m.globs[glob].Yields && !g.Yields) {
			glob, read = c.glob, g.Read
		}
	}
	for _, c := range m.exact[string(name)] {
		if c.single || c.covers(dir, string(name)) {
			take(c)
		}
	}
	for _, c := range m.loose {
		if len(name) < len(c.prefix) || string(name[:len(c.prefix)]) != c.prefix ||
			len(name) < len(c.suffix) || string(name[len(name)-len(c.suffix):]) != c.suffix {
			continue
		}
		if c.spares && !folder && path.Spares(c.last, string(name)) {
			continue
		}
		if c.single && doublestar.MatchUnvalidated(c.last, string(name)) || !c.single && c.covers(dir, string(name)) {
			take(c)
		}
	}
	return glob, read
}

// firm returns the glob that closes name in the folder dir for writing only, or
// -1. An open that reopens a name closed for reading does not reopen it for
// writing against that glob.
func (m *matcher) firm(dir, name string, folder, fold bool) int {
	if fold && !m.fold {
		return m.folded.firm(path.Fold(dir), path.Fold(name), folder, true)
	}
	for _, c := range slices.Concat(m.exact[name], m.loose) {
		if !m.globs[c.glob].Read && !(c.spares && !folder && path.Spares(c.last, name)) &&
			(c.single && doublestar.MatchUnvalidated(c.last, name) || !c.single && c.covers(dir, name)) {
			return c.glob
		}
	}
	return -1
}

// finds reports whether name is one of the names to find.
func (m *matcher) finds(name []byte, fold bool) bool {
	if len(m.find) == 0 {
		return false
	}
	if fold {
		return m.folded.find[path.Fold(string(name))]
	}
	return m.find[string(name)]
}

// covers matches the whole path against the pattern.
func (c *compiled) covers(dir, name string) bool {
	path := strings.TrimSuffix(dir, "/") + "/" + name
	rel, ok := strings.CutPrefix(path, strings.TrimSuffix(c.base, "/")+"/")
	return ok && doublestar.MatchUnvalidated(c.tail, rel)
}
