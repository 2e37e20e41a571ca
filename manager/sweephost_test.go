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
