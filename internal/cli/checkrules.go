package cli

import (
	"strings"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/command"
	"github.com/bulkhead-dev/sandbox/policy/path"
)

// The check whose table is that of the path policy.
const sensitiveFile = "sensitive-file"

// checksWithRules returns the checks whose tables check --rules shows, and the
// word for all of them.
func checksWithRules() []string {
	return []string{"all", "metacharacter", "variable", "pattern", "interpreter", sensitiveFile}
}

// builtinRules are the tables of the checks, as check --rules shows them in
// JSON.
type builtinRules struct {
	Commands []command.Entry `json:"commands"` // of checks that judge the text of a command
	Files    []path.Entry    `json:"files"`    // of the sensitive-file check, which file tools obey too
}

// rulesOf returns the tables of one check, or of all.
func rulesOf(check string) builtinRules {
	out := builtinRules{Commands: []command.Entry{}, Files: []path.Entry{}}
	for _, e := range command.Entries() {
		if check == "all" || check == e.Check {
			out.Commands = append(out.Commands, e)
		}
	}
	if check == "all" || check == sensitiveFile {
		out.Files = append(out.Files, path.Entries()...)
	}
	return out
}

func (a *app) showRules(check string) error {
	rules := rulesOf(check)
	if a.globals.json() {
		return writeJSON(a.Stdout, rules)
	}
	t := &table{}
	t.add("CHECK", "ENTRY", "SEVERITY", "MARK", "ABOUT", "WITH", "WHAT")
	for _, e := range rules.Commands {
		t.add(e.Check, e.Name, e.Severity.String(), e.Mark, strings.Join(e.About, " "), e.With, e.Message)
	}
	for _, f := range rules.Files {
		except := ""
		if len(f.Except) > 0 {
			except = "except " + strings.Join(f.Except, " ")
		}
		t.add(sensitiveFile, string(f.Category), fileSeverity(f), "", f.Pattern, except, f.Why)
	}
	return t.write(a.Stdout)
}

// fileSeverity describes how bad reading and writing of a file is.
func fileSeverity(f path.Entry) string {
	var parts []string
	for _, p := range []struct {
		does string
		s    policy.Severity
	}{{"read", f.Read}, {"write", f.Write}} {
		if p.s != 0 {
			parts = append(parts, p.does+" "+p.s.String())
		}
	}
	return strings.Join(parts, ", ")
}
