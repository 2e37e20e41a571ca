package command

import (
	"fmt"
	"strings"

	"github.com/bulkhead-dev/sandbox/policy"
)

// A check looks at one line and reports what it sees.
type check struct {
	name string
	run  func(*subject)
}

// checks are all checks, in the order of the document.
func checks() []check {
	return []check{
		{"heredoc", checkHeredoc},
		{"metacharacter", checkMetacharacter},
		{"variable", checkVariable},
		{"pattern", checkPattern},
		{"removal", checkRemoval},
		{"sensitive-file", checkSensitiveFile},
		{"interpreter", checkInterpreter},
		{"unknown", checkUnknown},
	}
}

// A subject is one line under judgement.
type subject struct {
	*line
	*Policy
	in    Input
	calls []call
	found findings

	expanded int // words that checkVariable has read once more
}

func (s *subject) report(f finding) { s.found.add(f) }

// Judge decides about one line. It never panics and its memory is bounded,
// whatever the text; a text that cannot be read is denied.
func (p *Policy) Judge(in Input) (d Decision) {
	defer func() {
		if r := recover(); r != nil {
			d = refusal(policy.Reason{
				Check: "syntax", Verdict: policy.Deny, Severity: policy.Critical,
				Message: "the line could not be judged", Hint: "write it in simpler commands",
				Span: policy.Span{End: len(in.Text)},
			})
		}
	}()
	l, refused := parseLine(in.Text, lineStart{Dir: in.Dir, Home: p.home})
	if refused != nil {
		return refusal(relabel(*refused, in.Text))
	}
	return p.judge(l, in)
}

// relabel makes what the parser refuses a finding of a check where one says
// more about it: the delimiter of a here-document with an expansion in it.
func relabel(r policy.Reason, text string) policy.Reason {
	r.Verdict = policy.Deny
	if at := r.Span.Start; at <= len(text) && strings.HasSuffix(strings.TrimRight(text[:at], " \t-"), "<<") && strings.ContainsAny(r.Span.Of(text), "$`") {
		return variableDelimiter(r.Span, r.Span.Of(text)).reason(policy.Deny)
	}
	return r
}

// refusal is the decision about a text that no check looks at.
func refusal(r policy.Reason) Decision {
	return Decision{
		Verdict: policy.Deny, Reasons: []policy.Reason{r}, Warnings: []policy.Reason{}, Commands: []Simple{},
		ExcludedReason: "the line is denied: " + r.Message,
	}
}

// judge decides about a line that was understood.
func (p *Policy) judge(l *line, in Input) Decision {
	if n := size(l); n > maxParts {
		return refusal(policy.Reason{
			Check: "syntax", Verdict: policy.Deny, Severity: policy.High, Rule: "too-many-parts", Span: policy.Span{End: len(l.Text)},
			Message: fmt.Sprintf("the line has %d words, assignments and redirections, more than %d", n, maxParts), Hint: "write it in several lines, or put the words into a file",
		})
	}
	s := &subject{line: l, Policy: p, in: in, found: findings{strictness: p.strictness, verdict: policy.Allow}}
	s.calls = make([]call, len(l.Commands))
	for i := range l.Commands {
		s.calls[i] = p.tables.call(&l.Commands[i])
		s.calls[i].whole = l.Text
	}
	s.blockRules()
	for _, c := range checks() {
		c.run(s)
	}
	d := Decision{Commands: simples(l), Warnings: s.warnings()}
	named, by := s.allowRules(d.Commands)
	lifted := by != nil && !s.found.never && s.found.verdict != policy.Deny
	if p.strictness == Strict && !lifted {
		s.unnamed(named)
	}
	d.Excluded, d.ExcludedReason = s.excludedBy(d.Commands)
	d.ExcludedReason = clip(d.ExcludedReason, maxMessage)
	d.Verdict, d.Reasons = s.found.verdict, s.found.reasons(lifted)
	if lifted {
		d.Verdict = policy.Allow
		d.Reasons = append(d.Reasons, by.reason(l.Text))
	}
	return d
}

// maxParts bounds the words, assignments and redirections of a line that the
// checks look at one by one.
const maxParts = 100_000

func size(l *line) int {
	n := len(l.Assigns) + len(l.Redirects)
	for i := range l.Commands {
		n += len(l.Commands[i].Words)
	}
	return n
}

// simples tells the commands of a line.
func simples(l *line) []Simple {
	out := make([]Simple, 0, len(l.Commands))
	for i := range l.Commands {
		c := &l.Commands[i]
		s := Simple{
			Words: make([]string, len(c.Words)), Text: normal(c.Words), Span: c.Span,
			Wrappers: append([]string{}, c.Wrappers...), Via: via(c.Via),
		}
		for j, w := range c.Words {
			s.Words[j] = word(w)
		}
		out = append(out, s)
	}
	return out
}

func via(kinds []lineKind) string {
	if len(kinds) == 0 {
		return ""
	}
	var b strings.Builder
	for i, k := range kinds {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(k))
	}
	return b.String()
}

// checkUnknown reports the places where the text does not determine what would
// run, unless a check has already reported a finding there that cannot be
// allowed.
func checkUnknown(s *subject) {
	for _, u := range s.Unknowns {
		if s.found.covers(u.Span) {
			continue
		}
		s.report(finding{
			check: "unknown", rule: "unknown", severity: policy.High, mark: unknown,
			message: fmt.Sprintf("it is not known what runs here: %s: %s", u.Why, quote(u.Span.Of(s.Text))),
			hint:    "write the command out, so that the line tells what it runs",
			span:    u.Span,
		})
	}
}
