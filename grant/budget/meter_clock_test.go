package budget_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// TestSandboxTime checks that an operation ends with its time, and no sooner.
func TestSandboxTime(t *testing.T) {
	for _, ms := range []int64{1, 7, 60, 1000, 10000} {
		synctest.Test(t, func(t *testing.T) {
			p := newPurse(bound(budget.WallMs, ms))
			m, ctx := start(t, p)
			begin := time.Now()
			<-ctx.Done()
			wantCode(t, context.Cause(ctx), sandbox.CodeBudgetExceeded, "budget.wallMs")
			if d := time.Since(begin).Milliseconds(); d < ms || d > ms+100 {
				t.Errorf("%d ms ended after %d", ms, d)
			}
			end(t, m, p, budget.WallMs, time.Since(begin).Milliseconds())
		})
	}
}

// TestCPUTime lets a clock run at all speeds up to that of every processor.
func TestCPUTime(t *testing.T) {
	for _, percent := range []int64{0, 10, 100, 200} {
		synctest.Test(t, func(t *testing.T) {
			p := newPurse(bound(budget.CPUMs, 500))
			m, ctx := start(t, p)
			begin := time.Now()
			err := m.Watch(budget.CPUMs, func() (time.Duration, error) {
				return time.Since(begin) * time.Duration(percent) / 100, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-ctx.Done():
				wantCode(t, context.Cause(ctx), sandbox.CodeBudgetExceeded, "budget.cpuMs")
				percent := max(percent, 1)
				over := time.Since(begin).Milliseconds() - 500*100/percent
				if over < -100/percent || over > 100 { // a millisecond that has begun counts
					t.Errorf("at %d %%: ended %d ms after the bound", percent, over)
				}
			case <-time.After(20 * time.Second):
				if percent > 0 {
					t.Errorf("at %d %%: never ended", percent)
				}
			}
			used, err := m.End()
			if err != nil || percent == 0 && used.CPUMs > 1 || percent > 0 && (used.CPUMs < 500 || used.CPUMs > 700) || p.account.Used != used {
				t.Errorf("at %d %%: used %+v, charged %+v, %v", percent, used, p.account.Used, err)
			}
		})
	}
}

// TestClocksAddUp checks that an operation pays for all that it started.
func TestClocksAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPurse(bound(budget.CPUMs, 1000))
		m, ctx := start(t, p)
		begin := time.Now()
		for n := range 3 {
			late := time.Duration(n) * 100 * time.Millisecond
			time.Sleep(late - time.Since(begin))
			err := m.Watch(budget.CPUMs, func() (time.Duration, error) { return max(0, time.Since(begin)-late), nil })
			if err != nil {
				t.Fatal(err)
			}
		}
		<-ctx.Done()
		wantCode(t, context.Cause(ctx), sandbox.CodeBudgetExceeded, "budget.cpuMs")
		if at := time.Since(begin); at < 430*time.Millisecond || at > 540*time.Millisecond { // 434 + 333 + 233
			t.Errorf("ended after %v", at)
		}
	})
}

// TestFewLooks checks that clocks are read seldom while there is plenty.
func TestFewLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPurse(budget.NoBound())
		m, _ := start(t, p)
		looks := 0
		if err := m.Watch(budget.CPUMs, func() (time.Duration, error) { looks++; return 0, nil }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if _, err := m.End(); err != nil {
			t.Fatal(err)
		}
		if looks > 210 || p.draws > 40 {
			t.Errorf("%d looks and %d draws in ten seconds", looks, p.draws)
		}
	})
}

// TestClocksFail checks that what cannot be measured does not run on, and is
// charged with all that was reserved for it.
func TestClocksFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPurse(budget.NoBound())
		m, ctx := start(t, p)
		begin := time.Now()
		err := m.Watch(budget.CPUMs, func() (time.Duration, error) {
			if d := time.Since(begin); d < 300*time.Millisecond {
				return d, nil
			}
			return 0, errors.New("no such process")
		})
		if err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		wantCode(t, context.Cause(ctx), sandbox.CodeUnavailable, "budget.cpuMs")
		if d := time.Since(begin); d > 400*time.Millisecond {
			t.Errorf("ended after %v", d)
		}
		held := p.held.CPUMs
		end(t, m, p, budget.CPUMs, held)
	})
}

