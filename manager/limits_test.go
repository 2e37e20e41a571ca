//go:build linux

package manager_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestLimitsBite holds that every limit of the settings has an effect on both
// kinds of sandboxes, and that the result names it.
func TestLimitsBite(t *testing.T) {
	t.Parallel()
	t.Run("docker", func(t *testing.T) {
		r := newRig(t)
		limitsBite(t, r.manager(""), who("s"))
	})
	t.Run("local", func(t *testing.T) {
		limitsBite(t, newSandboxed(t).Manager, config.Who{Agent: "main", Session: "s"})
	})
}

func limitsBite(t *testing.T, m *manager.Manager, who config.Who) {
	const mib = 1 << 20
	for _, tt := range []struct {
		name, line string
		bounds     config.LimitSettings
		want       sandbox.LimitHit // Current: at least
		code       int              // -1: any failure
	}{
		{"timeout", "sleep 1000", config.LimitSettings{Timeout: new(config.Duration(20 * time.Second))}, // in which it has begun for sure
			sandbox.LimitHit{Limit: sandbox.LimitTimeout, Current: 20, Bound: 20, Unit: sandbox.UnitSeconds}, 137},
		{"output", "yes | head -c 5000; exit 0", config.LimitSettings{MaxOutputBytes: new(config.Size(1000))},
			sandbox.LimitHit{Limit: sandbox.LimitMaxOutputBytes, Current: 5000, Bound: 1000, Unit: sandbox.UnitBytes}, 0},
		{"memory", "{ head -c 90m /dev/zero; sleep 1000; } | tail -c 90m", config.LimitSettings{Memory: new(config.Size(32 * mib))},
			sandbox.LimitHit{Limit: sandbox.LimitMemory, Current: 32*mib + 1, Bound: 32 * mib, Unit: sandbox.UnitBytes}, 137},
		{"cpu", "while :; do (i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done); done", config.LimitSettings{CPUSeconds: new(int64(1))},
			sandbox.LimitHit{Limit: sandbox.LimitCPUSeconds, Current: 1, Bound: 1, Unit: sandbox.UnitSeconds}, -1},
		{"processes", "for i in 1 2 3 4 5 6 7 8 9; do setsid sleep 1000 & done; wait", config.LimitSettings{Processes: new(int64(5))},
			sandbox.LimitHit{Limit: sandbox.LimitProcesses, Current: 6, Bound: 5, Unit: sandbox.UnitProcesses}, 137},
		{"file size", "exec head -c 5000 /dev/zero >/tmp/large", config.LimitSettings{FileSize: new(config.Size(1000))},
			sandbox.LimitHit{Limit: sandbox.LimitFileSize, Current: 1000, Bound: 1000, Unit: sandbox.UnitBytes}, 153},
		{"open files", `exec 3</dev/null 4</dev/null 5</dev/null 6</dev/null 7</dev/null; i=0
while [ $i -lt ROUNDS ]; do i=$((i+1)); done; exec 8</dev/null`, config.LimitSettings{OpenFiles: new(int64(8))},
			sandbox.LimitHit{Limit: sandbox.LimitOpenFiles, Current: 8, Bound: 8, Unit: sandbox.UnitFiles}, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := bounded(t, m, who, tt.line, &tt.bounds)
			h := r.Limit
			if h == nil {
				t.Fatalf("status %d names no limit; stderr %.200q", r.ExitCode, r.Stderr)
			}
			if h.Limit != tt.want.Limit || h.Bound != tt.want.Bound || h.Unit != tt.want.Unit || h.Current < tt.want.Current {
				t.Errorf("%+v, want %+v", *h, tt.want)
			}
			if tt.code >= 0 && r.ExitCode != tt.code || tt.code < 0 && r.ExitCode == 0 {
				t.Errorf("status %d, want %d", r.ExitCode, tt.code)
			}
			if timeout := tt.want.Limit == sandbox.LimitTimeout; r.TimedOut != timeout {
				t.Errorf("timed out: %v", r.TimedOut)
			}
			if output := tt.want.Limit == sandbox.LimitMaxOutputBytes; r.Truncated != output {
				t.Errorf("truncated: %v", r.Truncated)
			}
			if r.Blocked {
				t.Errorf("blocked: %s", r.BlockedReason)
			}
		})
	}
}

// bounded runs a line under limits. A line with ROUNDS spends that many rounds
// while it is at a limit which only a check at that time can name; when no
// check came in time, bounded runs the line again with more rounds.
func bounded(t *testing.T, m *manager.Manager, who config.Who, line string, bounds *config.LimitSettings) sandbox.Result {
	t.Helper()
	for rounds := 400_000; ; rounds *= 4 {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		r, err := m.Capture(ctx, manager.Request{
			Who: who, Flags: &config.SandboxSettings{Limits: bounds},
			Command: sandbox.Command{Args: []string{"sh", "-c", strings.ReplaceAll(line, "ROUNDS", strconv.Itoa(rounds))}},
		})
		cancel()
		must(t, err)
		if r.Limit != nil || !strings.Contains(line, "ROUNDS") || rounds > 10_000_000 {
			return r
		}
	}
}
