package resource_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// TestWarningsAreInTheAnswer holds that each answer about the end of a command
// has the warnings about its line, also for a manager client.
func TestWarningsAreInTheAnswer(t *testing.T) {
	t.Parallel()
	warnings := []string{"a", "b"}
	outcome := manager.Outcome{Warnings: warnings}
	for name, answer := range map[string]any{
		"captured": resource.Result(sandbox.Result{Warnings: warnings}, "x"),
		"streamed": resource.Exit(outcome, 0, 0),
		"kept":     resource.Captured(outcome, "x", resource.NewKept(1), resource.NewKept(1)),
	} {
		b, err := json.Marshal(answer)
		if err != nil || !strings.Contains(string(b), `"warnings":["a","b"]`) {
			t.Errorf("%s: %s, %v", name, b, err)
		}
	}
	if b, _ := json.Marshal(resource.Result(sandbox.Result{}, "x")); strings.Contains(string(b), "warnings") {
		t.Errorf("without: %s", b)
	}
	if got := api.OutcomeOf(outcome, false).Whole(sandbox.Exit{}).Warnings; !slices.Equal(got, warnings) {
		t.Errorf("conducted: %q", got)
	}
}
