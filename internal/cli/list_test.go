package cli

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// The list shows a slot of the pool without a session, and not as idle.
func TestListTellsOfFreeSlots(t *testing.T) {
	rows := []manager.Row{{Name: "sbx-pool-0a", Kind: sandbox.KindPool, Status: sandbox.StatusRunning, IdleSeconds: 86400, AgeSeconds: 60}}
	for foreign, want := range map[bool]string{false: "sbx-pool-0a running pool free slot - - ? ? 1m -", true: "sbx-pool-0a running pool - - - ? ? 1m - -"} {
		var out strings.Builder
		if err := (&app{}).listTable(rows, foreign).write(&out); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\n")
		if got := strings.Join(strings.Fields(lines[1]), " "); got != want {
			t.Errorf("foreign %v: %q, want %q", foreign, got, want)
		}
	}
}
