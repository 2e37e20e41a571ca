package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox/policy"
)

// A construct is one entry of the table of the metacharacter check.
type construct struct {
	kind     lineKind
	severity policy.Severity
	mark     mark
	message  string
	hint     string
}

// constructs lists what the shell does beyond starting one program. Each
// command in a construct is judged on its own; the entry says what the
// construct itself is worth.
func constructs() []construct {
	const apart = "run the commands one by one"
	return []construct{
		{lineSequence, policy.Low, plain, "several commands in one line", apart},
		{lineAnd, policy.Low, plain, "a command that depends on another, &&", apart},
		{lineOr, policy.Low, plain, "a command that depends on another, ||", apart},
		{linePipe, policy.Low, plain, "a pipe", apart},
		{lineSubshell, policy.Low, plain, "a subshell", apart},
		{lineBlock, policy.Low, plain, "a block", apart},
		{lineConditional, policy.Low, plain, "a condition", apart},
		{lineLoop, policy.Low, plain, "a loop", apart},
		{lineRedirection, policy.Low, plain, "a redirection", "let the program write its file itself"},
		{lineExpansion, policy.Low, plain, "a variable", "write the value out"},
		{lineArithmetic, policy.Low, plain, "arithmetic", "write the value out"},
		{hereString, policy.Low, plain, "a here-string", "give the text in a file"},
		{lineHeredoc, policy.Low, plain, "a here-document that is expanded", "quote its delimiter"},
		{braceExpansion, policy.Low, plain, "braces that become several words", "write the words out"},
		{lineBackground, policy.Medium, never, "a command in the background", "run it in the foreground"},
		{lineSubstitution, policy.Medium, never, "a command substitution", "run the inner command first and use what it printed"},
		{processSubst, policy.Medium, never, "a process substitution", "write to a file first"},
		{lineFunction, policy.Medium, never, "a function, which may change what a name means", "write its commands where they are needed"},
		{nestedEval, policy.Medium, never, "text that is run as a command", "write the command itself"},
		{lineCoprocess, policy.High, never, "a coprocess", "use a pipe"},
	}
}

// A sign is one entry of the table of the signs that are denied under strict and
// warned about under restricted and normal.
type sign struct {
	text string // as in line.Operator
	kind lineKind
	does string
	hint string
}

// signs is the list of metacharacters of the policy guide (document 004).
func signs() []sign {
	const apart = "run the commands one by one"
	return []sign{
		{";", lineSequence, "chains commands", apart},
		{"&&", lineAnd, "runs a command on a condition", apart},
		{"||", lineOr, "runs a command on a condition", apart},
		{"|", linePipe, "pipes one command into another", apart},
		{"`", lineSubstitution, "puts in what a command prints", "run the inner command first and use what it printed"},
		{"$(", lineSubstitution, "puts in what a command prints", "run the inner command first and use what it printed"},
		{"${", lineExpansion, "puts in the value of a variable", "write the value out"},
		{">(", processSubst, "puts in a file that a command reads", "write to a file first"},
		{"<(", processSubst, "puts in a file that a command writes", "write to a file first"},
	}
}

// signsOf calls f for each sign that the shell acts upon in the line, with what
// it does in words.
func (s *subject) signsOf(f func(e sign, o lineOperator, does string)) {
	if len(s.Operators) == 0 {
		return
	}
	table := signs()
	for _, o := range s.Operators {
		for _, e := range table {
			if e.text != o.Text {
				continue
			}
			does := e.does
			if o.Count > 1 {
				does += fmt.Sprintf(" (and %d more)", o.Count-1)
			}
			f(e, o, does)
		}
	}
}

// where says where a sign stands: of a text for another shell, in which text.
func (s *subject) where(o lineOperator) string {
	text := o.Span.Of(s.Text)
	if strings.HasPrefix(text, o.Text) {
		return fmt.Sprintf("%q at byte %d", o.Text, o.Span.Start)
	}
	if o.Text == ";" && !strings.Contains(text, ";") {
		return fmt.Sprintf(`a new line, which is as ";", at %s at byte %d`, quote(text), o.Span.Start)
	}
	return fmt.Sprintf("%q in %s at byte %d", o.Text, quote(text), o.Span.Start)
}

// denySigns denies every sign that the shell acts upon, and returns the kinds
// of construct of which nothing else is to be said.
func (s *subject) denySigns() map[lineKind]bool {
	reported := map[lineKind]bool{}
	s.signsOf(func(e sign, o lineOperator, does string) {
		reported[e.kind] = e.kind != lineExpansion
		s.report(finding{
			check: "metacharacter", rule: string(e.kind), severity: policy.Medium, mark: deny, span: o.Span,
			message: s.where(o) + " " + does + ", which strictness strict refuses",
			hint:    e.hint + ", or have the operator set commands.strictness to restricted",
		})
	})
	return reported
}

