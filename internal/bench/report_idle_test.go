//go:build linux

package main

import (
	"strings"
	"testing"
	"time"
)

func TestIdleBudgets(t *testing.T) {
	const mib = 1 << 20
	all := reportIdle{Wanted: 500, Sandboxes: 500, Before: 20 * mib, RSS: 60 * mib, CPU: 15 * time.Millisecond, Rest: 30 * time.Second}
	some := reportIdle{Wanted: 500, Sandboxes: 160, Before: 20 * mib, RSS: 30 * mib, Rest: 30 * time.Second}
	shrunk := reportIdle{Wanted: 500, Sandboxes: 100, Before: 20 * mib, RSS: 18 * mib, Rest: 30 * time.Second}
	tests := []struct {
		name     string
		idle     *reportIdle
		rss, cpu float64
		ok       bool
	}{
		{"not measured", nil, 0, 0, false},
		{"none came to be", &reportIdle{Wanted: 500, Rest: time.Second}, 0, 0, false},
		{"all", &all, 60, 0.05, true},
		{"the missing count as the others", &some, 51.25, 0, true},
		{"a heap that was collected is no gain", &shrunk, 18, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &Report{Idle: tt.idle}
			if rss, ok := idleRSS(500)(r); ok != tt.ok || rss != tt.rss {
				t.Errorf("%g MiB, %v", rss, ok)
			}
			if cpu, ok := idleCPU(r); ok != tt.ok || cpu != tt.cpu {
				t.Errorf("%g %%, %v", cpu, ok)
			}
		})
	}
}

func TestIdleSaysWhatIsCalculated(t *testing.T) {
	for n, calculated := range map[int]bool{499: true, 500: false} {
		r := Report{Idle: &reportIdle{Wanted: 500, Sandboxes: n}}
		if text := r.Text(); strings.Contains(text, "calculated") != calculated || !strings.Contains(text, "of 500 wanted") {
			t.Errorf("%d: %s", n, text)
		}
	}
}
