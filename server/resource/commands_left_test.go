package resource_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// TestLeftIsInTheAnswer holds that each answer about the end of a command lists
// the processes that were ended with it.
func TestLeftIsInTheAnswer(t *testing.T) {
	t.Parallel()
	left := &sandbox.Left{Count: 1, Names: []string{"sleep (41)"}}
	outcome := manager.Outcome{Exit: sandbox.Exit{Left: left}}
	for name, answer := range map[string]any{
		"captured": resource.Result(sandbox.Result{Left: left}, "x"),
		"streamed": resource.Exit(outcome, 0, 0),
		"kept":     resource.Captured(outcome, "x", resource.NewKept(1), resource.NewKept(1)),
	} {
		b, err := json.Marshal(answer)
		if err != nil || !strings.Contains(string(b), `"left":{"count":1,"names":["sleep (41)"]}`) {
			t.Errorf("%s: %s, %v", name, b, err)
		}
	}
	if b, _ := json.Marshal(resource.Result(sandbox.Result{}, "x")); strings.Contains(string(b), "left") {
		t.Errorf("without: %s", b)
	}
}