// warnings returns what strict would deny, under the strictnesses that warn.
func (s *subject) warnings() []policy.Reason {
	out := []policy.Reason{}
	if s.strictness != Normal && s.strictness != Restricted {
		return out
	}
	if f, ok := s.found.first("variable", "IFS"); ok {
		out = append(out, f.reason(policy.Allow))
	}
	s.signsOf(func(e sign, o lineOperator, does string) {
		out = append(out, policy.Reason{
			Check: "metacharacter", Verdict: policy.Allow, Severity: policy.Medium, Rule: string(e.kind), Span: o.Span,
			Message: fmt.Sprintf("%q %s", o.Text, does), Hint: e.hint,
		})
	})
	slices.SortStableFunc(out, func(a, b policy.Reason) int { return a.Span.Start - b.Span.Start })
	return out
}

// checkMetacharacter reports each kind of construct once, with how often it
// is there.
func checkMetacharacter(s *subject) {
	var reported map[lineKind]bool
	if s.strictness == Strict {
		reported = s.denySigns()
	}
	if len(s.Features) == 0 {
		return
	}
	type seen struct {
		n    int
		span policy.Span
	}
	count := make(map[lineKind]seen, 8)
	for _, f := range s.Features {
		if f.Kind == lineSubstitution && s.prints(f.Span) {
			continue
		}
		c := count[f.Kind]
		if c.n == 0 {
			c.span = f.Span
		}
		c.n++
		count[f.Kind] = c
	}
	for _, c := range constructs() {
		n := count[c.kind]
		if n.n == 0 || reported[c.kind] {
			continue
		}
		message := fmt.Sprintf("%s: %s", c.message, quote(n.span.Of(s.Text)))
		if n.n > 1 {
			message += fmt.Sprintf(" (and %d more)", n.n-1)
		}
		s.report(finding{
			check: "metacharacter", rule: string(c.kind), severity: c.severity, mark: c.mark,
			message: message, hint: c.hint, span: n.span,
		})
	}
}

// prints reports whether a substitution is one whose commands only print what
// is harmless wherever it is put: a number, a date, a folder, a commit. The
// text of a quoted here-document is so where a program takes it for text.
func (s *subject) prints(span policy.Span) bool {
	found, text := false, false
	for i := range s.calls {
		k := &s.calls[i]
		if !inside(k.Span, span) {
			continue
		}
		found = true
		if !allStatic(k.lineCommand) || len(k.Wrappers) > 0 || len(k.Assigns) > 0 || isNested(k.Via) {
			return false
		}
		switch k.program {
		case "nproc", "date", "pwd", "uname", "whoami", "hostname", "arch", "getconf", "tty", "logname":
			if len(k.Redirects) > 0 || k.Words[0].Value != k.program {
				return false
			}
		case "git":
			if len(k.Words) < 2 || !hasWord("rev-parse merge-base rev-list", k.Words[1].Value) || len(k.Redirects) > 0 || k.Words[0].Value != "git" {
				return false
			}
		case "cat":
			r := k.Redirects
			if len(k.Words) != 1 || k.Words[0].Value != "cat" || len(r) != 1 || !strings.HasPrefix(r[0].Op, "<<") || r[0].Op == "<<<" || !strings.ContainsAny(r[0].Target.Raw, `'"`) {
				return false
			}
			text = true
		default:
			return false
		}
	}
	if !found || !text {
		return found
	}
	for i := range s.calls {
		k := &s.calls[i]
		if inside(span, k.Span) && !inside(k.Span, span) && !s.takesText(k, span) {
			return false
		}
	}
	return true
}

// takesText reports whether the word at span is a message, in double quotes, for
// a program that shows or keeps it.
func (s *subject) takesText(k *call, span policy.Span) bool {
	if k.Words[0].Value != k.program || len(k.Wrappers) > 0 {
		return false
	}
	for i, w := range k.Words {
		if !inside(span, w.Span) {
			continue
		}
		if !strings.HasPrefix(w.Raw, `"`) || i == 0 {
			return false
		}
		switch before := k.Words[i-1].Value; k.program {
		case "git":
			return hasWord("commit tag merge notes stash", k.Words[1].Value) && hasWord("-m --message -am -a -F", before) && before != "-F"
		case "gh", "glab":
			return hasWord("--body -b --title -t --notes -n --description -d", before)
		case "echo":
			return true
		}
		return false
	}
	return false
}
