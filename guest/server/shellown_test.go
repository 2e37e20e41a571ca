//go:build linux

package server

import (
	"testing"
)

// TestOwn holds when a shell takes its outputs, when it has them, and when it
// lets go of them.
func TestOwn(t *testing.T) {
	type line struct {
		last  string // process, when it ends
		has   bool   // what the shell says then
		from  protocolOutputs
		drop  bool
		alone bool
		text  string
	}
	for name, lines := range map[string][]line{
		"calm": {
			{last: "7"}, {last: "7"}, {last: "7"}, {last: "7", from: protocolTaken, has: true, alone: true},
			{last: "7", from: protocolOwn, has: true, alone: true}, {last: "7", from: protocolOwn, has: true, alone: true},
		},
		"programs": {{last: "7"}, {last: "8"}, {last: "8"}, {last: "9"}, {last: "9"}, {last: "10"}},
		"a program while it takes them": {
			{last: "7"}, {last: "7"}, {last: "7"}, {last: "8", from: protocolTaken, has: true},
			{last: "8", drop: true}, {last: "8"}, {last: "8", from: protocolTaken, has: true, alone: true},
		},
		"a program when it has them": {
			{last: "7"}, {last: "7"}, {last: "7"}, {last: "7", from: protocolTaken, has: true, alone: true},
			{last: "8", from: protocolOwn, has: true}, {last: "9", drop: true}, {last: "9"},
		},
		"it cannot take them": {{last: "7"}, {last: "7"}, {last: "7"}, {last: "7", from: protocolTaken}, {last: "7"}, {last: "7"}},
		"it has lost them": {
			{last: "7"}, {last: "7"}, {last: "7"}, {last: "7", from: protocolTaken, has: true, alone: true},
			{last: "7", from: protocolOwn}, {last: "7", from: protocolTaken, has: true, alone: true},
		},
		"a line that may leave few numbers": {
			{last: "7"}, {last: "7"}, {last: "7"}, {last: "7", from: protocolTaken, has: true, alone: true},
			{last: "7", text: "ulimit -n 64", drop: true}, {last: "7", from: protocolTaken},
		},
		"nobody knows": {{}, {}, {}, {}, {}},
	} {
		t.Run(name, func(t *testing.T) {
			var o own
			for i, l := range lines {
				if from, drop := o.next(l.text); from != l.from || drop != l.drop {
					t.Fatalf("line %d: %v, %v, want %v, %v", i, from, drop, l.from, l.drop)
				}
				if alone := o.ended(l.from, l.last, l.has); alone != l.alone {
					t.Fatalf("line %d: alone %v", i, alone)
				}
			}
		})
	}
}
