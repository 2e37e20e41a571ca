package grant_test

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/grant"
)

// TestPromises checks the performance promises with room for a busy machine:
// the best of many small batches counts, in processor time, and the bound is
// four times as wide; under the race detector, which slows each step down, it
// only detects runaways.
func TestPromises(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	g, m, p := realistic()
	guard := compiled3(t)
	room := time.Duration(4)
	if raceEnabled {
		room = 64
	}
	best := func(f func() error) time.Duration {
		out := time.Hour
		for range 60 {
			took := make([]time.Duration, 20)
			for i := range took {
				start := processor(t)
				if err := f(); err != nil {
					t.Fatal(err)
				}
				took[i] = processor(t) - start
			}
			out = min(out, percentile(took))
		}
		return out
	}
	if got := best(func() error { _, err := grant.Build(g, m, p, noon()); return err }); got > room*buildPromise {
		t.Errorf("a profile takes %v at p95, promised are %v", got, buildPromise)
	} else {
		t.Logf("Build: p95 %v", got)
	}
	for name, op := range usual() {
		if got := best(func() error { return guard.Validate(op, now()) }); got > room*validatePromise {
			t.Errorf("%s takes %v at p95, promised are %v", name, got, validatePromise)
		} else {
			t.Logf("Validate %s: p95 %v", name, got)
		}
	}
}

// processor returns the time that the thread has had of a processor, which
// does not grow because others are busy.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
