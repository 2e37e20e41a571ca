package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox/policy"
)

// blockRules reports every command that a block rule names, or may name.
func (s *subject) blockRules() {
	if len(s.block) == 0 && (!s.in.Subagent || len(s.subagentBlock) == 0) {
		return
	}
	for i := range s.Commands {
		c := &s.Commands[i]
		texts := blockTexts(c)
		if ops := s.calls[i].operands; len(ops) > 0 && len(ops) < len(c.Words)-1 {
			// git -C x push is known as git push, too.
			program := c.Words[0]
			program.Value, program.Raw = base(program.Value), base(program.Raw)
			texts = append(texts, normal(append([]lineWord{program}, ops...)))
		}
		s.blockBy(s.block, c, texts, "")
		if s.in.Subagent {
			s.blockBy(s.subagentBlock, c, texts, " for sub-agents")
		}
	}
}

// blockBy reports the first of the rules that names the command, or else the
// first that may.
func (s *subject) blockBy(rules []rule, c *lineCommand, texts []string, whom string) {
	for i := range rules {
		r := &rules[i]
		if slices.ContainsFunc(texts, func(t string) bool { return r.matches(t, c.Open) }) {
			s.report(finding{
				check: "rule", rule: r.field, severity: policy.Critical, mark: deny, span: c.Span,
				message: fmt.Sprintf("%s is blocked%s by the rule %q", quote(normal(c.Words)), whom, r.source),
				hint:    "do without it, or have the operator change " + r.field,
			})
			return
		}
	}
	for i := range rules {
		r := &rules[i]
		if r.mayMatch(c) {
			s.report(finding{
				check: "rule", rule: r.field, severity: policy.High, mark: unknown, span: c.Span,
				message: fmt.Sprintf("%s may be what the rule %q blocks%s: the text does not tell all its words", quote(normal(c.Words)), r.source, whom),
				hint:    "write the words out",
			})
			return
		}
	}
}

// blockTexts returns the texts by which a block rule may know a command: as
// written and by base name, each wrapper alone, and each wrapper in front of
// what it starts.
func blockTexts(c *lineCommand) []string {
	text := normal(c.Words)
	texts := []string{text}
	if p := c.Words[0]; p.Static && strings.Contains(p.Value, "/") {
		words := slices.Clone(c.Words)
		words[0].Value, words[0].Raw = base(p.Value), base(p.Value)
		texts = append(texts, normal(words))
	}
	short := texts[len(texts)-1]
	for i := len(c.Wrappers) - 1; i >= 0; i-- {
		w := base(c.Wrappers[i])
		short = w + " " + short
		texts = append(texts, w, short)
		if i > 0 {
			texts = append(texts, w+" "+text)
		}
	}
	return texts
}

// mayMatch reports whether words that the text does not tell could make the
// command one that the rule names.
func (r *rule) mayMatch(c *lineCommand) bool {
	n := slices.IndexFunc(c.Words, func(w lineWord) bool { return !w.Static || w.Glob })
	switch {
	case n < 0 && !c.Open:
		return false
	case n < 0:
		n = len(c.Words)
	case n == 0:
		return false // an unknown program is reported as such
	}
	literal, _, _ := strings.Cut(r.text, "*")
	lead := normal(c.Words[:n]) + " "
	return strings.HasPrefix(literal, lead)
}

// allowRules reports which commands of the line are named by an allow rule,
// and, when all of them are, the rule that names the last.
func (s *subject) allowRules(commands []Simple) (named []bool, by *rule) {
	named = make([]bool, len(s.Commands))
	all := len(s.allow) > 0
	for i := range s.Commands {
		var r rule
		if r, named[i] = s.nameOf(s.allow, &s.Commands[i], commands[i].Text); named[i] {
			by = &r
		}
		all = all && named[i]
	}
	if !all || slices.ContainsFunc(s.Assigns, func(a lineAssign) bool { return !s.tables.safe.has(a.Name) }) {
		return named, nil
	}
	return named, by
}

// reason says that the rule allows the line.
func (r *rule) reason(text string) policy.Reason {
	return policy.Reason{
		Check: "rule", Verdict: policy.Allow, Severity: policy.Low, Rule: r.field, Span: policy.Span{End: len(text)},
		Message: fmt.Sprintf("every command is named by commands.allow, the last by %q", r.source),
	}
}

