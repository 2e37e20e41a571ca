package command

import (
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/policy"
)

// TestIFSOfCall holds that IFS among the variables of a call is noticed.
func TestIFSOfCall(t *testing.T) {
	p := newPolicy(t, Rules{Strictness: Normal})
	d := p.Judge(Input{Text: "ls", Dir: caseDir, Env: []string{"LANG", "IFS"}})
	if d.Verdict != policy.Ask || !hasReason(d, "variable/IFS", policy.Ask) {
		t.Errorf("%+v", d)
	}
}

// TestManyIFS holds that the time for a line with very many assignments to IFS
// grows no faster than the line.
func TestManyIFS(t *testing.T) {
	p := newPolicy(t, Rules{Strictness: Normal})
	for _, text := range []string{strings.Repeat("IFS= ", 90_000) + "read x", "bash -c '" + strings.Repeat("IFS= ", 20_000) + "read x'"} {
		start := time.Now()
		holds(t, text, p.Judge(Input{Text: text, Dir: caseDir}))
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%d bytes took %v", len(text), d)
		}
	}
}
