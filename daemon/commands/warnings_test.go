package commands_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/daemon/commands"
	"github.com/bulkhead-dev/sandbox/daemon/conduct/form"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestWarningsAreInTheAnswer holds that each answer about the end of a command has
// the warnings about its line, also for a client that conducts it.
func TestWarningsAreInTheAnswer(t *testing.T) {
	warnings := []string{"a", "b"}
	outcome := manager.Outcome{Warnings: warnings}
	for name, answer := range map[string]any{
		"captured": commands.Result(sandbox.Result{Warnings: warnings}, "x"),
		"streamed": commands.Exit(outcome, 0, 0),
		"kept":     commands.Captured(outcome, "x", commands.NewKept(1), commands.NewKept(1)),
	} {
		b, err := json.Marshal(answer)
		if err != nil || !strings.Contains(string(b), `"warnings":["a","b"]`) {
			t.Errorf("%s: %s, %v", name, b, err)
		}
	}
	if b, _ := json.Marshal(commands.Result(sandbox.Result{}, "x")); strings.Contains(string(b), "warnings") {
		t.Errorf("without: %s", b)
	}
	if got := form.OutcomeOf(outcome, false).Whole(sandbox.Exit{}).Warnings; !slices.Equal(got, warnings) {
		t.Errorf("conducted: %q", got)
	}
}
