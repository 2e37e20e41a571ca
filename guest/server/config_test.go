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
		{"no limit", math.MaxUint64, 256, room{commands: 256}, 276},
		{"just enough above", 276, 256, room{commands: 256}, 276},
		{"one too few above", 275, 256, room{threads: ours}, 256},
		{"no more than is wanted", 256, 256, room{threads: ours}, 256},
		{"less than is wanted", 100, 256, room{threads: ours}, 100},
		{"at the end of numbers", math.MaxUint64, math.MaxUint64 - 3, room{threads: ours}, math.MaxUint64 - 3},
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
