package ledger_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	l, err := ledger.Open(dir, ledger.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	a, err := l.Account(ctx,
		ledger.Limit{ID: "grant:7f3a", Bound: budget.Amount{Calls: 10, BytesIn: 1 << 20}, Expires: time.Now().Add(time.Hour)},
		ledger.Limit{ID: "tenant:acme", Bound: budget.Amount{Calls: 1000, BytesIn: 1 << 30}})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := a.Reserve(ctx, budget.Amount{Calls: 1, BytesIn: 64 << 10}) // the most that it may become
	if err != nil {
		fmt.Println(err)
		return
	}
	err = r.Settle(ctx, budget.Amount{Calls: 1, BytesIn: 5000}) // what it was
	chain, _ := a.Chain(ctx)
	for _, c := range chain {
		fmt.Println(c.ID, c.Used.Calls, c.Used.BytesIn, err)
	}
	_, err = a.Reserve(ctx, budget.Amount{Calls: 10})
	fmt.Println(err)
	// Output:
	// grant:7f3a 1 5000 <nil>
	// tenant:acme 1 5000 <nil>
	// QUOTA.BUDGET_EXCEEDED: draw from budget: budget.calls: the budget of grant:7f3a does not have enough calls: 1 of 10 are used or reserved, 10 more wanted (ask for a larger budget, or wait for what is running to give back what it does not use)
}
