package manager

import (
	"slices"
	"testing"
)

// TestAutoLeavesLandlockOut checks that "auto" considers the landlock provider only where
// the settings allow that, and after the others.
func TestAutoLeavesLandlockOut(t *testing.T) {
	usual := []string{"docker", "local"}
	for _, options := range []map[string]any{nil, {}, {"auto": false}, {"auto": "true"}, {"auto": 1}, {"withoutScopes": true}} {
		if got := autoOrder(options); !slices.Equal(got, usual) {
			t.Errorf("with the options %v auto chooses from %v, want %v", options, got, usual)
		}
	}
	if got, want := autoOrder(map[string]any{"auto": true}), append(usual, "landlock"); !slices.Equal(got, want) {
		t.Errorf("where it is allowed, auto chooses from %v, want %v", got, want)
	}
}
