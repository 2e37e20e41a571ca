package command_test

import (
	"os"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/command"
)

// TestHostile holds that no line of testdata/hostile.txt is allowed under the
// strictness that the settings have, and none under normal.
func TestHostile(t *testing.T) {
	text, err := os.ReadFile("testdata/hostile.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []command.Strictness{command.Normal, command.Restricted} {
		p := newPolicy(t, command.Rules{Strictness: s})
		for l := range strings.Lines(string(text)) {
			l = strings.TrimSuffix(l, "\n")
			d := p.Judge(command.Input{Text: l, Dir: caseDir})
			holds(t, l, d)
			if d.Verdict == policy.Allow {
				t.Errorf("%s allows %s", s, l)
			}
		}
	}
}
