package tenant_test

import (
	"context"
	"fmt"

	"github.com/bulkhead-dev/sandbox/tenant"
)

func ExampleQueue_Acquire() {
	starts, err := tenant.NewQueue(tenant.Options{Slots: 4, Waiting: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	slot, err := starts.Acquire(context.Background(), "acme")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(starts.Load().Held)
	slot.Release() // when the command has started
	fmt.Println(starts.Load().Held)
	// Output:
	// 1
	// 0
}
