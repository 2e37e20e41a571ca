//go:build linux

package manager_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/manager"
)

// noKeys remembers no decisions.
type noKeys struct{}

func (noKeys) Use(_, _, call string, _ time.Time) (string, error) { return call, nil }

// TestFloodOfGrants holds that grants without number do not fill the memory, and
// that a call which was forgotten goes on with what it had.
func TestFloodOfGrants(t *testing.T) {
	c, _ := onLocal(t, "")
	c.ctl.Control.Witness, c.ctl.Control.Keys = silent{}, noKeys{}
	first := c.operation(grant.Operation{Kind: grant.OpProcExec, Tool: "echo", Args: []string{"a"}})
	first.Grant.Budget.Calls = 1
	if _, err := c.operate(first); err != nil {
		t.Fatal(err)
	}
	ended := c.operation(grant.Operation{Kind: grant.OpFsRead, Path: "/etc/hosts"})
	c.refused("outside", ended, sandbox.CodeCapabilityBlocked)
	must(t, c.EndCall(tenant, ended.Grant.ID))
	ops := make(chan manager.Operation)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for op := range ops {
				c.refused("outside", op, sandbox.CodeCapabilityBlocked)
			}
		})
	}
	for i := range manager.MaxCalls + 64 {
		op := ended
		op.Grant.ID, op.Grant.Call = fmt.Sprint("flood-", i), fmt.Sprint("flood-", i)
		ops <- op
	}
	close(ops)
	all.Wait()
	if n := manager.Calls(c.Manager); n > manager.MaxCalls {
		t.Errorf("%d calls are kept", n)
	}
	c.refused("a call whose budget is used up", first, sandbox.CodeBudgetExceeded)
	c.refused("a call that has ended", ended, sandbox.CodePermissionDeny)
}
