package command

import "strings"

// A glob is a pattern in which * stands for any bytes and everything else for
// itself, cut at its stars once, when a table is made.
type glob struct {
	first string   // before the first star
	rest  []string // behind each star; none when there is no star
}

func newGlob(pattern string) glob {
	first, rest, starred := strings.Cut(pattern, "*")
	if !starred {
		return glob{first: first}
	}
	return glob{first: first, rest: strings.Split(rest, "*")}
}

// matches reports whether g matches the whole of s. It takes at most
// len(pattern)*len(s) steps, whatever the pattern.
func (g *glob) matches(s string) bool {
	n := len(g.rest)
	if n == 0 {
		return g.first == s
	}
	last := g.rest[n-1]
	if !strings.HasPrefix(s, g.first) || len(s) < len(g.first)+len(last) || !strings.HasSuffix(s, last) {
		return false
	}
	s = s[len(g.first) : len(s)-len(last)]
	for _, p := range g.rest[:n-1] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return true
}

// globs are several of them; one that matches is enough.
type globs []glob

func newGlobs(patterns string) globs {
	var out globs
	for p := range strings.FieldsSeq(patterns) {
		out = append(out, newGlob(p))
	}
	return out
}

func (gs globs) match(s string) bool {
	for i := range gs {
		if gs[i].matches(s) {
			return true
		}
	}
	return false
}

// A nameSet is a set of names, some of them with a star.
type nameSet struct {
	exact  map[string]bool
	starry globs
}

func newNameSet(names string) nameSet {
	s := nameSet{exact: map[string]bool{}}
	for n := range strings.FieldsSeq(names) {
		if strings.Contains(n, "*") {
			s.starry = append(s.starry, newGlob(n))
		} else {
			s.exact[n] = true
		}
	}
	return s
}

func (s *nameSet) has(name string) bool { return s.exact[name] || s.starry.match(name) }
