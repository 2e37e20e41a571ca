package command

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy"
)

const (
	document  = "../../docs/policy.md"
	rulesFile = "testdata/rules.md"
)

var update = flag.Bool("update", false, "write testdata/rules.md and the table of docs/policy.md")

// TestRules checks that testdata/rules.md, which is there for review, shows
// the tables of the checks as they are.
func TestRules(t *testing.T) {
	var b strings.Builder
	b.WriteString("# The tables of the checks\n\nWritten by `go test ./policy/command -run TestRules -update`; `sandbox check --rules all` prints them.\n")
	check := ""
	for _, e := range Entries() {
		if e.Check != check {
			check = e.Check
			fmt.Fprintf(&b, "\n## %s\n\n| entry | about | with | severity | mark | what | hint |\n|---|---|---|---|---|---|---|\n", check)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", e.Name, codes(e.About), codes(strings.Fields(e.With)), e.Severity, e.Mark, cell(e.Message), cell(e.Hint))
	}
	fmt.Fprintf(&b, "\nAllow and exclude rules ignore %s.\n", codes(SafeVariables()))
	if *update {
		if err := os.WriteFile(rulesFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != b.String() {
		t.Errorf("%s is not the table of the checks: run go test ./policy/command -run TestRules -update", rulesFile)
	}
}

// TestEntries checks that entries name the rule that findings have.
func TestEntries(t *testing.T) {
	of := map[string]Entry{}
	for _, e := range Entries() {
		if len(e.About) == 0 || e.Message == "" || e.Severity == 0 {
			t.Errorf("entry without content: %+v", e)
		}
		for _, name := range append([]string{e.Name}, e.About...) {
			of[e.Check+" "+name] = e
		}
	}
	for line, want := range map[string]string{"mkfs.ext4 /dev/sda": "pattern make-filesystem", "LD_PRELOAD=x ls": "variable LD_*", "echo $(ls)": "metacharacter substitution", "python3 -c 1": "interpreter code-argument"} {
		d := newPolicy(t, Rules{Strictness: Strict}).Judge(Input{Text: line, Dir: caseDir})
		e, ok := of[want]
		if !ok || !slices.ContainsFunc(d.Reasons, func(r policy.Reason) bool { return r.Check == e.Check && r.Severity == e.Severity }) {
			t.Errorf("%q: no reason is of the entry %q: %+v", line, want, d.Reasons)
		}
	}
}

// TestDocumentTables checks that the table of everyday lines in the document
// has the counts that the policy gives.
func TestDocumentTables(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	table := everydayTable(t)
	start, end := "<!-- table: everyday -->\n", "<!-- end -->"
	before, rest, ok := strings.Cut(string(text), start)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the document has no place for the table of everyday lines")
	}
	if *update {
		old = table
		if err := os.WriteFile(document, []byte(before+start+table+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old != table {
		t.Error("the table is not that of the document: run go test ./policy/command -run TestDocumentTables -update")
	}
}

// codes writes words for a table of Markdown.
func codes(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "`" + cell(strings.Join(words, " ")) + "`"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// everydayTable counts what becomes of the everyday lines.
func everydayTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| strictness | allowed | asked about | denied |\n|---|---|---|---|\n")
	for _, s := range Strictnesses() {
		p, n := newPolicy(t, Rules{Strictness: s}), map[policy.Verdict]int{}
		for _, l := range everyday(t) {
			n[p.Judge(Input{Text: l, Dir: caseDir}).Verdict]++
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", s, n[policy.Allow], n[policy.Ask], n[policy.Deny])
	}
	return b.String()
}

// TestDocumentExamples holds that every example of the document is a case of
// the table and gets the verdict that the document says.
func TestDocumentExamples(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	type key struct{ text, strictness, verdict string }
	cases, checks := map[key]bool{}, map[string]int{}
	for _, c := range readCases(t) {
		cases[key{c.text, string(c.strictness), string(c.verdict)}] = true
	}
	section := ""
	for row := range strings.Lines(string(text)) {
		row = strings.TrimSuffix(row, "\n")
		if name, ok := strings.CutPrefix(row, "### "); ok {
			section = name
		}
		cells := strings.Split(strings.ReplaceAll(strings.Trim(row, "| "), `\|`, "\x01"), " | ")
		if len(cells) < 3 || len(cells) > 4 || !slices.Contains(Strictnesses(), Strictness(cells[1])) {
			continue
		}
		line := strings.NewReplacer("\x01", "|", "⏎", "\n").Replace(strings.Trim(cells[0], "`"))
		if !cases[key{line, cells[1], cells[2]}] {
			t.Errorf("example %q (%s: %s) is no case of the table", line, cells[1], cells[2])
		}
		checks[section]++
	}
	for _, name := range []string{"heredoc", "metacharacter", "variable", "pattern", "removal", "sensitive-file", "interpreter", "unknown"} {
		if checks[name] < 3 {
			t.Errorf("the document has %d examples of the check %s, want 3", checks[name], name)
		}
	}
}

// SafeVariables returns the names of variables that allow and exclude rules
// ignore.
func SafeVariables() []string { return strings.Fields(safeVariables) }
