// This file lets callers that use the same key take turns.

package keylock

import (
	"context"
	"sync"

	"github.com/bulkhead-dev/sandbox"
)

// Turns admits a bounded number of callers at a time per name. The zero value
// is ready for use, and safe for concurrent use.
type Turns struct {
	Most int // at a time; 0 is one. Not to be changed after the first Enter

	mu   sync.Mutex
	busy map[string]*gate
}

type gate struct {
	ch      chan struct{}
	waiting int // who have entered or want to; guarded by Turns.mu
}

// Enter waits until there is room among those who have entered with name, or
// ctx ends; it returns [sandbox.CodeTimeout] then. If there is room, Enter
// ignores ctx. The caller that has entered calls release, once.
func (t *Turns) Enter(ctx context.Context, name string) (release func(), err error) {
	t.mu.Lock()
	if t.busy == nil {
		t.busy = map[string]*gate{}
	}
	g := t.busy[name]
	if g == nil {
		g = &gate{ch: make(chan struct{}, max(t.Most, 1))}
		t.busy[name] = g
	}
	g.waiting++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if g.waiting--; g.waiting == 0 {
			delete(t.busy, name)
		}
	}
	release = func() { <-g.ch; leave() }
	// Of two cases that are ready select takes any: where there is room, a caller
	// whose context has ended would sometimes blame others.
	select {
	case g.ch <- struct{}{}:
		return release, nil
	default:
	}
	select {
	case g.ch <- struct{}{}:
		return release, nil
	case <-ctx.Done():
		leave()
		return nil, sandbox.Errorf(sandbox.CodeTimeout, "wait for "+name, "others are at it: %w", ctx.Err())
	}
}
