//go:build linux

package main

import (
	"runtime"
	"testing"
)

func TestParseRollup(t *testing.T) {
	const good = "00400000-7ffd2c4bd000 ---p 00000000 00:00 0    [rollup]\n" +
		"Rss:                3456 kB\nPss:                1200 kB\nPss_Dirty:           900 kB\nShared_Clean:       1024 kB\n"
	tests := []struct {
		name, text string
		rss, pss   int64
		ok         bool
	}{
		{"a process", good, 3456 << 10, 1200 << 10, true},
		{"a process without memory", "Rss: 0 kB\nPss: 0 kB\n", 0, 0, true},
		{"empty", "", 0, 0, false},
		{"without Pss", "Rss: 1 kB\n", 0, 0, false},
		{"another unit", "Rss: 1 MB\nPss: 1 kB\n", 0, 0, false},
		{"no number", "Rss: x kB\nPss: 1 kB\n", 0, 0, false},
		{"negative", "Rss: -1 kB\nPss: 1 kB\n", 0, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rss, pss, err := parseRollup(tt.text)
			if rss != tt.rss && tt.ok || pss != tt.pss && tt.ok || (err == nil) != tt.ok {
				t.Errorf("%d, %d, %v", rss, pss, err)
			}
		})
	}
}

func TestModelOf(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"the first counts", "processor\t: 0\nmodel name\t: Some Processor @ 2 GHz\nmodel name\t: Other\n", "Some Processor @ 2 GHz"},
		{"none told", "processor\t: 0\nBogoMIPS\t: 50\n", runtime.GOARCH},
		{"empty", "", runtime.GOARCH},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := modelOf(tt.text); got != tt.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
