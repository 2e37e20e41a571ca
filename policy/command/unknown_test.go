package command

import (
	"os"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy"
)

// TestUnknownIsNeverAllowed holds what package line's test against bash
// builds on: a line of which the text does not tell what runs is allowed at
// no strictness, whatever the rules allow.
func TestUnknownIsNeverAllowed(t *testing.T) {
	data, err := os.ReadFile("testdata/tricks.txt")
	if err != nil {
		t.Fatal(err)
	}
	unclear := 0
	for _, strictness := range []Strictness{Permissive, Normal, Restricted, Strict} {
		p, err := New(Rules{Strictness: strictness, Allow: []string{"rm:*", "ls:*", "echo:*", "cat:*", "bash:*", "eval:*", "[*", "test:*"}, Home: "/home/u"})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range strings.Split(string(data), "\n%%\n") {
			l, refused := parseLine(text, lineStart{Dir: "/w", Home: "/home/u"})
			if refused == nil && len(l.Unknowns) == 0 {
				continue
			}
			unclear++
			if d := p.Judge(Input{Text: text, Dir: "/w"}); d.Verdict == policy.Allow {
				t.Errorf("%s: %q is allowed, though it is not clear what it runs", strictness, text)
			}
		}
	}
	if unclear < 400 {
		t.Errorf("only %d lines were unclear", unclear)
	}
}
