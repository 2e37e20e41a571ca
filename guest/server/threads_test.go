//go:build linux

package server

import (
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// TestFirstCommandWaitsForNoCollection holds that the heap is left alone until
// the first command can have started, and collected early from then on.
func TestFirstCommandWaitsForNoCollection(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	synctest.Test(t, func(t *testing.T) {
		warmUp(1)
		if p := percent(); p != 100 {
			t.Errorf("the heap is collected at %d %% from the start", p)
		}
		time.Sleep(collectAfter)
		synctest.Wait()
		if p := percent(); p != gcPercent {
			t.Errorf("the heap is still collected at %d %%", p)
		}
	})
}
