package path

import (
	"slices"
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
)

// maxNames bounds the names of a shell's glob; real paths have fewer.
const maxNames = 128

// JudgeGlob judges what a shell may put in place of a glob: the strictest of
// what files of such names would get. The pattern is absolute, its ~ replaced,
// its braces expanded, and what was quoted in it escaped by backslashes. It
// is read as by bash without dotglob, where * does not match a leading dot;
// "**", classes of characters and extended globs count for more than they
// match rather than less. A glob that merely has room for a file that is
// sensitive in any folder ("*" for credentials.json) does not name it.
func (p *Policy) JudgeGlob(op sandbox.Operation, pattern string) Decision {
	p.builtin.Do(p.complete)
	switch {
	case !strings.HasPrefix(pattern, "/"):
		return unclear(pattern, "is not an absolute path")
	case len(pattern) > maxPath || strings.IndexByte(pattern, 0) >= 0:
		return unclear(pattern, "is no pattern of a path")
	}
	names := parseShell(pattern, p.fold)
	if len(names) > maxNames {
		return unclear(pattern, "has too many names in it")
	}
	literal, rest := literalStart(names)
	at, why := canonical(literal, p.fold)
	if why != "" {
		return unclear(pattern, why)
	}
	if len(rest) == 0 {
		return p.judge(op, at)
	}
	if at.descriptor {
		return unclear(pattern, "leads through an open descriptor, which may be anywhere")
	}
	walked, fixed := walk(at.segs, rest)
	d := p.judgeRoots(op, place{text: pattern, segs: append(fixed, "*")}, p.homesAt(fixed))
	opened := p.opened(op, fixed, p.homesAt(fixed))
	for _, way := range ways(walked) {
		if throughProc(way) {
			return unclear(pattern, "may lead through /proc to anywhere")
		}
		d = worse(d, p.judgeWay(op, pattern, way, p.own(fixed), opened))
		opened = 0 // the other ways begin with other names
	}
	return d
}

func (p *Policy) homesAt(names []string) *homes {
	var h homes
	p.homesOf(names, &h)
	return &h
}

// literalStart splits names into the path that has no patterns, and the rest.
func literalStart(names []shellName) (literal string, rest []shellName) {
	n := 0
	var b strings.Builder
	for n < len(names) && names[n].plain {
		b.WriteByte('/')
		b.WriteString(names[n].text)
		n++
	}
	if n == 0 {
		b.WriteByte('/')
	}
	return b.String(), names[n:]
}

// walk appends rest to the names of a folder. Fixed are the leading names that
// are no patterns. What goes up from a pattern, or may do so, may lead
// anywhere, as the folder may be a link.
func walk(start []string, rest []shellName) (names []shellName, fixed []string) {
	for _, s := range start {
		names = append(names, literalName(s))
	}
	fixed = start[:len(start):len(start)]
	for i, n := range rest {
		switch {
		case n.plain && n.text == ".":
		case n.plain && n.text == "..", !n.plain && !n.deep && i < len(rest)-1 && n.mayBe(".."):
			names, fixed = []shellName{{deep: true}}, nil
		default:
			names = append(names, n)
		}
	}
	return names, fixed
}

// ways returns the paths that names may stand for once folders that go by two
// names have one.
func ways(names []shellName) [][]shellName {
	list := [][]shellName{names}
	if len(names) < 2 {
		return list
	}
	for _, a := range [][2]string{{"var", "run"}, {"private", "etc"}, {"private", "tmp"}, {"private", "var"}} {
		if names[0].mayBe(a[0]) && names[1].mayBe(a[1]) {
			list = append(list, append([]shellName{literalName(a[1])}, names[2:]...))
		}
	}
	return list
}

// throughProc reports whether names may lead through a link of a process.
func throughProc(names []shellName) bool {
	if len(names) < 3 || !names[0].mayBe("proc") {
		return false
	}
	for i, n := range names[2:] {
		for _, link := range []string{"root", "cwd", "fd", "map_files"} {
			if n.mayBe(link) && (n.plain || i+3 < len(names)) {
				return true
			}
		}
		if !n.mayBe("task") && i == 0 {
			return false
		}
	}
	return false
}

