package prune_test

import (
	"fmt"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/prune"
	"github.com/bulkhead-dev/sandbox/registry"
)

func ExamplePlan() {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	plan := prune.Plan(prune.Input{
		Instance: "0123456789abcdef",
		Known:    true,
		Records: []registry.Record{
			{Name: "sbx-busy", LastUsedAt: now.Add(-time.Minute)},
			{Name: "sbx-idle", LastUsedAt: now.Add(-30 * time.Hour)},
		},
		Live: []sandbox.Info{
			{Name: "sbx-busy", Owner: sandbox.Owner{Instance: "0123456789abcdef"}, Status: sandbox.StatusRunning},
			{Name: "sbx-idle", Owner: sandbox.Owner{Instance: "0123456789abcdef"}, Status: sandbox.StatusRunning},
		},
		Rules: prune.Rules{Idle: 24 * time.Hour, MaxAge: 7 * 24 * time.Hour},
		Now:   now,
	})
	for _, r := range plan {
		fmt.Println(r.Name, r.Reason, r.Detail)
	}
	// Output: sbx-idle idle not used for 30h0m0s
}