// nameOf returns the first rule that names the command. A command whose
// program the text does not tell has no name, and neither has one that runs
// with variables that may change what it does.
func (s *subject) nameOf(rules []rule, c *lineCommand, text string) (rule, bool) {
	if p := c.Words[0]; !p.Static || p.Glob {
		return rule{}, false
	}
	if s.unsafeVariable() != "" || slices.ContainsFunc(c.Assigns, func(a lineAssign) bool { return !s.tables.safe.has(a.Name) }) {
		return rule{}, false
	}
	whole := ""
	if n := len(c.Wrappers); n > 0 && strings.Contains(c.Wrappers[n-1], " ") {
		whole = c.Wrappers[n-1] + " " + text // "poetry run" is part of the name that people know
	}
	for i := range rules {
		if r := &rules[i]; r.matches(text, c.Open) || whole != "" && r.matches(whole, c.Open) {
			return *r, true
		}
	}
	return rule{}, false
}

// unsafeVariable returns a variable of the caller that may change what
// commands do, or nothing.
func (s *subject) unsafeVariable() string {
	for _, name := range s.in.Env {
		if !s.tables.safe.has(name) {
			return name
		}
	}
	return ""
}

// unnamed reports the commands that no allow rule names, which strictness
// strict asks about.
func (s *subject) unnamed(named []bool) {
	for i, ok := range named {
		if ok {
			continue
		}
		s.report(finding{
			check: "rule", rule: "commands.allow", severity: policy.Low, span: s.Commands[i].Span,
			message: fmt.Sprintf("no rule of commands.allow names %s", quote(normal(s.Commands[i].Words))),
			hint:    "under strictness strict a command has to be named by a rule to run without asking",
		})
	}
}

// excludedBy reports whether the text of the line allows it to run outside the
// sandbox, and why or why not.
func (s *subject) excludedBy(commands []Simple) (bool, string) {
	switch {
	case len(s.excluded) == 0:
		return false, "commands.excluded is empty"
	case len(s.Commands) == 0:
		return false, "the line has no command"
	case s.found.verdict == policy.Deny:
		return false, "the line is denied"
	case len(s.Unknowns) > 0:
		return false, "the text does not tell everything that runs: " + s.Unknowns[0].Why
	case s.found.never:
		return false, "the line has a part that may never leave the sandbox: " + s.neverReason()
	case len(s.Redirects) > 0:
		return false, fmt.Sprintf("the line has a redirection, %s", quote(s.Redirects[0].Span.Of(s.Text)))
	}
	for _, f := range s.Features {
		if confined(f.Kind) {
			return false, fmt.Sprintf("the line has a %s, %s", f.Kind, quote(f.Span.Of(s.Text)))
		}
	}
	for _, a := range s.Assigns {
		if !s.tables.safe.has(a.Name) {
			return false, fmt.Sprintf("the line sets %s, which is not on the list of harmless variables", quote(a.Name))
		}
	}
	if name := s.unsafeVariable(); name != "" {
		return false, fmt.Sprintf("the call sets %s, which is not on the list of harmless variables", quote(name))
	}
	var by rule
	for i := range s.Commands {
		c := &s.Commands[i]
		if isNested(c.Via) {
			return false, fmt.Sprintf("%s is within a text for another shell", quote(commands[i].Text))
		}
		if i := slices.IndexFunc(c.Words, func(w lineWord) bool { return !w.Static || w.Glob }); i >= 0 {
			return false, fmt.Sprintf("the text does not tell what %s becomes, which may be an option", quote(c.Words[i].Raw))
		}
		r, ok := s.nameOf(s.Policy.excluded, c, commands[i].Text)
		if !ok || c.Open {
			return false, fmt.Sprintf("no rule of commands.excluded names %s", quote(commands[i].Text))
		}
		by = r
	}
	return true, fmt.Sprintf("every command is named by commands.excluded, the last by %s %q", by.field, by.source)
}

// confined reports whether a line with such a construct must stay in the
// sandbox.
func confined(k lineKind) bool {
	switch k {
	case lineSubstitution, processSubst, lineHeredoc, heredocQuoted, hereString, lineRedirection,
		lineFunction, lineCoprocess, lineBackground, nestedEval, nestedShell:
		return true
	}
	return false
}

// neverReason tells one finding that no rule lifts.
func (s *subject) neverReason() string {
	for _, k := range s.found.kept {
		if k.mark != plain {
			return k.message
		}
	}
	return "a construct that hides what runs"
}
