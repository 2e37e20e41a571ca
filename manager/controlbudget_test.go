//go:build linux

package manager_test

import (
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// looks is a call that lists a folder, many times at once where it wants.
func (c *controlled) looks(calls int64) manager.Operation {
	op := c.operation(grant.Operation{Kind: grant.OpFsList, Path: "/workspace"})
	op.Grant.Budget.Calls, op.Grant.Budget.BytesIn = calls, grant.Unlimited
	op.Manifest.Limits.MaxConcurrency = 64
	return op
}

// atOnce carries operations out at the same time, and returns how many came to
// which code.
func (c *controlled) atOnce(ops ...manager.Operation) map[sandbox.Code]int {
	var mu sync.Mutex
	codes := map[sandbox.Code]int{}
	together(len(ops), func(i int) {
		done, _ := c.operate(ops[i])
		mu.Lock()
		defer mu.Unlock()
		codes[done.Code]++
	})
	return codes
}

// passed holds that exactly so many of them passed, and the rest were over the
// budget.
func (c *controlled) passed(what string, codes map[sandbox.Code]int, want, of int) {
	c.t.Helper()
	if codes[""] != want || codes[sandbox.CodeBudgetExceeded] != of-want {
		c.t.Errorf("%s: %v, want %d of %d to pass", what, codes, want, of)
	}
}

// times are n times the same operation.
func times(n int, op manager.Operation) (ops []manager.Operation) {
	for range n {
		ops = append(ops, op)
	}
	return ops
}

// TestBudgetsAreShared lets 64 callers meet at every budget of the hierarchy.
func TestBudgetsAreShared(t *testing.T) {
	t.Parallel()
	onControlled(t, `, "budgets": {"tenant": {"calls": 70}, "agent": {"calls": 60}, "session": {"calls": 50}}`, func(c *controlled) {
		if c.wall == "local" {
			testenv.Exhaustive(c.t, "budgets of operations, which no provider knows of, with another one")
		}
		c.passed("one call", c.atOnce(times(64, c.looks(10))...), 10, 64)

		parent := c.looks(15)
		var ops []manager.Operation
		for i := range 64 {
			child := parent
			if i%2 == 1 { // of another one in between
				child.Grant.ID, child.Line = ops[i-1].Grant.ID, ops[i-1].Line
				child.Grant = ops[i-1].Grant
			}
			c.derive(&child)
			ops = append(ops, child)
		}
		c.passed("many calls of one grant", c.atOnce(ops...), 15, 64)
		if done, _ := c.operate(parent); done.Code != sandbox.CodeBudgetExceeded {
			c.t.Errorf("what was derived did not use the budget: %+v", done)
		}

		each := func(agent, session string) (ops []manager.Operation) {
			for range 64 {
				op := c.looks(5)
				op.Grant.Agent, op.Grant.Session = agent, session
				ops = append(ops, op)
			}
			return ops
		}
		c.passed("a session", c.atOnce(each("main", "s")...), 50-25, 64)
		c.passed("an agent", c.atOnce(each("main", "s2")...), 60-50, 64)
		c.passed("a tenant", c.atOnce(each("other", "s3")...), 70-60, 64)

		if c.wall == "docker" { // a new start of the program
			c.again()
			for i, op := range []manager.Operation{parent, ops[0], ops[1], c.looks(5)} {
				if done, _ := c.operate(op); done.Code != sandbox.CodeBudgetExceeded {
					c.t.Errorf("%d: a restart has filled a budget: %+v", i, done)
				}
			}
		}
		must(c.t, c.ctl.Recorder.Close())
		c.verified()
	})
}

// TestBudgetsAreApart holds that tenants, sessions and agents of the same name
// have nothing in common with those of others.
func TestBudgetsAreApart(t *testing.T) {
	t.Parallel()
	c, _ := newControlledFake(t, nil, "")
	for i, who := range []config.Who{{Tenant: "a", Agent: "main", Session: "b"}, {Tenant: "a", Agent: "b", Session: "main"}, {Tenant: "b", Agent: "a", Session: "main"}, {Tenant: "ab", Agent: "main", Session: "main"}} {
		op := c.looks(3)
		op.Grant.ID = "same"
		op.Grant.DecisionKey = "same"
		op.Grant.Tenant, op.Grant.Agent, op.Grant.Session = who.Tenant, who.Agent, who.Session
		want := 3
		if i == 1 { // the same id again in one tenant is another grant
			want = 0
		}
		codes := c.atOnce(times(8, op)...)
		if codes[""] != want {
			t.Errorf("%+v: %v, want %d to pass", who, codes, want)
		}
	}
}

// TestFreeRefusalsEnd holds that writes which are refused because a file is there
// are free 256 times in one call, and cost a call from then on: each is on record.
func TestFreeRefusalsEnd(t *testing.T) {
	t.Parallel()
	c, _ := newControlledFake(t, nil, "")
	op := c.operation(grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/once", Data: []byte("x")})
	if done, err := c.operate(op); !done.OK {
		t.Fatal(err)
	}
	for n := range 258 {
		want := int64(0)
		if n >= 256 {
			want = 1
		}
		if done, err := c.operate(op); done.Field != "op.overwrite" || done.Used.Calls != want || done.Used.Files != 0 {
			t.Fatalf("refusal %d: %+v, %v", n, done, err)
		}
	}
}
