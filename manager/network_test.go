package manager_test

import (
	"context"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestKilledWithNetwork holds that a network which a killed process has left
// is listed, and goes with the next sweep.
func TestKilledWithNetwork(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), context.Background()
	own := settings(`"docker":{"network":"own"}`)
	killAt(t, r, "after network", childSet+"="+own)
	m := r.manager(own)
	l, err := m.List(ctx, manager.ListOptions{All: true})
	if err != nil || len(l.Containers) != 1 || l.Containers[0].Status != sandbox.StatusMissing {
		t.Errorf("listed %+v, %v", l, err)
	}
	out, err := m.Prune(ctx, manager.PruneOptions{})
	if err != nil || len(out.Removed) != 1 || len(out.Failed) != 0 {
		t.Errorf("pruned %+v, %v", out, err)
	}
	all, err := r.engine.Networks(ctx)
	must(t, err)
	for _, n := range all {
		if n.Labels.Owner.Instance == r.state.Instance() {
			t.Errorf("the network %s is left", n.Name)
		}
	}
}
