//go:build linux

package manager_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// noKeys remembers no decisions.
type noKeys struct{}

func (noKeys) Use(_, _, call string, _ time.Time) (string, error) { return call, nil }

// TestFloodOfGrants holds that grants without number do not fill the memory, and
// that a call which was forgotten goes on with what it had.
func TestFloodOfGrants(t *testing.T) {
	t.Parallel()
	c, _ := onLocal(t, "")
	c.ctl.Control.Recorder, c.ctl.Control.Keys = silent{}, noKeys{}
	const most = 64
	manager.KeepCalls(c.Manager, most)
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
	for i := range 4 * most {
		op := ended
		op.Grant.ID, op.Grant.Call = fmt.Sprint("flood-", i), fmt.Sprint("flood-", i)
		ops <- op
	}
	close(ops)
	all.Wait()
	if n := manager.Calls(c.Manager); n > most {
		t.Errorf("%d calls are kept", n)
	}
	c.refused("a call whose budget is used up", first, sandbox.CodeBudgetExceeded)
	c.refused("a call that has ended", ended, sandbox.CodePermissionDeny)
}

// TestSpentCall holds that a call whose budget is used up puts nothing on record
// one by one, however often it asks, and goes on when there is more.
func TestSpentCall(t *testing.T) {
	t.Parallel()
	c, _ := onLocal(t, `, "budgets": {"tenant": {"calls": 1}}`)
	op := c.operation(grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: c.net.URL("http", testenv.Files, "/greeting.txt")})
	w := &counting{Recorder: c.ctl.Control.Recorder}
	c.ctl.Control.Recorder = w
	if _, err := c.operate(op); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		c.refused("beyond the budget", op, sandbox.CodeBudgetExceeded)
	}
	if w.begun != 2 || w.refused != 4 {
		t.Errorf("%d operations were begun, and %d refused before", w.begun, w.refused)
	}
	c.Reload(c.parsed(`, "budgets": {"tenant": {"calls": 2}}`))
	if _, err := c.operate(op); err != nil {
		t.Error(err)
	}
}

// counting is a recorder that counts the entries it receives.
type counting struct {
	manager.Recorder
	begun, refused int
}

func (w *counting) Begin(ctx context.Context, b evidence.Begin, require bool) (manager.Entry, error) {
	w.begun++
	return w.Recorder.Begin(ctx, b, require)
}

func (w *counting) Refused(ctx context.Context, b evidence.Begin, end evidence.End, require bool) error {
	w.refused++
	return w.Recorder.Refused(ctx, b, end, require)
}
