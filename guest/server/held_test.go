//go:build linux

package server

import (
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestHeldFramesGoOut holds that frames which are held back arrive though
// nothing else is written, again and again, also after a rest in which the
// timer has stopped.
func TestHeldFramesGoOut(t *testing.T) {
	ours, theirs := socketPair(t)
	h := newHoldback(wire.NewWriter(ours), answersHeld)
	r := wire.NewReader(theirs, 0)
	for i := range uint32(100) {
		for k := range uint32(3) {
			if err := h.write(wire.Frame{Type: wire.TypeStarted, Stream: 3*i + k + 1}); err != nil {
				t.Fatal(err)
			}
		}
		if err := theirs.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		for k := range uint32(3) {
			if f, err := r.Next(); err != nil || f.Stream != 3*i+k+1 {
				t.Fatalf("round %d: %+v, %v", i, f, err)
			}
		}
		if i%10 == 0 {
			testenv.Until(t, "it rests", func() bool { return !h.armed.Load() })
		}
	}
}
