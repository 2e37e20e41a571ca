//go:build linux

package main

import (
	"slices"
	"testing"
	"time"
)

// upTo is 1, 2, … n milliseconds.
func upTo(n int) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = time.Duration(i+1) * time.Millisecond
	}
	return all
}

func TestPercentileIsNearestRank(t *testing.T) {
	const ms = time.Millisecond
	textbook := []time.Duration{15 * ms, 20 * ms, 35 * ms, 40 * ms, 50 * ms}
	tests := []struct {
		name    string
		samples []time.Duration
		p       int
		want    time.Duration
	}{
		{"textbook 5", textbook, 5, 15 * ms},
		{"textbook 30", textbook, 30, 20 * ms},
		{"textbook 40", textbook, 40, 20 * ms},
		{"textbook 50", textbook, 50, 35 * ms},
		{"textbook 100", textbook, 100, 50 * ms},
		{"one sample", upTo(1), 99, 1 * ms},
		{"two samples, the median is the smaller", upTo(2), 50, 1 * ms},
		{"two samples, just above the median", upTo(2), 51, 2 * ms},
		{"99 of 100", upTo(100), 99, 99 * ms},
		{"99 of 101", upTo(101), 99, 100 * ms},
		{"99 of 10 is the largest", upTo(10), 99, 10 * ms},
		{"95 of 20", upTo(20), 95, 19 * ms},
		{"95 of 21", upTo(21), 95, 20 * ms},
		{"below the range", upTo(10), -3, 1 * ms},
		{"above the range", upTo(10), 200, 10 * ms},
		{"none", nil, 50, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := percentileReport(tt.samples, tt.p); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestSummarize(t *testing.T) {
	samples := upTo(200)
	slices.Reverse(samples)
	got := summarizeReport(samples)
	const ms = time.Millisecond
	want := Summary{N: 200, Min: 1 * ms, P50: 100 * ms, P95: 190 * ms, P99: 198 * ms, Max: 200 * ms}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if samples[0] != 200*ms {
		t.Error("the samples were put in another order")
	}
	if got := summarizeReport(nil); got != (Summary{}) {
		t.Errorf("no samples give %+v", got)
	}
}
