package fair_test

import (
	"context"
	"fmt"

	"github.com/bulkhead-dev/sandbox/tenant/fair"
)

func ExampleQueue_Acquire() {
	starts, err := fair.New(fair.Options{Slots: 4, Waiting: 100})
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
