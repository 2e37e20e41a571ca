package local

import (
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// TestNotesOfSampledLimits holds that the plan of a sandbox says when its bound of
// processes is held by looking from time to time.
func TestNotesOfSampledLimits(t *testing.T) {
	without, with := func() error { return errors.New("no listeners") }, func() error { return nil }
	bounded := sandbox.Spec{Limits: sandbox.Limits{Processes: 30}}
	if got := limitNotes(bounded, without); len(got) != 1 || !strings.Contains(got[0], "limits.processes is held by looking from time to time") || !strings.Contains(got[0], "no listeners") {
		t.Errorf("%q", got)
	}
	if got := append(limitNotes(bounded, with), limitNotes(sandbox.Spec{}, without)...); len(got) != 0 {
		t.Errorf("%q", got)
	}
}