// judgeWay holds one way against denies and table. An allow of the first opened
// names opens them inside denies.
func (p *Policy) judgeWay(op sandbox.Operation, pattern string, names []shellName, own bool, opened int) Decision {
	worst := Decision{Verdict: policy.Allow}
	weigh := func(r *rule, match fit) {
		if match != apart {
			worst = worse(worst, p.globDecision(op, pattern, r, match))
		}
	}
	concerns := func(r *rule) bool {
		if r.entry == nil {
			return op != sandbox.OpRead || r.reads
		}
		return !own && r.entry.severity(op) > worst.Severity
	}
	for i := range names {
		p.anywhere(names[i:], func(r *rule) {
			if concerns(r) && !r.yields(i, opened) {
				weigh(r, coverSparing(r.segs, names[i:]))
			}
		})
	}
	for _, a := range []anchor{atRoot, atHome, atHomes} {
		for _, prefix := range p.anchors[a] {
			if !mayStart(prefix, names) {
				continue
			}
			for _, r := range p.closing[a] {
				if n := len(prefix); concerns(r) && !r.yields(n, opened) && (len(names) <= n || mayStart(r.segs, names[n:]) || deepStart(names[:n+1])) {
					weigh(r, coverSparing(slices.Concat(prefix, r.segs), names))
				}
			}
		}
	}
	return worst
}

// mayStart reports whether names may begin with what segs begin with. It looks
// at a few names only, and is there to leave out what cannot match.
func mayStart(segs []segment, names []shellName) bool {
	for i := range segs {
		switch {
		case i >= len(names):
			return false
		case segs[i].any || names[i].deep:
			return true
		case fits(&segs[i], &names[i]) == apart:
			return false
		}
	}
	return true
}

func deepStart(names []shellName) bool {
	return slices.ContainsFunc(names, func(n shellName) bool { return n.deep })
}

// globDecision says what r makes of a pattern that may name what it covers. A
// pattern with mere room for it is asked about, not denied.
func (p *Policy) globDecision(op sandbox.Operation, pattern string, r *rule, match fit) Decision {
	var d Decision
	if match == roomFor && r.entry != nil && r.entry.severity(op) < policy.High {
		return Decision{Verdict: policy.Allow}
	}
	if r.entry != nil {
		d = p.sensitiveDecision(op, r, pattern)
	} else {
		d = denied(op, place{text: pattern}, r)
	}
	d.Message = verb(op) + " " + strconv.Quote(pattern) + ", which may mean " + shown(r)
	if d.Verdict != policy.Allow {
		d.Hint = "name the files that are meant one by one"
	}
	if match == roomFor && d.Verdict == policy.Deny {
		d.Verdict, d.Severity = p.unlessAsked(), policy.High
	}
	return d
}

// anywhere calls f for the rules for any folder that names may begin. Such a
// rule has to be named by its first name, as every pattern has room for it.
func (p *Policy) anywhere(names []shellName, f func(*rule)) {
	switch n := &names[0]; {
	case n.deep:
	case n.plain:
		for _, list := range p.floating.starting(n.text) {
			call(list, f)
		}
	default:
		for _, r := range p.closing[anywhere] {
			if fits(&r.segs[0], n) == named {
				f(r)
			}
		}
	}
}

// coverSparing is [cover] for names that may all be templates, which segs then
// do not cover unless they cover the folder already.
func coverSparing(segs []segment, names []shellName) fit {
	match := cover(segs, names)
	if match == apart || !segs[len(segs)-1].spares || !names[len(names)-1].template(&segs[len(segs)-1]) {
		return match
	}
	return cover(segs, names[:len(names)-1])
}

// cover reports how well names from their start fit segs; what is left of
// them lies below. The fit of all is that of the worst name among them.
func cover(segs []segment, names []shellName) fit {
	if len(segs) == 1 && len(names) > 0 && !segs[0].any && !names[0].deep {
		return fits(&segs[0], &names[0])
	}
	// row[j]: the best fit of segs[:i] with names[:j] exactly.
	row := make([]fit, len(names)+1)
	row[0] = named
	for j := 1; j <= len(names) && names[j-1].deep; j++ {
		row[j] = named
	}
	for i := range segs {
		next := make([]fit, len(names)+1)
		for j := range next {
			if segs[i].any {
				next[j] = row[j]
				if j > 0 {
					next[j] = max(next[j], next[j-1])
				}
				continue
			}
			if j == 0 {
				continue
			}
			n := &names[j-1]
			if n.deep {
				next[j] = max(next[j-1], min(row[j], roomFor), min(row[j-1], roomFor))
				continue
			}
			next[j] = min(row[j-1], fits(&segs[i], n))
		}
		row = next
	}
	best := apart
	for _, f := range row {
		best = max(best, f)
	}
	return best
}
