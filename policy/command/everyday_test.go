package command

import (
	"os"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy"
)

// everyday are lines that agents run all day.
func everyday(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/everyday.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// TestEveryday holds how seldom everyday lines are asked about. The numbers
// are those of docs/policy.md.
func TestEveryday(t *testing.T) {
	lines := everyday(t)
	if len(lines) != 100 {
		t.Fatalf("%d lines, want 100", len(lines))
	}
	atLeast := map[Strictness]int{
		Permissive: 100, Normal: 97, Restricted: 90, Strict: 0,
	}
	for _, s := range Strictnesses() {
		p := newPolicy(t, Rules{Strictness: s})
		allowed := 0
		for _, l := range lines {
			d := p.Judge(Input{Text: l, Dir: caseDir})
			holds(t, l, d)
			if d.Verdict == policy.Allow {
				allowed++
				continue
			}
			if s != Strict && d.Verdict == policy.Deny {
				t.Errorf("%s denies %q: %+v", s, l, d.Reasons)
			}
			if s != Strict {
				t.Logf("%s: %s %q: %s/%s", s, d.Verdict, l, d.Reasons[0].Check, d.Reasons[0].Rule)
			}
		}
		t.Logf("%s allows %d of %d", s, allowed, len(lines))
		if allowed < atLeast[s] {
			t.Errorf("%s allows %d of %d everyday lines, want %d", s, allowed, len(lines), atLeast[s])
		}
	}
}

// Strictnesses returns every strictness, the loosest one first.
func Strictnesses() []Strictness { return []Strictness{Permissive, Normal, Restricted, Strict} }
