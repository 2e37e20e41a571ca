package config_test

import (
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
)

func TestParseSize(t *testing.T) {
	for in, want := range map[string]config.Size{
		"0": 0, "1": 1, "1b": 1, "64k": 64 << 10, "64K": 64 << 10, "512m": 512 << 20, "512MB": 512 << 20,
		"2g": 2 << 30, "2GiB": 2 << 30, "1t": 1 << 40, "8388607t": 8388607 << 40,
	} {
		got, err := config.ParseSize(in)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
		if again, err := config.ParseSize(got.String()); err != nil || again != got {
			t.Errorf("%d is written %q and read %d, %v", got, got, again, err)
		}
	}
	for _, in := range []string{"", "k", "-1", "+1", "1.5g", "1e3", "2 g", "2i", "2ib", "2x", "0x10", "9223372036854775808", "8388608t", "١"} {
		if got, err := config.ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %d; want an error", in, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for in, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "0d": 0, "90s": 90 * time.Second, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute,
		"24h": day, "7d": 7 * day, "1d12h": day + 12*time.Hour, "250ms": 250 * time.Millisecond, "100h": 100 * time.Hour,
	} {
		got, err := config.ParseDuration(in)
		if err != nil || time.Duration(got) != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", in, got, err, want)
		}
		if again, err := config.ParseDuration(got.String()); err != nil || again != got {
			t.Errorf("%q is written %q and read %v, %v", in, got, again, err)
		}
	}
	for _, in := range []string{"", "d", "5", "-1s", "-1d", "1d-5h", "1h2d", "1w", "1.5d", "99999d", "1d2d", "9999999h"} {
		if got, err := config.ParseDuration(in); err == nil {
			t.Errorf("ParseDuration(%q) = %v; want an error", in, got)
		}
	}
}
