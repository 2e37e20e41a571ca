package manager

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A slowly is a sandbox whose end waits for that of the others, as that of a
// frozen one waits for a guest that does not answer.
type slowly struct {
	sandbox.Sandbox
	others *sync.WaitGroup
}

func (slowly) Ping(context.Context) error { return nil }

func (s slowly) Close() error {
	s.others.Done()
	s.others.Wait()
	return nil
}

// TestCloseWaitsForAllAtOneTime holds that an end takes as long as the longest
// of those that are let go of, and not as long as all of them together.
func TestCloseWaitsForAllAtOneTime(t *testing.T) {
	m, others := &Manager{handles: &handles{frozen: func(*handle) bool { return false }}, pool: &poolKeeper{slots: &slots{}}, calls: &calls{}, checkpoints: &checkpoints{}}, &sync.WaitGroup{}
	for _, name := range []string{"sbx-a", "sbx-b", "sbx-c"} {
		others.Add(1)
		m.handles.release(m.handles.put(&handle{name: name, Sandbox: slowly{others: others}}))
	}
	closed := make(chan error, 1)
	go func() { closed <- m.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("one is waited for before the next one is begun with")
	}
	if len(m.handles.open) != 0 {
		t.Errorf("%v are still open", m.handles.open)
	}
}
