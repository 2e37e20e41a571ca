//go:build linux

package main

import "time"

// order returns in which order n ways take their turn in the given round.
// The first place wanders, and every other round runs backwards, so that no
// way always follows the same other one and pays for what that left behind.
func order(round, n int) []int {
	turn := make([]int, n)
	for i := range turn {
		turn[i] = (round/2 + i) % n
		if round%2 == 1 {
			turn[i] = n - 1 - turn[i]
		}
	}
	return turn
}

// An Effort says how much is done. More rounds give steadier numbers.
type Effort struct {
	Name      string
	Percent   int           // of the rounds that each operation asks for
	Least     int           // rounds at least
	Callers   int           // commands that each of many callers runs in a row
	Sandboxes int           // sandboxes that have connections at once
	Bytes     int64         // of one download
	Large     int           // bytes of the file that is called 64 MiB, more than 1 MiB; less is for who looks at no times
	Burst     int           // sessions that claim a sandbox at once
	Boxes     int           // sandboxes of the daemon that is idle
	Making    time.Duration // what there is for them to come to be
	Settled   time.Duration // since the last of them was used: a round of the daemon takes note of that
	Resting   time.Duration // how long it is idle then
	Idle      time.Duration // before memory is read; the guest keeps spare stages for 2 s
	// Within ends an operation early on a slow machine, with the rounds that
	// were done until then, but not with fewer than Least.
	Within time.Duration
}

// Full takes about a quarter of an hour.
func Full() Effort {
	return Effort{Name: "full", Percent: 100, Least: 5, Callers: 10, Sandboxes: 200, Bytes: 1 << 30, Large: 64 << 20, Idle: 5 * time.Second, Within: 25 * time.Second,
		Burst: 100, Boxes: 500, Making: 120 * time.Second, Settled: 65 * time.Second, Resting: 30 * time.Second}
}

// Quick takes half of that or less, and is for continuous integration: its
// medians are good, its 99th percentiles only hints.
func Quick() Effort {
	return Effort{Name: "quick", Percent: 12, Least: 3, Callers: 5, Sandboxes: 200, Bytes: 1 << 28, Large: 64 << 20, Idle: 5 * time.Second, Within: 2 * time.Second,
		Burst: 100, Boxes: 20, Making: 30 * time.Second, Settled: 5 * time.Second, Resting: 5 * time.Second}
}

// rounds is how many rounds an operation gets that asks for full.
func (e Effort) rounds(full int) int { return max(e.Least, full*e.Percent/100) }
