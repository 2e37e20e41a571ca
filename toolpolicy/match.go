package toolpolicy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

const groupPrefix = "group:"

// rules are the entries of one list.
type rules struct {
	layer   string
	entries []rule
}

// A rule is one entry.
type rule struct {
	list  string   // "tools.deny"
	text  string   // as written
	layer string   // where the list stands
	names []string // what it stands for, in lower case; patterns have *
}

// String names the rule as a person would look for it in the settings.
func (r *rule) String() string { return fmt.Sprintf("%s %q", r.list, r.text) }

// compile reads the entries of a list.
func compile(l List, list string) (rules, error) {
	out := rules{layer: l.Layer}
	for i, text := range l.Entries {
		r := rule{list: list, text: text, layer: l.Layer}
		fail := func(format string, args ...any) (rules, error) {
			return rules{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: "tool policy", Field: fmt.Sprintf("%s[%d]", list, i), Resource: text, Message: fmt.Sprintf(format, args...)}
		}
		name := strings.ToLower(strings.TrimSpace(text))
		if group, ok := strings.CutPrefix(name, groupPrefix); ok {
			if r.names = groups()[group]; r.names == nil {
				return fail("there is no group %q; there are %s", group, strings.Join(groupNames(), ", "))
			}
			out.entries = append(out.entries, r)
			continue
		}
		if !isName(strings.ReplaceAll(name, "*", "x")) {
			return fail("%q is no name of a tool, pattern or group", text)
		}
		if full, ok := aliases()[name]; ok {
			name = full
		}
		r.names = []string{name}
		out.entries = append(out.entries, r)
	}
	return out, nil
}

func groupNames() []string {
	var out []string
	for name := range groups() {
		out = append(out, groupPrefix+name)
	}
	slices.Sort(out)
	return out
}

// names returns the first entry that names t, which is canonical, or nil. What
// names a tool names the parts of it, too.
func (l rules) names(t string) *rule {
	whole := parts()[t]
	for i, r := range l.entries {
		for _, n := range r.names {
			if match(n, t) || whole != "" && match(n, whole) {
				return &l.entries[i]
			}
		}
	}
	return nil
}

// anyName is names for whatever t is called: a deny of one name denies the
// tool.
func (l rules) anyName(t string) *rule {
	if r := l.names(t); r != nil {
		return r
	}
	for alias, full := range aliases() {
		if full != t {
			continue
		}
		if r := l.names(alias); r != nil {
			return r
		}
	}
	return nil
}

// particular is names without the entries that name every tool.
func (l rules) particular(t string) *rule {
	whole := parts()[t]
	for i, r := range l.entries {
		for _, n := range r.names {
			if strings.Trim(n, "*") != "" && (match(n, t) || whole != "" && match(n, whole)) {
				return &l.entries[i]
			}
		}
	}
	return nil
}

// canonical returns the first name of a tool, and false for what no tool can
// be called.
func canonical(tool string) (string, bool) {
	t := strings.ToLower(strings.TrimSpace(tool))
	if !isName(t) {
		return "", false
	}
	if full, ok := aliases()[t]; ok {
		return full, true
	}
	return t, true
}

// isName reports whether a tool can be called s.
func isName(s string) bool {
	if s == "" || len(s) > maxName || strings.HasPrefix(s, groupPrefix) {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', strings.IndexByte("_-.:/@", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// match reports whether name is what pattern says, where * stands for any
// characters. It takes linear time for each star.
func match(pattern, name string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	parts := strings.Split(rest, "*")
	last := len(parts) - 1
	for _, part := range parts[:last] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return strings.HasSuffix(name, parts[last])
}
