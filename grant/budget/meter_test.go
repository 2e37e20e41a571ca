package budget_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

func TestStartRefuses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		bound budget.Amount
		first budget.Amount
		code  sandbox.Code
		field string
	}{
		{"no calls", bound(budget.Calls, 0), budget.One(budget.Calls, 1), sandbox.CodeBudgetExceeded, "budget.calls"},
		{"no time", bound(budget.WallMs, 0), budget.One(budget.Calls, 1), sandbox.CodeBudgetExceeded, "budget.wallMs"},
		{"negative", budget.NoBound(), budget.One(budget.Files, -1), sandbox.CodeValidation, "budget.files"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPurse(tt.bound)
			_, _, err := budget.Start(context.Background(), p, tt.first)
			wantCode(t, err, tt.code, tt.field)
			if p.account.Used != (budget.Amount{}) {
				t.Errorf("used %+v", p.account.Used)
			}
		})
	}
}

func TestAdd(t *testing.T) {
	p := newPurse(bound(budget.Files, 5))
	m, ctx := start(t, p)
	for _, n := range []int64{2, 0, 3} {
		if err := m.Add(budget.Files, n); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, m.Add(budget.Files, 1), sandbox.CodeBudgetExceeded, "budget.files")
	wantCode(t, m.Add(budget.Files, -1), sandbox.CodeValidation, "budget.files")
	if ctx.Err() != nil {
		t.Error("a file too many ended the operation")
	}
	end(t, m, p, budget.Files, 5)
	wantCode(t, m.Add(budget.Calls, 1), sandbox.CodeInternal, "")
	if n, err := m.Writer(budget.BytesOut, nil).Write([]byte("x")); n != 0 || err == nil {
		t.Errorf("wrote %d after the end, %v", n, err)
	}
}

func TestUnmetered(t *testing.T) {
	p := newPurse(budget.NoBound())
	m, _ := start(t, p)
	wantCode(t, m.Watch(budget.GPUMs, nil), sandbox.CodeUnsupported, "budget.gpuMs")
	if err := m.Watch(budget.Files, func() (time.Duration, error) { return 0, nil }); sandbox.CodeOf(err) != sandbox.CodeInternal {
		t.Errorf("watched files: %v", err)
	}
	q := newPurse(bound(budget.GPUMs, 0))
	m, _ = start(t, q)
	wantCode(t, m.Watch(budget.GPUMs, func() (time.Duration, error) { return 0, nil }), sandbox.CodeBudgetExceeded, "budget.gpuMs")
}

// TestShortOperation checks that what ends soon is two draws and costs what it
// took.
func TestShortOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPurse(budget.NoBound())
		m, ctx := start(t, p)
		time.Sleep(3500 * time.Microsecond)
		end(t, m, p, budget.WallMs, 4)
		if p.draws != 1 || !errors.Is(ctx.Err(), context.Canceled) || sandbox.CodeOf(context.Cause(ctx)) != sandbox.CodeInternal {
			t.Errorf("%d draws, %v", p.draws, context.Cause(ctx))
		}
	})
}

// TestBusyAccounts checks that an operation goes on while others work on its
// accounts, for as long as what it holds lasts.
func TestBusyAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPurse(budget.NoBound())
		m, ctx := start(t, p)
		time.Sleep(3 * time.Second)
		p.mu.Lock()
		p.fail = &sandbox.Error{Code: sandbox.CodeBusy, Field: "x"}
		p.mu.Unlock()
		time.Sleep(300 * time.Millisecond)
		if ctx.Err() != nil {
			t.Errorf("ended at once: %v", context.Cause(ctx))
		}
		<-ctx.Done()
		wantCode(t, context.Cause(ctx), sandbox.CodeBusy, "x")
		if over := m.Used().WallMs - p.held.WallMs; over > 100 {
			t.Errorf("ran %d ms without", over)
		}
	})
}

// TestStuckAccounts checks that a stream which waits for the accounts does not
// keep the time from running out.
func TestStuckAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPurse(budget.NoBound())
		m, ctx := start(t, p)
		time.Sleep(2 * time.Second)
		p.mu.Lock()
		p.stuck = make(chan struct{})
		p.mu.Unlock()
		written := make(chan error)
		go func() {
			_, err := m.Writer(budget.BytesOut, io.Discard).Write([]byte("x"))
			written <- err
		}()
		wantCode(t, <-written, sandbox.CodeBusy, "stuck")
		wantCode(t, context.Cause(ctx), sandbox.CodeBusy, "stuck")
		if over := m.Used().WallMs - p.held.WallMs; over > (budget.Patience + budget.MeterInterval).Milliseconds() {
			t.Errorf("ran %d ms without", over)
		}
		end(t, m, p, budget.BytesOut, 0)
	})
}

// TestStreamsAfterTheEnd ends an operation while its streams draw: what they
// moved until then was charged, and nothing is moved afterwards.
func TestStreamsAfterTheEnd(t *testing.T) {
	for range 50 {
		p := newPurse(budget.NoBound())
		m, _ := start(t, p)
		var moved atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				w := m.Writer(budget.BytesOut, counter{&moved})
				for {
					if _, err := w.Write(make([]byte, 3000)); err != nil {
						return
					}
				}
			})
		}
		for moved.Load() < 100_000 {
			runtime.Gosched()
		}
		used, err := m.End()
		if err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if got := p.account.Used.BytesOut; got < moved.Load() || got != used.BytesOut {
			t.Fatalf("moved %d, charged %d, used %d", moved.Load(), got, used.BytesOut)
		}
	}
}

// counter counts what is written.
type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) { c.n.Add(int64(len(p))); return len(p), nil }

// TestEndFollowsTheCaller checks that the end of the caller's context is the
// operation's, and that it is settled all the same.
func TestEndFollowsTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPurse(budget.NoBound())
		caller, cancel := context.WithCancelCause(context.Background())
		m, ctx, err := budget.Start(caller, p, budget.One(budget.Calls, 1))
		if err != nil {
			t.Fatal(err)
		}
		why := errors.New("revoked")
		time.Sleep(time.Second)
		cancel(why)
		<-ctx.Done()
		if context.Cause(ctx) != why {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		if err := m.Add(budget.Files, 1); !errors.Is(err, why) {
			t.Errorf("more after the end: %v", err)
		}
		end(t, m, p, budget.WallMs, 1000)
		end(t, m, p, budget.WallMs, 1000)
	})
}
