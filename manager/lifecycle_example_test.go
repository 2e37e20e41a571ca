package manager

import (
	"fmt"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

func Example_decideAction() {
	owner := sandbox.Owner{Instance: "0123456789abcdef", Scope: sandbox.ScopeSession, ScopeKey: "chat-42"}
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	d, err := decideAction(lifecycleInput{
		Owner: owner, WantHash: "new", Drift: sandbox.DriftKeep, Known: true,
		Have:     &sandbox.Info{Owner: owner, Status: sandbox.StatusRunning, ConfigHash: "old"},
		LastUsed: now.Add(-time.Minute), Now: now,
	})
	fmt.Println(d.Action, err)
	fmt.Println(d.Reason)
	fmt.Println(d.Hint)
	// Output:
	// keep-and-hint <nil>
	// its settings changed, and it is kept because it was used within the last 5m
	// sandbox recreate --session chat-42
}
