package command

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestBudgets holds generous multiples of the budgets, 50 µs for a typical
// line and 10 ms and 128 MiB for one of 64 KiB, so that it passes on a busy
// machine and under the race detector and yet fails when something grows with
// the square of the text.
func TestBudgets(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := benchPolicy(t)
	mean := func(text string, rounds int) time.Duration {
		start := processor(t)
		for range rounds {
			p.Judge(Input{Text: text, Dir: caseDir})
		}
		return (processor(t) - start) / time.Duration(rounds)
	}
	d := mean(typical, 500)
	t.Logf("%-14s %v", "typical", d)
	if d > 2*time.Millisecond {
		t.Errorf("a typical line took %v", d)
	}
	for name, text := range large() {
		rounds, most := 4, 300*time.Millisecond
		if raceEnabled { // which makes each access to memory a call
			rounds, most = 1, 5*most
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := mean(text, rounds)
		runtime.ReadMemStats(&after)
		t.Logf("%-14s %v", name, d)
		if d > most {
			t.Errorf("%s: 64 KiB took %v", name, d)
		}
		if n := (after.TotalAlloc - before.TotalAlloc) / uint64(rounds); n > 128<<20 {
			t.Errorf("%s: 64 KiB took %d MiB", name, n>>20)
		}
	}
}

// processor returns the time that the thread has had of a processor, which
// does not grow because others are busy.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
