package keylock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
)

func TestEnter(t *testing.T) {
	for most, want := range map[int]int32{0: 1, 1: 1, 3: 3} {
		synctest.Test(t, func(t *testing.T) {
			of := keylock.Turns{Most: most}
			var inside, highest, other atomic.Int32
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					release, err := of.Enter(t.Context(), "a")
					if err != nil {
						t.Error(err)
						return
					}
					defer release()
					n := inside.Add(1)
					for h := highest.Load(); n > h && !highest.CompareAndSwap(h, n); h = highest.Load() {
					}
					time.Sleep(time.Second)
					inside.Add(-1)
				})
			}
			all.Go(func() {
				if release, err := of.Enter(t.Context(), "b"); err == nil {
					other.Store(inside.Load())
					release()
				}
			})
			all.Wait()
			if got := highest.Load(); got != want {
				t.Errorf("of %d there were %d", most, got)
			}
			if other.Load() > want {
				t.Error("another name waits")
			}
		})
	}
}

func TestEnterGivesUp(t *testing.T) {
	var of keylock.Turns
	release, err := of.Enter(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := of.Enter(ctx, "a"); sandbox.CodeOf(err) != sandbox.CodeTimeout {
		t.Error(err)
	}
	release()
	if release, err = of.Enter(t.Context(), "a"); err != nil {
		t.Error(err)
	} else {
		release()
	}
}

// TestRoomUnderAnEndedContext holds that only others make a caller wait: where
// there is room, one whose context has ended enters, each time.
func TestRoomUnderAnEndedContext(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	var turns keylock.Turns
	for range 100 {
		release, err := turns.Enter(ended, "a")
		if err != nil {
			t.Fatalf("with room: %v", err)
		}
		if _, err := turns.Enter(ended, "a"); sandbox.CodeOf(err) != sandbox.CodeTimeout {
			t.Fatalf("without room: %v", err)
		}
		release()
	}
}
