package sandbox_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

func TestLimitHitText(t *testing.T) {
	for want, h := range map[string]*sandbox.LimitHit{
		"limits.processes: 65 processes, bound 64":          {Limit: sandbox.LimitProcesses, Current: 65, Bound: 64, Unit: sandbox.UnitProcesses},
		"limits.openFiles: 64 files, bound 64":              {Limit: sandbox.LimitOpenFiles, Current: 64, Bound: 64, Unit: sandbox.UnitFiles},
		"limits.memory: 268.5 MiB used, bound 256 MiB":      {Limit: sandbox.LimitMemory, Current: 268<<20 + 512<<10, Bound: 256 << 20, Unit: sandbox.UnitBytes},
		"limits.memory: 1.5 GiB used, bound 1000 bytes":     {Limit: sandbox.LimitMemory, Current: 3 << 29, Bound: 1000, Unit: sandbox.UnitBytes},
		"limits.fileSize: 4 KiB written, bound 4 KiB":       {Limit: sandbox.LimitFileSize, Current: 4096, Bound: 4096, Unit: sandbox.UnitBytes},
		"limits.maxOutputBytes: 2 MiB written, bound 1 MiB": {Limit: sandbox.LimitMaxOutputBytes, Current: 2 << 20, Bound: 1 << 20, Unit: sandbox.UnitBytes},
		"limits.cpuSeconds: 11 s used, bound 10 s":          {Limit: sandbox.LimitCPUSeconds, Current: 11, Bound: 10, Unit: sandbox.UnitSeconds},
		"limits.timeout: 600 s used, bound 600 s":           sandbox.TimeHit(10*time.Minute+20*time.Millisecond, 10*time.Minute),
		"limits.timeout: 1520 ms used, bound 1500 ms":       sandbox.TimeHit(1520*time.Millisecond, 1500*time.Millisecond),
		"limits.timeout: 1 s used, bound 1 s":               sandbox.TimeHit(0, time.Second), // at its start
	} {
		if got := h.String(); got != want {
			t.Errorf("%+v: %q, want %q", h, got, want)
		}
		if hint := h.Hint(); !strings.Contains(hint, "raise "+h.Limit) {
			t.Errorf("%q does not say what to raise", hint)
		}
	}
	b, err := json.Marshal(sandbox.LimitHit{Limit: sandbox.LimitMemory, Current: 2, Bound: 1, Unit: sandbox.UnitBytes})
	if want := `{"limit":"limits.memory","current":2,"bound":1,"unit":"bytes"}`; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}
