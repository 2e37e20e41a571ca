//go:build linux

package server

import (
	"strings"
	"testing"
)

// TestAbilitiesWithoutListeners holds that a guest says when it cannot count
// processes before they are made.
func TestAbilitiesWithoutListeners(t *testing.T) {
	all := shimIsolation{Proc: true, Signal: true}
	if _, degraded := abilities(all, true, true); len(degraded) != 0 {
		t.Errorf("a whole guest says %q", degraded)
	}
	if _, degraded := abilities(all, true, false); len(degraded) != 1 || !strings.Contains(degraded[0], "limits.processes is held by looking from time to time") {
		t.Errorf("without listeners it says %q", degraded)
	}
}
