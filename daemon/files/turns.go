package files

import (
	"context"
	"sync"
)

// Turns lets one caller at a time change one file, so that of two requests
// with the same condition one wins. It holds in this process alone: commands
// inside take no turns. The zero value is ready.
type Turns struct {
	mu    sync.Mutex
	taken map[string]*turn
}

type turn struct {
	free    chan struct{} // holds one token while nobody has the turn
	waiting int           // who have it or want it
}

// take waits for the turn at key until ctx ends, and returns what gives it back.
func (t *Turns) take(ctx context.Context, key string) (back func(), err error) {
	t.mu.Lock()
	if t.taken == nil {
		t.taken = map[string]*turn{}
	}
	k := t.taken[key]
	if k == nil {
		k = &turn{free: make(chan struct{}, 1)}
		k.free <- struct{}{}
		t.taken[key] = k
	}
	k.waiting++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if k.waiting--; k.waiting == 0 {
			delete(t.taken, key)
		}
	}
	select {
	case <-k.free:
		return func() { k.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
