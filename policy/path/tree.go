package path

import (
	"strconv"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
)

// JudgeTree is [Policy.Judge] for an operation on the folder name and all that
// lies below it: a removal, a copy, a search. It finds what rules and table
// name at a place; what they name in any folder ("**/.env") may or may not be
// there, and does not count. Entries of the table count from high on.
func (p *Policy) JudgeTree(op sandbox.Operation, name string) Decision {
	p.builtin.Do(p.complete)
	at, why := canonical(name, p.fold)
	if why != "" {
		return unclear(name, why)
	}
	d := p.judge(op, at)
	if d.Verdict == policy.Deny {
		return d
	}
	for _, a := range []anchor{atRoot, atHome, atHomes} {
		for _, prefix := range p.anchors[a] {
			for _, r := range p.closing[a] {
				if !within(prefix, r.segs, at.segs) || r.entry != nil && p.own(at.segs) {
					continue
				}
				if d = worse(d, p.holds(op, at, r)); d.Verdict == policy.Deny {
					return d
				}
			}
		}
	}
	return d
}

// holds says what r makes of op on a tree in which it covers something.
func (p *Policy) holds(op sandbox.Operation, at place, r *rule) Decision {
	d := Decision{Verdict: policy.Allow}
	switch {
	case r.entry == nil && op == sandbox.OpRead && !r.reads:
		return d
	case r.entry == nil:
		d = denied(op, at, r)
	case r.entry.severity(op) < policy.High:
		return d
	default:
		d = p.sensitiveDecision(op, r, at.text)
	}
	d.Message = verb(op) + " " + strconv.Quote(at.text) + ", in which " + shown(r) + " lies"
	d.Hint = "name the files that are meant one by one"
	return d
}

func shown(r *rule) string {
	if r.entry != nil {
		return r.entry.Pattern
	}
	return "what " + settingOf(r.name) + " closes"
}

// anchorsOf returns where rules of each anchor but anywhere may begin. A home
// that only its place shows is a pattern.
func anchorsOf(home, hostHome []string) (a [anywhere + 1][][]segment) {
	one := newSegment("*", false)
	a[atRoot] = [][]segment{nil}
	a[atHomes] = [][]segment{
		plainSegments([]string{"root"}), append(plainSegments([]string{"home"}), one), append(plainSegments([]string{"Users"}), one),
	}
	if len(home) > 0 {
		a[atHome] = [][]segment{plainSegments(home)}
		a[atHomes] = append(a[atHomes], plainSegments(home))
	}
	if len(hostHome) > 0 {
		a[atHomes] = append(a[atHomes], plainSegments(hostHome))
	}
	return a
}

// within reports whether a match of segs below prefix may lie strictly below
// names.
func within(prefix, segs []segment, names []string) bool {
	for i, name := range names {
		s := segs
		at := i - len(prefix)
		if at < 0 {
			s, at = prefix, i
		}
		switch {
		case i >= len(prefix)+len(segs)-1:
			return false
		case s[at].any:
			return true
		case !s[at].matches(name):
			return false
		}
	}
	return len(prefix)+len(segs) > len(names)
}
