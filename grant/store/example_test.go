package store_test

import (
	"context"
	"fmt"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/store"
)

func ExampleContext() {
	var revoked store.Memory
	parent := grant.Grant{ID: "7f3a", Expires: time.Now().Add(time.Hour)}
	child := grant.Grant{ID: "91c0", Parent: parent.ID, Expires: parent.Expires}
	if err := revoked.Derived(child.ID, parent.ID, child.Expires); err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := store.Context(context.Background(), &revoked, child)
	defer cancel()
	if err := revoked.Revoke(parent.ID, parent.Expires); err != nil {
		fmt.Println(err)
		return
	}
	<-ctx.Done()
	fmt.Println(sandbox.CodeOf(context.Cause(ctx)))
	// Output: SANDBOX.PERMISSION_DENY
}
