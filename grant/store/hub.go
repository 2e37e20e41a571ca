package store

import (
	"context"
	"sync"
)

// A hub holds the watches that wait for a revocation.
type hub struct {
	mu      sync.Mutex
	watches map[*watch]struct{}
	begin   func(context.Context) // runs while anybody waits; may be nil
	stop    context.CancelFunc    // ends it
}

// A watch is one wait for the revocation of a grant.
type watch struct {
	line   []string // the grant and those that it was derived from
	closed chan struct{}
}

// add registers a watch until ctx ends or the watch is released.
func (h *hub) add(ctx context.Context, w *watch) {
	h.mu.Lock()
	if h.watches == nil {
		h.watches = map[*watch]struct{}{}
	}
	h.watches[w] = struct{}{}
	if h.begin != nil && h.stop == nil {
		var running context.Context
		running, h.stop = context.WithCancel(context.Background())
		go h.begin(running)
	}
	h.mu.Unlock()
	context.AfterFunc(ctx, func() { h.drop(w) })
}

func (h *hub) drop(w *watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watches, w)
	h.rest()
}

// rest stops the background goroutine when no watch is left. The caller holds
// h.mu.
func (h *hub) rest() {
	if len(h.watches) == 0 && h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

// release releases the watches for which gone returns true.
func (h *hub) release(gone func(line []string) bool) {
	for _, w := range h.waiting() {
		if gone(w.line) {
			h.letGo(w)
		}
	}
}

func (h *hub) waiting() []*watch {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*watch, 0, len(h.watches))
	for w := range h.watches {
		all = append(all, w)
	}
	return all
}

// letGo closes the channel of w, once.
func (h *hub) letGo(w *watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, waits := h.watches[w]; waits {
		delete(h.watches, w)
		close(w.closed)
		h.rest()
	}
}
