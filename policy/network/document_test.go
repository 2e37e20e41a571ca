package network_test

import (
	"os"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

// TestDocumentCases checks that every case of docs/network.md and of
// testdata/cases.md gets the answer that stands there, and that every rule
// which the table of the page names is one.
func TestDocumentCases(t *testing.T) {
	page, err := os.ReadFile("../../docs/network.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := os.ReadFile("testdata/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(page), "| rule | means |\n|---|---|\n")
	table, _, ok2 := strings.Cut(after, "\n\n")
	rules := 0
	for line := range strings.Lines(table) {
		rules += documentedRules(t, strings.Split(strings.Trim(line, "|"), "|")[0])
	}
	if !ok || !ok2 || rules < 12 {
		t.Errorf("docs/network.md shows %d rules, want 12", rules)
	}
	if n := documentedCases(t, string(page)); n < 7 {
		t.Errorf("docs/network.md shows %d cases, want 7", n)
	}
	if n := documentedCases(t, string(more)); n < 38 {
		t.Errorf("testdata/cases.md has %d cases, want 38", n)
	}
}

// documentedCases judges the rows of a text that have five cells, and returns
// how many there are.
func documentedCases(t *testing.T, text string) (cases int) {
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 || len(spans(cells[2])) == 0 { // the head has no question
			continue
		}
		cases++
		p, err := network.New(network.Options{Allowed: spans(cells[0]), Denied: spans(cells[1])})
		if err != nil {
			t.Errorf("%s: %v", strings.TrimSpace(line), err)
			continue
		}
		d := asked(t, p, spans(cells[2])[0])
		if by, _, _ := strings.Cut(d.Rule, ":"); string(d.Verdict) != strings.TrimSpace(cells[3]) || by != strings.Join(spans(cells[4]), " ") {
			t.Errorf("%s: it is %s by %s", strings.TrimSpace(line), d.Verdict, d.Rule)
		}
	}
	return cases
}

// documentedRules reads the rules in the first cell of a row.
func documentedRules(t *testing.T, cell string) int {
	for _, text := range spans(cell) {
		if _, err := network.ParseRule(text); err != nil {
			t.Errorf("%s is no rule: %v", text, err)
		}
	}
	return len(spans(cell))
}

// spans are the parts of a text in backticks.
func spans(text string) []string {
	var out []string
	for i, s := range strings.Split(text, "`") {
		if i%2 == 1 {
			out = append(out, s)
		}
	}
	return out
}
