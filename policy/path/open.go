package path

import (
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// opens returns a function that adds to x the rules of one list that name a path.
// A pattern opens nothing inside a deny: no mount can follow what comes to match
// it.
func opens(x *index, list string) func(*rule) {
	return func(r *rule) {
		if strings.HasPrefix(r.name, list) && r.anchor != anywhere && !strings.ContainsAny(r.text(), "*?[{") {
			x.add(r)
		}
	}
}

// text is the rule as the settings have it.
func (r *rule) text() string {
	_, text, _ := strings.Cut(r.name, "]: ")
	return text
}

// closedBy returns the deny that closes names for op, or nil. Of a deny of
// reading and the allows inside it, whichever names the longer part of the path
// decides, the deny where they are equal.
func (p *Policy) closedBy(op sandbox.Operation, names []string, homes *homes) *rule {
	if op != sandbox.OpRead {
		if r := p.denyWrite.first(names, homes); r != nil {
			return r
		}
	}
	opened := p.opened(op, names, homes)
	var by *rule
	p.denyRead.each(names, homes, func(r *rule, n int) bool {
		if r.firm || n >= opened || r.deepest(names, n, homes) >= opened {
			by = r
		}
		return by == nil
	})
	return by
}

// opened returns how many names the allow has that opens names for op inside
// denies of reading, the longest one if there are several, and 0 if none does.
// Writing takes an allow to read and an allow to write that names as long a part
// of the path or a longer one.
func (p *Policy) opened(op sandbox.Operation, names []string, homes *homes) int {
	n := p.openRead.longest(names, homes)
	if op != sandbox.OpRead && p.openWrite.longest(names, homes) < n {
		return 0
	}
	return n
}

// longest returns how many names the longest match of a rule has that covers
// names, and 0 for no rule.
func (x *index) longest(names []string, homes *homes) (longest int) {
	x.each(names, homes, func(_ *rule, n int) bool {
		longest = max(longest, n)
		return true
	})
	return longest
}

// deepest returns how many of names the longest match of r has, where n is that
// of the shortest. A pattern with "**" has several: each of them closes.
func (r *rule) deepest(names []string, n int, homes *homes) int {
	if !r.deep() {
		return n
	}
	for i := range names {
		if homes.stands(r.anchor, i) {
			n = max(n, i+r.longestFrom(names[i:]))
		}
	}
	return n
}

// deep reports whether r has "**" after its start, so that the length of its
// matches differs.
func (r *rule) deep() bool {
	return slices.ContainsFunc(r.segs, func(s segment) bool { return s.any })
}

// longestFrom returns how many names the longest match of r has that begins with
// names, and 0 for none.
func (r *rule) longestFrom(names []string) int {
	// row[j]: the segments so far match names[:j] exactly.
	row := make([]bool, len(names)+1)
	row[0] = true
	for i := range r.segs {
		s, next := &r.segs[i], make([]bool, len(names)+1)
		for j := range next {
			if s.any {
				next[j] = row[j] || j > 0 && next[j-1]
			} else {
				next[j] = j > 0 && row[j-1] && s.matches(names[j-1])
			}
		}
		row = next
	}
	for j := len(names); j > 0; j-- {
		if row[j] && !(j == len(names) && r.spares(names)) {
			return j
		}
	}
	return 0
}

// yields reports whether r, a deny, leaves open what an allow of opened names
// opens, where r begins at the start-th name of a path. It is about patterns of
// a shell, of which no more is known than the names that they begin with.
func (r *rule) yields(start, opened int) bool {
	return r.entry == nil && !r.firm && !r.deep() && start+len(r.segs) < opened
}
