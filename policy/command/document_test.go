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

const document = "../../docs/policy.md"

var update = flag.Bool("update", false, "write the tables of docs/policy.md")

// TestDocumentTables holds that the document shows the tables of the checks
// as they are.
func TestDocumentTables(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	tables := Tables()
	tables["everyday"] = everydayTable(t)
	for name, table := range tables {
		start, end := "<!-- table: "+name+" -->\n", "<!-- end -->"
		before, rest, ok := strings.Cut(doc, start)
		old, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Errorf("the document has no place for the table of %s", name)
			continue
		}
		if old != table && !*update {
			t.Errorf("the table of %s is not that of the document: run go test ./policy/command -run TestDocumentTables -update", name)
		}
		doc = before + start + table + end + after
	}
	if *update {
		if err := os.WriteFile(document, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

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
