package command

import (
	"fmt"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// A rule names commands, in one of three forms that match the normalised text
// of a simple command:
//
//	npm run lint     exact: this command and no other
//	npm run test:*   prefix: these words, then the end or more words
//	docker*          wildcard: * stands for any text
type rule struct {
	field  string // JSON path of the setting: "commands.allow[2]"
	source string // as the user wrote it
	text   string // normalised; of a prefix without the :*
	form   form
	glob   glob // of a wildcard
}

type form int

const (
	exact form = iota
	prefix
	wildcard
)

// Bounds of a rule and of a list of them.
const (
	maxRule  = 1024
	maxRules = 1000
)

func compileRules(field string, sources []string) ([]rule, error) {
	if len(sources) > maxRules {
		return nil, ruleError(field, fmt.Sprintf("has %d rules, more than %d", len(sources), maxRules), "use prefix rules or wildcards")
	}
	rules := make([]rule, 0, len(sources))
	for i, s := range sources {
		r, err := compileRule(fmt.Sprintf("%s[%d]", field, i), s)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// compileRule reads one rule.
func compileRule(field, source string) (rule, error) {
	const forms = "write an exact command, a prefix as in \"npm run test:*\", or a wildcard as in \"docker*\""
	text := strings.TrimSpace(source)
	switch {
	case text == "":
		return rule{}, ruleError(field, "is an empty rule", forms)
	case len(text) > maxRule:
		return rule{}, ruleError(field, fmt.Sprintf("is longer than %d bytes", maxRule), forms)
	}
	for _, c := range text {
		if c < ' ' || c == 0x7f || c == '\ufffd' {
			return rule{}, ruleError(field, "has a control character or is no UTF-8", "a rule names one command on one line")
		}
	}
	r := rule{field: field, source: source}
	before, isPrefix := strings.CutSuffix(text, ":*")
	switch {
	case isPrefix && strings.TrimSpace(before) == "":
		return rule{}, ruleError(field, "is a prefix without words", forms)
	case isPrefix && strings.Contains(before, "*"):
		return rule{}, ruleError(field, "is a prefix with a wildcard in it", "a rule has one form: "+forms)
	case isPrefix:
		r.form, text = prefix, before
	case strings.Contains(text, "*"):
		r.form, r.text = wildcard, strings.Join(strings.Fields(text), " ")
		r.glob = newGlob(r.text)
		return r, nil
	}
	r.text = ruleText(text)
	return r, nil
}

// ruleText writes the command of a rule as the text of commands is written:
// one blank between words and quotes only where they are needed.
func ruleText(text string) string {
	if l, refused := parseLine(text, lineStart{}); refused == nil && len(l.Commands) == 1 {
		if c := &l.Commands[0]; len(c.Wrappers)+len(c.Assigns)+len(l.Redirects)+len(l.Unknowns) == 0 && !c.Open && allStatic(c) {
			return normal(c.Words)
		}
	}
	return strings.Join(strings.Fields(text), " ")
}

func allStatic(c *lineCommand) bool {
	for _, w := range c.Words {
		if !w.Static {
			return false
		}
	}
	return true
}

// matches reports whether the rule names a command with this normalised text;
// open says that unknown words follow.
func (r *rule) matches(text string, open bool) bool {
	switch r.form {
	case prefix:
		rest, ok := strings.CutPrefix(text, r.text)
		return ok && (rest == "" || rest[0] == ' ')
	case wildcard:
		return r.glob.matches(text) && (!open || strings.HasSuffix(r.text, "*"))
	}
	return !open && text == r.text
}

func ruleError(field, message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "read command rules", Field: field, Message: message, Hint: hint}
}
