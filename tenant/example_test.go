package tenant_test

import (
	"fmt"
	"time"

	"github.com/bulkhead-dev/sandbox/tenant"
)

func ExampleKeeper_Acquire() {
	keeper := tenant.New(time.Now)
	acme := tenant.Account{Name: "acme", Limits: tenant.NoLimits().With(tenant.Commands, 1)}
	release, err := keeper.Acquire(tenant.Want{Commands: 1}, acme)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = keeper.Acquire(tenant.Want{Commands: 1}, acme)
	fmt.Println(err)
	after, _ := tenant.RetryAfter(err)
	fmt.Println(after)
	release()
	// Output:
	// QUOTA.BUDGET_EXCEEDED: take from quota: quota.commands: the quota is used up: commands: the limit is 1, 1 in use, 1 wanted (try again in 1s)
	// 1s
}
