package path

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// An anchor says where a rule's first name stands.
type anchor int

const (
	atRoot   anchor = iota // below /
	atHome                 // below Options.Home
	atHomes                // below any home
	anywhere               // in any folder
)

// A rule is one alternative of a path rule: names and patterns of names, of
// which "**" stands for any number of folders. It covers what it names and
// everything below.
type rule struct {
	name   string // for people, the list that it stands in included
	anchor anchor
	segs   []segment // none: everything below the anchor
	entry  *Entry    // for rules of the table
	reads  bool      // for rules of the settings: closes reading too
	firm   bool      // for denies: no allow opens anything inside
	but    []segment // last names that the rule does not concern
}

// A segment is a pattern of one name.
type segment struct {
	text           string
	plain          bool // text is a name
	any            bool // "**"
	prefix, suffix string
	tokens         []token // of a pattern, for JudgeGlob
	spares         bool    // it does not cover templates: see pattern.Spares
}

// newSegment compiles one segment of a pattern.
func newSegment(text string, fold bool) segment {
	if fold {
		text = foldName(text, true)
	}
	if text == "**" {
		return segment{text: text, any: true}
	}
	if Plain(text) {
		return segment{text: Unescape(text), plain: true}
	}
	s := segment{text: text, prefix: text[:strings.IndexAny(text, `*?[\`)], tokens: tokens(text), spares: SparesTemplates(text)}
	if !strings.ContainsAny(text, `[\`) {
		s.suffix = text[strings.LastIndexAny(text, "*?")+1:]
	}
	return s
}

func (s *segment) matches(name string) bool {
	if s.plain {
		return s.text == name
	}
	if len(name) < len(s.prefix)+len(s.suffix) || name[:len(s.prefix)] != s.prefix || name[len(name)-len(s.suffix):] != s.suffix {
		return false
	}
	return doublestar.MatchUnvalidated(s.text, name)
}

// match holds names against the rule's segments from the start. It returns how
// many names are the match, and whether there is one; what is left lies below.
func match(segs []segment, names []string) (n int, ok bool) {
	i, star, back := 0, -1, 0 // star: place of the last "**"; back: where it ends for now
	for {
		switch {
		case i == len(segs):
			return n, true
		case segs[i].any:
			star, back = i, n
			i++
		case n < len(names) && segs[i].matches(names[n]):
			i, n = i+1, n+1
		case star >= 0 && back < len(names):
			back++
			i, n = star+1, back
		default:
			return 0, false
		}
	}
}

// excepts reports whether the last of names is one that the rule does not
// concern.
func (r *rule) excepts(names []string) bool {
	for i := range r.but {
		if len(names) > 0 && r.but[i].matches(names[len(names)-1]) {
			return true
		}
	}
	return false
}

// spares reports whether the whole of names is the match and its last name that
// of a template, which the rule does not cover.
func (r *rule) spares(names []string) bool {
	last := len(r.segs) - 1
	return last >= 0 && r.segs[last].spares && Spares(r.segs[last].text, names[len(names)-1])
}

// An index finds the rules that cover a path. Most names begin no rule, which
// one look tells.
type index struct {
	all     []*rule // with no segments: they cover everything below the anchor
	plain   map[string][]*rule
	byFirst map[byte][]*rule // first segment is a pattern: by the character that it starts with
	byLast  map[byte][]*rule // of the others, by the one that it ends with
	loose   []*rule          // the rest
	length  int
}

func (x *index) add(r *rule) {
	x.length++
	switch {
	case len(r.segs) == 0:
		x.all = append(x.all, r)
	case r.segs[0].plain:
		put(&x.plain, r.segs[0].text, r)
	case r.segs[0].prefix != "":
		put(&x.byFirst, r.segs[0].prefix[0], r)
	case r.segs[0].suffix != "":
		put(&x.byLast, r.segs[0].suffix[len(r.segs[0].suffix)-1], r)
	default:
		x.loose = append(x.loose, r)
	}
}

func put[K comparable](m *map[K][]*rule, key K, r *rule) {
	if *m == nil {
		*m = map[K][]*rule{}
	}
	(*m)[key] = append((*m)[key], r)
}

// starting returns the lists of rules that may begin with name.
func (x *index) starting(name string) [4][]*rule {
	return [4][]*rule{x.plain[name], x.byFirst[name[0]], x.byLast[name[len(name)-1]], x.loose}
}

// each calls f for every rule that covers names, with the number of names
// that are its match, until f returns false.
func (x *index) each(names []string, homes *homes, f func(r *rule, n int) bool) {
	if x.length == 0 {
		return
	}
	for _, r := range x.all {
		switch {
		case r.anchor == atRoot:
			if !f(r, 0) {
				return
			}
		case homes.n > 0 && (r.anchor == atHomes || homes.own > 0):
			if !f(r, homes.least(r.anchor)) {
				return
			}
		}
	}
	for i, name := range names {
		for _, list := range x.starting(name) {
			for _, r := range list {
				if !homes.stands(r.anchor, i) {
					continue
				}
				n, ok := match(r.segs, names[i:])
				if ok && i+n == len(names) && r.spares(names) {
					continue
				}
				if ok && !f(r, i+n) {
					return
				}
			}
		}
	}
}

// first returns a rule that covers names, or nil.
func (x *index) first(names []string, homes *homes) (found *rule) {
	if x.length == 0 {
		return nil
	}
	x.each(names, homes, func(r *rule, _ int) bool {
		found = r
		return false
	})
	return found
}

// homes are the places in a path where a home ends: how many names it has.
type homes struct {
	own  int // of Options.Home; 0 for none
	ends [4]int
	n    int
}

// homesOf finds the homes that the path lies in: those of the options, and
// what is a home by its place.
func (p *Policy) homesOf(names []string, h *homes) {
	add := func(n int) {
		h.ends[h.n] = n
		h.n++
	}
	if liesIn(names, p.home) {
		h.own = len(p.home)
		add(h.own)
	}
	if liesIn(names, p.hostHome) {
		add(len(p.hostHome))
	}
	if len(names) == 0 {
		return
	}
	switch names[0] {
	case "root":
		add(1)
	case "home", "Users", "users":
		if len(names) > 1 {
			add(2)
		}
	case "var":
		if len(names) > 1 && names[1] == "root" {
			add(2)
		}
	}
}

// liesIn reports whether names are home or below it; a home of no names is
// none. Homes differ in their last names, so those are looked at first.
func liesIn(names, home []string) bool {
	n := len(home)
	if n == 0 || len(names) < n {
		return false
	}
	for i := n - 1; i >= 0; i-- {
		if names[i] != home[i] {
			return false
		}
	}
	return true
}

// stands reports whether a rule of the anchor may begin at names[i].
func (h *homes) stands(a anchor, i int) bool {
	switch a {
	case anywhere:
		return true
	case atRoot:
		return i == 0
	case atHome:
		return h.own > 0 && i == h.own
	}
	for _, end := range h.ends[:h.n] {
		if end == i {
			return true
		}
	}
	return false
}

// least is where the shallowest home of the anchor ends.
func (h *homes) least(a anchor) int {
	if a == atHome {
		return h.own
	}
	n := h.ends[0]
	for _, end := range h.ends[1:h.n] {
		n = min(n, end)
	}
	return n
}

// rules calls f for each rule of x.
func (x *index) rules(f func(*rule)) {
	call(x.all, f)
	for _, list := range x.plain {
		call(list, f)
	}
	for _, m := range []map[byte][]*rule{x.byFirst, x.byLast} {
		for _, list := range m {
			call(list, f)
		}
	}
	call(x.loose, f)
}

func call(list []*rule, f func(*rule)) {
	for _, r := range list {
		f(r)
	}
}
