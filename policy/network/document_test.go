package network_test

import (
	"os"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

// TestDocumentCases holds that every case of docs/network.md gets the answer
// that stands there, and that every rule which the document names is one.
func TestDocumentCases(t *testing.T) {
	text, err := os.ReadFile("../../docs/network.md")
	if err != nil {
		t.Fatal(err)
	}
	cases, rules := 0, 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch len(cells) {
		case 2:
			rules += documentedRules(t, cells[0])
		case 5:
			question := spans(cells[2])
			if len(question) == 0 {
				continue // the head
			}
			cases++
			p, err := network.New(network.Options{Allowed: spans(cells[0]), Denied: spans(cells[1])})
			if err != nil {
				t.Errorf("%s: %v", strings.TrimSpace(line), err)
				continue
			}
			d := asked(t, p, question[0])
			if by, _, _ := strings.Cut(d.Rule, ":"); string(d.Verdict) != strings.TrimSpace(cells[3]) || by != strings.Join(spans(cells[4]), " ") {
				t.Errorf("%s: it is %s by %s", strings.TrimSpace(line), d.Verdict, d.Rule)
			}
		}
	}
	if cases < 38 || rules < 12 {
		t.Errorf("only %d cases and %d rules were found", cases, rules)
	}
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
