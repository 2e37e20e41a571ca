//go:build linux

package server

import (
	"math"
	"testing"
)

// TestRoomIn holds that commands never get the room that we need for threads
// which are not there yet.
func TestRoomIn(t *testing.T) {
	const ours = 20
	for _, tt := range []struct {
		name        string
		hard, bound uint64
		want        room
		limit       uint64
	}{
		{"no limit", math.MaxUint64, 256, room{commands: 236}, 256},
		{"a lower limit", 100, 256, room{commands: 80}, 100},
		{"the least room", 36, 256, room{commands: 16}, 36},
		{"less than that", 35, 256, room{threads: ours}, 35},
		{"none at all", 0, 256, room{threads: ours}, 0},
		{"at the end of numbers", math.MaxUint64, math.MaxUint64, room{commands: math.MaxUint64 - 20}, math.MaxUint64},
	} {
		r, limit := roomIn(tt.hard, tt.bound, ours)
		if r != tt.want || limit != tt.limit {
			t.Errorf("%s: %+v and %d, want %+v and %d", tt.name, r, limit, tt.want, tt.limit)
		}
		if r.commands > 0 && limit < r.commands+ours {
			t.Errorf("%s: commands can take our room", tt.name)
		}
	}
}
