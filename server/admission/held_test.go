package admission

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/tenant"
)

// TestParallelSandboxesStayWithinTheLimit has 64 callers make sandboxes at once.
func TestParallelSandboxesStayWithinTheLimit(t *testing.T) {
	limits := map[string]tenant.Limits{
		"sandboxes": tenant.NoLimits().With(tenant.Sandboxes, 5),
		"memory":    tenant.NoLimits().With(tenant.Memory, 5<<30+1),
		"nanoCpus":  tenant.NoLimits().With(tenant.NanoCPUs, 5_500_000_000),
	}
	for name, l := range limits {
		t.Run(name, func(t *testing.T) {
			a := admission(t, Options{Rules: limited(l)})
			var made atomic.Int64
			var wg sync.WaitGroup
			for n := range 64 {
				wg.Go(func() {
					settle, err := a.Hold(t.Context(), plain("a", n))
					if err != nil {
						if sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
							t.Error(err)
						}
						return
					}
					made.Add(1)
					settle(true)
				})
			}
			wg.Wait()
			if made.Load() != 5 {
				t.Errorf("%d were let through, want 5", made.Load())
			}
			wantHeld(t, a, "a", tenant.Want{Sandboxes: 5, Memory: 5 << 30, NanoCPUs: 5e9})
			if _, err := a.Hold(t.Context(), plain("b", 1)); err != nil {
				t.Errorf("another tenant's is refused: %v", err)
			}
		})
	}
}

func TestSandboxCountsUntilItIsGone(t *testing.T) {
	one := tenant.Want{Sandboxes: 1, Memory: 1 << 30, NanoCPUs: 1e9}
	a := admission(t, Options{Rules: limited(tenant.NoLimits().With(tenant.Sandboxes, 1))})
	settle, err := a.Hold(t.Context(), plain("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	wantHeld(t, a, "a", one) // while it is made
	settle(false)
	settle(true) // calls more than one have no effect
	wantHeld(t, a, "a", tenant.Want{})

	mustHold(t, t.Context(), a, plain("a", 1))
	wantHeld(t, a, "a", one)
	_, err = a.Hold(t.Context(), plain("a", 2))
	wantExceeded(t, err, tenant.Sandboxes, "tenant a")
	// A sandbox that is made again with other amounts replaces itself.
	bigger := plain("a", 1)
	bigger.Memory = 3 << 30
	mustHold(t, t.Context(), a, bigger)
	wantHeld(t, a, "a", tenant.Want{Sandboxes: 1, Memory: 3 << 30, NanoCPUs: 1e9})
	a.Gone(bigger.Name)
	a.Gone(bigger.Name)
	wantHeld(t, a, "a", tenant.Want{})
	mustHold(t, t.Context(), a, plain("a", 2))
}

// A late settle of an earlier sandbox of the same name releases nothing of the
// later one.
func TestLateSettleChangesNothing(t *testing.T) {
	a := admission(t, Options{Rules: limited(tenant.NoLimits())})
	late, err := a.Hold(t.Context(), plain("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	mustHold(t, t.Context(), a, plain("a", 1))
	late(false)
	wantHeld(t, a, "a", tenant.Want{Sandboxes: 1, Memory: 1 << 30, NanoCPUs: 1e9})
}

func TestSandboxCountsForTheCallersToken(t *testing.T) {
	a := admission(t, Options{Rules: limited(tenant.NoLimits())})
	quotas := map[string]tenant.Limits{"parent": tenant.NoLimits().With(tenant.Sandboxes, 2)}
	first := WithCaller(t.Context(), bearing("a", quotas, "child", "parent"))
	second := WithCaller(t.Context(), bearing("a", quotas, "other", "parent"))
	mustHold(t, first, a, plain("a", 1))
	mustHold(t, second, a, plain("a", 2))
	_, err := a.Hold(first, plain("a", 3))
	wantExceeded(t, err, tenant.Sandboxes, "token parent")
	mustHold(t, t.Context(), a, plain("a", 3)) // by a caller without a token
	a.Gone(plain("a", 1).Name)
	mustHold(t, second, a, plain("a", 4))
}

// inFolder returns the footprint of a sandbox whose workspace may hold disk
// bytes.
func inFolder(t *testing.T, n int, disk int64) manager.Footprint {
	t.Helper()
	f := plain("a", n)
	f.Workspace, f.Disk = filepath.Join(t.TempDir(), f.Name), disk
	if err := os.Mkdir(f.Workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	return f
}

// A workspace outlives its sandbox, and holds its disk for that long.
func TestDiskCountsUntilTheWorkspaceIsGone(t *testing.T) {
	a := admission(t, Options{Rules: limited(tenant.NoLimits().With(tenant.Disk, 10<<30))})
	first, second := inFolder(t, 1, 6<<30), inFolder(t, 2, 6<<30)
	mustHold(t, t.Context(), a, first)
	a.Gone(first.Name)
	wantHeld(t, a, "a", tenant.Want{Disk: 6 << 30})
	_, err := a.Hold(t.Context(), second)
	wantExceeded(t, err, tenant.Disk, "tenant a")
	wantHeld(t, a, "a", tenant.Want{Disk: 6 << 30})
	mustHold(t, t.Context(), a, first) // in the workspace that is there
	wantHeld(t, a, "a", tenant.Want{Sandboxes: 1, Memory: 1 << 30, NanoCPUs: 1e9, Disk: 6 << 30})
	a.Gone(first.Name)
	if err := os.Remove(first.Workspace); err != nil {
		t.Fatal(err)
	}
	mustHold(t, t.Context(), a, second)
	wantHeld(t, a, "a", tenant.Want{Sandboxes: 1, Memory: 1 << 30, NanoCPUs: 1e9, Disk: 6 << 30})
}

func TestUnboundedWorkspaceOfABoundedTenant(t *testing.T) {
	a := admission(t, Options{Rules: limited(tenant.NoLimits().With(tenant.Disk, 10<<40))})
	_, err := a.Hold(t.Context(), inFolder(t, 1, manager.NoBound))
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != sandbox.CodeBudgetExceeded || e.Field != "quota.disk" || e.Retryable {
		t.Errorf("got %v, want it refused for good", err)
	}
	wantHeld(t, a, "a", tenant.Want{})
	free := admission(t, Options{Rules: limited(tenant.NoLimits())})
	for n := range 100 {
		mustHold(t, t.Context(), free, inFolder(t, n, manager.NoBound))
	}
	agents := plain("a", 1) // in a folder that is not ours
	mustHold(t, t.Context(), a, agents)
}
