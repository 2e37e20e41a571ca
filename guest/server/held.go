//go:build linux

package server

import (
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// heldFor is about how long a frame is held back at most.
const heldFor = time.Millisecond

// A holdback sees to it that frames which are held back go out in time when
// no other frame takes them along. Its methods are safe for concurrent use.
type holdback struct {
	w      *wire.Writer
	timer  *time.Timer
	armed  atomic.Bool // timer runs
	active atomic.Bool // something was held back since it ran out last
}

func newHoldback(w *wire.Writer) *holdback {
	h := &holdback{w: w}
	h.timer = time.AfterFunc(time.Hour, h.flush)
	h.timer.Stop()
	return h
}

// write writes f soon.
func (h *holdback) write(f wire.Frame) error {
	first, err := h.w.Hold(f)
	if first {
		h.active.Store(true)
		h.arm()
	}
	return err
}

func (h *holdback) arm() {
	if !h.armed.Swap(true) {
		h.timer.Reset(heldFor)
	}
}

// flush writes what is held back. The timer goes on running while there is
// work: to set it anew for each frame costs more than a few turns for
// nothing.
func (h *holdback) flush() {
	if h.active.Swap(false) {
		_, _ = h.w.Flush() // an error is the connection's end, which its reader sees too
		h.timer.Reset(heldFor)
		return
	}
	h.armed.Store(false)
	// What was held back before this is written here, and what comes later
	// arms the timer.
	_, _ = h.w.Flush()
}
