package command

import (
	"os"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy"
)

// TestHostile holds that no line of testdata/hostile.txt is allowed under the
// strictness that the settings have, and none under normal.
func TestHostile(t *testing.T) {
	text, err := os.ReadFile("testdata/hostile.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Strictness{Normal, Restricted} {
		p := newPolicy(t, Rules{Strictness: s})
		for l := range strings.Lines(string(text)) {
			l = strings.TrimSuffix(l, "\n")
			d := p.Judge(Input{Text: l, Dir: caseDir})
			holds(t, l, d)
			if d.Verdict == policy.Allow {
				t.Errorf("%s allows %s", s, l)
			}
		}
	}
}
