//go:build linux

package server

import (
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

const (
	// answersHeld is about how long an answer to one of many is held back
	// at most.
	answersHeld = time.Millisecond
	// endsHeld is the same for the end of an output, which the end of its
	// command reports too, usually at once.
	endsHeld = 20 * time.Millisecond
)

// A holdback writes frames together with what is written after them, and in
// time when nothing is. Its methods are safe for concurrent use.
type holdback struct {
	w      *wire.Writer
	period time.Duration
	timer  *time.Timer
	armed  atomic.Bool // timer runs
	active atomic.Bool // something was held back since it ran out last
}

func newHoldback(w *wire.Writer, period time.Duration) *holdback {
	h := &holdback{w: w, period: period}
	h.timer = time.AfterFunc(time.Hour, h.flush)
	h.timer.Stop()
	return h
}

// write writes f within about the period.
func (h *holdback) write(f wire.Frame) error {
	err := h.w.Hold(f)
	h.active.Store(true)
	if !h.armed.Swap(true) {
		h.timer.Reset(h.period)
	}
	return err
}

// flush writes what is held back. The timer goes on running while there is
// work: to set it anew for each frame costs more than a few turns for
// nothing.
func (h *holdback) flush() {
	again := h.active.Swap(false)
	if !again {
		h.armed.Store(false)
	}
	// What is held back before this is written here; what comes later finds
	// the timer running or sets it. An error is the connection's end, which
	// its reader sees too.
	_ = h.w.Flush()
	if again {
		h.timer.Reset(h.period)
	}
}
