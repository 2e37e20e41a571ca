package keylock_test

import (
	"context"
	"fmt"
	"os"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
)

func ExampleDir_TryExclusive() {
	tmp, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(tmp)

	leases := keylock.Open(tmp)
	running, err := leases.Shared(context.Background(), "sbx-chat-42")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = leases.TryExclusive("sbx-chat-42")
	fmt.Println(sandbox.CodeOf(err))
	_ = running.Release()
	removing, err := leases.TryExclusive("sbx-chat-42")
	fmt.Println(err)
	_ = removing.Release()
	// Output:
	// SANDBOX.BUSY
	// <nil>
}
