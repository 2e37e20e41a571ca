package command

import (
	"strings"

	"github.com/bulkhead-dev/sandbox/policy"
)

// An Entry is one line of the table of a check: what the check looks for and
// what it reports. A finding has the entry's name as its rule, or the name of
// the variable.
type Entry struct {
	Check    string          `json:"check"`
	Name     string          `json:"entry,omitempty"`
	About    []string        `json:"about"`          // a construct of the shell, or names of programs or variables; a name may have *
	With     string          `json:"with,omitempty"` // what else has to hold
	Severity policy.Severity `json:"severity"`
	Mark     string          `json:"mark,omitempty"` // never, unknown or deny
	Message  string          `json:"message"`
	Hint     string          `json:"hint,omitempty"`
}

// Entries returns the tables of the checks metacharacter, variable, pattern
// and interpreter, in this order. The other checks follow rules that no table
// holds, and the sensitive-file check those of package path.
func Entries() []Entry {
	var out []Entry
	for _, c := range constructs() {
		out = append(out, Entry{Check: "metacharacter", Name: string(c.kind), About: []string{string(c.kind)}, Severity: c.severity, Mark: c.mark.name(), Message: c.message, Hint: c.hint})
	}
	for _, v := range variableEntries() {
		names := strings.Fields(v.names)
		out = append(out, Entry{Check: "variable", About: names, Severity: v.severity, Mark: v.mark.name(), Message: v.message, Hint: v.hint})
	}
	rows := func(check string, all []row) {
		for i := range all {
			r := &all[i]
			out = append(out, Entry{Check: check, Name: r.rule, About: strings.Fields(r.programs), With: r.condition(), Severity: r.severity, Mark: r.mark.name(), Message: r.message, Hint: r.hint})
		}
	}
	rows("pattern", patternRows())
	rows("interpreter", append(interpreterRows(), runnerRows()...))
	return out
}

// condition describes what has to hold besides the program.
func (r *row) condition() string {
	var parts []string
	add := func(word, list string) {
		if list != "" {
			parts = append(parts, strings.TrimSpace(word+" "+list))
		}
	}
	add("", strings.ReplaceAll(r.sub, "|", " / "))
	add("option", r.options)
	add("operand", r.operand)
	add("path", r.path)
	add("word", r.argument)
	if r.when != nil {
		parts = append(parts, "by its arguments")
	}
	return strings.Join(parts, ", ")
}

func (m mark) name() string { return [...]string{"", "never", "unknown", "deny"}[m] }