// TestClockHangs checks that what does not answer is no way to run on, nor to
// keep an operation from its end.
func TestClockHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPurse(budget.NoBound())
		m, ctx := start(t, p)
		begin := time.Now()
		release := make(chan struct{})
		defer close(release)
		var asked atomic.Int64
		err := m.Watch(budget.CPUMs, func() (time.Duration, error) {
			asked.Add(1)
			<-release
			return 0, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Add(budget.Files, 1); err != nil { // without waiting for the clock
			t.Fatal(err)
		}
		<-ctx.Done()
		wantCode(t, context.Cause(ctx), sandbox.CodeUnavailable, "budget.cpuMs")
		end(t, m, p, budget.CPUMs, 101) // what was reserved
		if d := time.Since(begin); d < budget.Silence || d > budget.Silence+time.Second || asked.Load() != 1 {
			t.Errorf("ended after %v, asked %d times", d, asked.Load())
		}
	})
}

// TestClockIsLate checks that a clock that takes its time is asked once and
// counts when it answers, and that other times end the operation meanwhile.
func TestClockIsLate(t *testing.T) {
	for _, tt := range []struct {
		k     budget.Kind
		after time.Duration // of the operation's end
	}{
		{budget.CPUMs, 10 * time.Second},
		{budget.WallMs, 500 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, ctx := start(t, newPurse(bound(tt.k, 500)))
			begin := time.Now()
			var asked atomic.Int64
			err := m.Watch(budget.CPUMs, func() (time.Duration, error) {
				if asked.Add(1) == 1 {
					time.Sleep(10 * time.Second)
				}
				return time.Since(begin), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			<-ctx.Done()
			over := time.Since(begin) - tt.after
			wantCode(t, context.Cause(ctx), sandbox.CodeBudgetExceeded, "budget."+tt.k.String())
			if over < 0 || over > 2*budget.MeterInterval || asked.Load() != 1 {
				t.Errorf("%s: ended %v after the bound, asked %d times", tt.k, over, asked.Load())
			}
			if used, err := m.End(); err != nil || used.CPUMs < 10_000 || used.CPUMs > 10_100 {
				t.Errorf("%s: used %+v, %v", tt.k, used, err)
			}
		})
	}
}

// TestClockGoesBack checks that nothing is given back for it.
func TestClockGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPurse(budget.NoBound())
		m, _ := start(t, p)
		begin := time.Now()
		err := m.Watch(budget.CPUMs, func() (time.Duration, error) {
			if d := time.Since(begin); d < time.Second {
				return d, nil
			}
			return 0, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if used, _ := m.End(); used.CPUMs < 900 || used.CPUMs > 1000 {
			t.Errorf("used %d ms", used.CPUMs)
		}
	})
}

// TestBusyProcess stops a real process that uses all the time it gets. The
// kernel reports its usage at its end. On a machine that is busy with other
// tests the meter may be late, so the best of some rounds is what is measured.
func TestBusyProcess(t *testing.T) {
	const budgetMs, late = 300, 100
	best := int64(1 << 62)
	for round := 0; round < 5 && best > budgetMs+late; round++ {
		best = min(best, busyProcess(t, budgetMs))
	}
	t.Logf("used %d ms of %d", best, budgetMs)
	if best < budgetMs-20 || best > budgetMs+late {
		t.Errorf("the process used %d ms, its budget is %d", best, budgetMs)
	}
}

// busyProcess runs one until it is stopped and returns the milliseconds that it
// used.
func busyProcess(t *testing.T, budgetMs int64) int64 {
	t.Helper()
	p := newPurse(bound(budget.CPUMs, budgetMs))
	m, ctx := start(t, p)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), busyEnv+"=1", "GOMAXPROCS=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	err := m.Watch(budget.CPUMs, func() (time.Duration, error) {
		var ts unix.Timespec
		err := unix.ClockGettime(int32(^pid)<<3|2, &ts) // the processor time of a process
		return time.Duration(ts.Nano()), err
	})
	if err != nil {
		t.Fatal(err)
	}
	if cmd.Wait() == nil {
		t.Error("the process ended by itself")
	}
	wantCode(t, context.Cause(ctx), sandbox.CodeBudgetExceeded, "budget.cpuMs")
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Milliseconds()
}
