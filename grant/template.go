package grant

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
)

// Bounds of templates and of the arguments that are held against them.
const (
	maxTemplates = 256
	maxArguments = 63 // of a template; they are places in a uint64
	maxPattern   = 1024
	maxArgs      = 1024
	maxArgBytes  = 64 << 10 // all of them together
)

// checkTemplates reports what is wrong with templates.
func checkTemplates(field string, list []Template) error {
	if len(list) > maxTemplates {
		return invalid(field, strconv.Itoa(len(list))+" templates are too many", "name at most "+strconv.Itoa(maxTemplates))
	}
	for i := range list {
		at := field + "[" + strconv.Itoa(i) + "]"
		t := &list[i]
		if why := programFault(t.Tool); why != "" {
			return invalid(at+".tool", why, "")
		}
		if len(t.Args) > maxArguments {
			return invalid(at+".args", "more arguments than "+strconv.Itoa(maxArguments), "use rest")
		}
		for j := range t.Args {
			if part, why := t.Args[j].fault(); why != "" {
				return invalid(at+".args["+strconv.Itoa(j)+"]"+part, why, "")
			}
		}
		if t.Rest == nil {
			continue
		}
		if part, why := t.Rest.fault(); why != "" {
			return invalid(at+".rest"+part, why, "")
		}
	}
	return nil
}

// fault says which part of an argument is wrong, empty for all of it, and why.
func (a *Argument) fault() (part, why string) {
	switch {
	case a.Pattern == "" && len(a.OneOf) == 0:
		return "", "it allows nothing: it has neither words nor a pattern"
	case len(a.OneOf) > maxArgs:
		return ".oneOf", "it is too long"
	case len(a.Pattern) > maxPattern:
		return ".pattern", "it is too long"
	}
	for i, w := range a.OneOf {
		if why := argFault(w); why != "" {
			return ".oneOf[" + strconv.Itoa(i) + "]", "the word " + why
		}
	}
	if a.Pattern == "" {
		return "", ""
	}
	if _, err := syntax.Parse(a.Pattern, syntax.Perl); err != nil {
		return ".pattern", patternFault(err)
	}
	return "", ""
}

// patternFault says what is wrong with a pattern without saying it again.
func patternFault(err error) string {
	if e, ok := err.(*syntax.Error); ok {
		return "the pattern is no regular expression: " + e.Code.String()
	}
	return "the pattern is no regular expression"
}

// argFault says why text can be no argument of a program. Line ends and other
// control characters can be; patterns say whether they may.
func argFault(s string) string {
	const most = 16 << 10
	if len(s) > most {
		return "is longer than " + strconv.Itoa(most) + " bytes"
	}
	for _, c := range s {
		if c == 0 || c == '\uFFFD' { // what is no UTF-8 reads as the latter
			return "has NUL in it, or is no UTF-8"
		}
	}
	return ""
}

// A template is a Template made ready for matching.
type template struct {
	args []argument
	rest *argument
}

type argument struct {
	words    []string
	pattern  *regexp.Regexp // finds the longest match; nil is none
	optional bool
}

// templates are those of one party, by program.
type templates map[string][]template

// templatesOf checks and compiles templates.
func templatesOf(field string, list []Template) (templates, error) {
	if err := checkTemplates(field, list); err != nil {
		return nil, err
	}
	out := templates{}
	for i := range list {
		var t template
		for j := range list[i].Args {
			a, err := compileArgument(&list[i].Args[j])
			if err != nil {
				return nil, invalid(field+"["+strconv.Itoa(i)+"].args["+strconv.Itoa(j)+"]", patternFault(err), "")
			}
			t.args = append(t.args, a)
		}
		if list[i].Rest != nil {
			a, err := compileArgument(list[i].Rest)
			if err != nil {
				return nil, invalid(field+"["+strconv.Itoa(i)+"].rest", patternFault(err), "")
			}
			t.rest = &a
		}
		out[list[i].Tool] = append(out[list[i].Tool], t)
	}
	return out, nil
}

func compileArgument(a *Argument) (argument, error) {
	out := argument{words: a.OneOf, optional: a.Optional}
	if a.Pattern == "" {
		return out, nil
	}
	var err error
	if out.pattern, err = regexp.Compile(a.Pattern); err != nil {
		return out, err
	}
	// The leftmost longest match is the whole text whenever there is a match of
	// the whole: so that no pattern has to be put between others, which some
	// could break out of.
	out.pattern.Longest()
	return out, nil
}

// allows reports whether args satisfy one of the templates of the program.
func (t templates) allows(program string, args []string) bool {
	for i := range t[program] {
		if t[program][i].matches(args) {
			return true
		}
	}
	return false
}

// matches walks all ways through the template at once: bit i of at says that
// the arguments so far may have come to before args[i].
func (t *template) matches(args []string) bool {
	end := len(t.args)
	at := t.skip(1)
	for _, arg := range args {
		var next uint64
		for i := range t.args {
			if at&(1<<i) != 0 && t.args[i].matches(arg) {
				next |= 1 << (i + 1)
			}
		}
		if t.rest != nil && at&(1<<end) != 0 && t.rest.matches(arg) {
			next |= 1 << end
		}
		if at = t.skip(next); at == 0 {
			return false
		}
	}
	return at&(1<<end) != 0
}

// skip adds the places that are come to by leaving out what is optional.
func (t *template) skip(at uint64) uint64 {
	for i := range t.args {
		if at&(1<<i) != 0 && t.args[i].optional {
			at |= 1 << (i + 1)
		}
	}
	return at
}

func (a *argument) matches(arg string) bool {
	if slices.Contains(a.words, arg) {
		return true
	}
	if a.pattern == nil {
		return false
	}
	loc := a.pattern.FindStringIndex(arg)
	return loc != nil && loc[0] == 0 && loc[1] == len(arg)
}
