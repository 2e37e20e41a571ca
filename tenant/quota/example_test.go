package quota_test

import (
	"fmt"
	"time"

	"github.com/bulkhead-dev/sandbox/tenant/quota"
)

func ExampleKeeper_Acquire() {
	keeper := quota.New(time.Now)
	acme := quota.Account{Name: "acme", Limits: quota.NoLimits().With(quota.Commands, 1)}
	release, err := keeper.Acquire(quota.Want{Commands: 1}, acme)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = keeper.Acquire(quota.Want{Commands: 1}, acme)
	fmt.Println(err)
	after, _ := quota.RetryAfter(err)
	fmt.Println(after)
	release()
	// Output:
	// QUOTA.BUDGET_EXCEEDED: take from quota: quota.commands: the quota is used up: commands: the limit is 1, 1 in use, 1 wanted (try again in 1s)
	// 1s
}
