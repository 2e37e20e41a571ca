package budget_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
)

// TestManyOperations lets 64 operations at once stream from one tenant's
// account on disk until it is empty: together they get every byte of it and no
// more.
func TestManyOperations(t *testing.T) {
	const room, operations = 10_000_000, 64
	l, err := ledger.Open(t.TempDir(), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tenant := ledger.Limit{ID: "tenant:t", Bound: bound(budget.BytesIn, room)}
	var total, exceeded atomic.Int64
	var wg sync.WaitGroup
	for n := range operations {
		wg.Go(func() {
			a, err := l.Account(context.Background(), ledger.Limit{ID: fmt.Sprint("grant:", n), Bound: budget.NoBound()}, tenant)
			if err != nil {
				t.Error(err)
				return
			}
			for over := false; !over; { // an operation that found nothing may only have come too early
				m, _ := start(t, a)
				got, err := io.Copy(io.Discard, m.Reader(budget.BytesIn, io.LimitReader(zeros{}, 100_000)))
				total.Add(got)
				over = sandbox.CodeOf(err) == sandbox.CodeBudgetExceeded
				late := sandbox.CodeOf(err) == sandbox.CodeBusy // the disk stood still for seconds
				if used, endErr := m.End(); endErr != nil || used.BytesIn != got || err != nil && !over && !late {
					t.Errorf("moved %d, used %+v, %v, %v", got, used, err, endErr)
					return
				}
			}
			exceeded.Add(1)
		})
	}
	wg.Wait()
	a, err := l.Account(context.Background(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := a.Chain(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if total.Load() != room || chain[0].Used.BytesIn != room || exceeded.Load() != operations {
		t.Errorf("%d bytes moved, %d charged of %d; %d of %d operations met the bound",
			total.Load(), chain[0].Used.BytesIn, room, exceeded.Load(), operations)
	}
}

// BenchmarkOperation is an operation of 4 KiB, from start to end, on accounts
// on disk.
func BenchmarkOperation(b *testing.B) {
	l, err := ledger.Open(b.TempDir(), ledger.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var chain []ledger.Limit
	for _, id := range []string{"grant:g", "session:s", "agent:a", "tenant:t"} {
		chain = append(chain, ledger.Limit{ID: id, Bound: budget.NoBound()})
	}
	a, err := l.Account(context.Background(), chain...)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		m, _, err := budget.Start(context.Background(), a, budget.One(budget.Calls, 1))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, m.Reader(budget.BytesIn, io.LimitReader(zeros{}, 4<<10))); err != nil {
			b.Fatal(err)
		}
		if _, err := m.End(); err != nil {
			b.Fatal(err)
		}
	}
}
