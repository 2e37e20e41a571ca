package command

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox/policy"
)

// A mark is what a finding means beyond its severity.
type mark int

const (
	plain   mark = iota
	never        // no rule allows it and it never runs outside the sandbox; asked about unless strictness is permissive
	unknown      // as never, and asked about at every strictness: the text does not determine what runs
	deny         // denied at every strictness
)

// A finding is one thing that a check saw.
type finding struct {
	check    string
	rule     string // the row of the check's table
	severity policy.Severity
	mark     mark
	message  string // what is wrong with which part
	hint     string // what to do instead
	span     policy.Span
}

// Bounds of a decision's reasons.
const (
	maxReasons  = 32  // reported one by one
	maxFindings = 64  // kept while judging; stricter ones push out milder ones
	maxQuoted   = 80  // bytes of the text quoted in one message
	maxMessage  = 400 // bytes of a message or the name of a rule
)

// findings collects what the checks see. However much that is, memory stays
// bounded and the strictest verdict is right.
type findings struct {
	strictness Strictness
	kept       []judged
	more       int  // findings that were not kept
	never      bool // one is marked never, unknown or deny
	verdict    policy.Verdict
}

type judged struct {
	finding
	verdict policy.Verdict
}

// add takes one finding in.
func (fs *findings) add(f finding) {
	v := fs.strictness.judge(f)
	f.message, f.rule = clip(f.message, maxMessage), clip(f.rule, maxMessage)
	fs.verdict = policy.Strictest(fs.verdict, v)
	fs.never = fs.never || f.mark != plain
	if v == policy.Allow && f.severity == policy.Low {
		return // not asked for, and the verdict does not depend on it
	}
	same := func(k judged) bool { return k.span == f.span && k.rule == f.rule && k.check == f.check }
	if i := slices.IndexFunc(fs.kept, same); i >= 0 {
		if old := fs.kept[i]; grade(old.verdict) < grade(v) || old.verdict == v && old.severity < f.severity {
			fs.kept[i] = judged{f, v}
		}
		return
	}
	if len(fs.kept) < maxFindings {
		fs.kept = append(fs.kept, judged{f, v})
		return
	}
	fs.more++
	if i := slices.IndexFunc(fs.kept, func(k judged) bool { return grade(k.verdict) < grade(v) }); i >= 0 {
		fs.kept[i] = judged{f, v}
	}
}

// first returns the first finding of one row of a check, in the order in which
// they were reported.
func (fs *findings) first(check, rule string) (finding, bool) {
	i := slices.IndexFunc(fs.kept, func(k judged) bool { return k.check == check && k.rule == rule })
	if i < 0 {
		return finding{}, false
	}
	return fs.kept[i].finding, true
}

// covers reports whether the span holds a finding that cannot be allowed.
func (fs *findings) covers(span policy.Span) bool {
	return slices.ContainsFunc(fs.kept, func(k judged) bool {
		return k.mark >= unknown && k.span.Start <= span.Start && k.span.End >= span.End
	})
}

// grade orders verdicts from mild to strict.
func grade(v policy.Verdict) int {
	switch v {
	case policy.Allow:
		return 0
	case policy.Ask:
		return 1
	}
	return 2
}

// reasons returns the findings, strictest first, then in the order of the
// text, and at most maxReasons of them. With lifted, it reports what would
// have been asked about as allowed.
func (fs *findings) reasons(lifted bool) []policy.Reason {
	slices.SortStableFunc(fs.kept, func(a, b judged) int {
		return cmp.Or(
			cmp.Compare(grade(b.verdict), grade(a.verdict)),
			cmp.Compare(a.span.Start, b.span.Start),
			cmp.Compare(b.severity, a.severity),
		)
	})
	out := make([]policy.Reason, 0, min(len(fs.kept), maxReasons)+1)
	for i, k := range fs.kept {
		if i == maxReasons {
			n := len(fs.kept) - i + fs.more
			out = append(out, policy.Reason{
				Check: k.check, Verdict: k.verdict, Severity: policy.Low,
				Message: fmt.Sprintf("and %d more", n), Hint: "settle the reasons above first",
			})
			break
		}
		if lifted {
			k.verdict = policy.Allow
		}
		out = append(out, k.reason(k.verdict))
	}
	return out
}

// reason tells a finding with what it asks for.
func (f finding) reason(v policy.Verdict) policy.Reason {
	return policy.Reason{
		Check: f.check, Verdict: v, Severity: f.severity,
		Message: f.message, Hint: f.hint, Rule: f.rule, Span: f.span,
	}
}

// quote cuts a part of the text to a length that fits into a message; clip cuts
// to any length. Both cut at the boundary of a character.
func quote(s string) string { return clip(s, maxQuoted) }

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := n
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
