package manager_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// A littering provider has left something on the host.
type littering struct {
	sandbox.Provider
	swept *int
	fails error
}

func (l littering) Sweep(context.Context) error {
	*l.swept++
	return l.fails
}

// TestPruneClearsTheHost holds that what killed programs have left goes with
// a sweep by command, and stays in one that only tells.
func TestPruneClearsTheHost(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	wall := littering{fake.New(fake.Options{Name: "local"}), new(int), errors.New("it cannot be removed")}
	set, err := provider.New(wall)
	must(t, err)
	s, err := config.Parse("t", []byte(`{"agents": {"defaults": {"sandbox": {"provider": "local"}}}}`))
	must(t, err)
	m, err := manager.New(manager.Options{Settings: s, State: g.state, Providers: set, Images: nowhere{},
		Host: manager.Host{CPUs: 2, Memory: 8 << 30, Guest: func() (sandbox.GuestRef, error) { return sandbox.GuestRef{Dir: "/guest", Digest: "0"}, nil }}})
	must(t, err)
	defer m.Close()
	if _, err := m.Prune(context.Background(), manager.PruneOptions{DryRun: true}); err != nil || *wall.swept != 0 {
		t.Errorf("dry run: %v, swept %d times", err, *wall.swept)
	}
	if _, err := m.Prune(context.Background(), manager.PruneOptions{}); !errors.Is(err, wall.fails) || *wall.swept != 1 {
		t.Errorf("prune: %v, swept %d times", err, *wall.swept)
	}
}

// A behind provider lists what there was before the last sandboxes were made.
type behind struct{ sandbox.Provider }

func (behind) List(context.Context, sandbox.Filter) ([]sandbox.Info, error) { return nil, nil }

// TestPruneLooksAgain holds that a sandbox that is made between the list of records
// and that of sandboxes is not taken for one that is gone: it keeps its record and
// what it has on the host, and its next command runs.
func TestPruneLooksAgain(t *testing.T) {
	t.Parallel()
	c := newMachine(t)
	there := c.local
	c.local = behind{there}
	m := c.manager(local, "")
	c.run(m, "made", nil)
	out, err := m.Prune(t.Context(), manager.PruneOptions{})
	if err != nil || len(out.Removed)+len(out.Failed) != 0 || out.Kept != 1 {
		t.Errorf("prune: %+v, %v", out, err)
	}
	c.run(m, "made", nil)
	name, err := m.Name(config.Who{Agent: "main", Session: "made"}, nil)
	must(t, err)
	if _, err := m.Recorded(t.Context(), "", name, ""); err != nil {
		t.Error(err)
	}
	must(t, there.Remove(t.Context(), name)) // then it is gone
	if out, err = m.Prune(t.Context(), manager.PruneOptions{}); err != nil || len(out.Removed) != 1 {
		t.Errorf("prune of one that is gone: %+v, %v", out, err)
	}
}
