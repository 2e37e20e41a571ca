package images

import (
	"context"
	"sync"
)

// flights lets callers that want the same thing share the work of one. The
// work ends early only when the last of them has gone, so one impatient
// caller does not spoil it for the others. (golang.org/x/sync/singleflight
// knows no such end.)
type flights struct {
	mu    sync.Mutex
	calls map[string]*flight
}

type flight struct {
	done   chan struct{} // closed when img and err are set
	cancel context.CancelCauseFunc
	img    Image
	err    error

	waiters
}

// A crowd passes each event on to every waiting caller.
type waiters struct {
	mu    sync.Mutex
	sinks map[int]Progress
	next  int
}

func (c *waiters) join(p Progress) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sinks == nil {
		c.sinks = map[int]Progress{}
	}
	c.next++
	c.sinks[c.next] = p
	return c.next
}

// leave removes a caller and tells how many remain.
func (c *waiters) leave(id int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sinks, id)
	return len(c.sinks)
}

// Report implements [Progress].
func (c *waiters) Report(e Event) {
	c.mu.Lock()
	sinks := make([]Progress, 0, len(c.sinks))
	for _, p := range c.sinks {
		if p != nil {
			sinks = append(sinks, p)
		}
	}
	c.mu.Unlock()
	for _, p := range sinks {
		p.Report(e)
	}
}

// do returns what fn returns for key, calling it only when no call for key
// is under way. fn gets a context that outlives ctx as long as anybody waits.
func (f *flights) do(ctx context.Context, key string, p Progress, fn func(context.Context, Progress) (Image, error)) (Image, error) {
	f.mu.Lock()
	c, running := f.calls[key]
	var work context.Context
	if !running {
		under, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		c, work = &flight{done: make(chan struct{}), cancel: cancel}, under
		if f.calls == nil {
			f.calls = map[string]*flight{}
		}
		f.calls[key] = c
	}
	// The caller joins before the work begins, so that it receives all events.
	id := c.join(p)
	if !running {
		go func() {
			defer c.cancel(nil)
			c.img, c.err = fn(work, &c.waiters)
			f.forget(key, c)
			close(c.done)
		}()
	}
	f.mu.Unlock()

	select {
	case <-c.done:
		c.leave(id)
		return c.img, c.err
	case <-ctx.Done():
	}
	// The lock keeps a newcomer from joining work that is being given up.
	f.mu.Lock()
	last := c.leave(id) == 0
	if last && f.calls[key] == c {
		delete(f.calls, key)
	}
	f.mu.Unlock()
	if !last {
		return Image{}, engineError(ctx, "wait for image", key, ctx.Err())
	}
	// The last one out waits until the work has cleaned up behind itself.
	c.cancel(errNobody)
	<-c.done
	if c.err == nil {
		return c.img, nil
	}
	return Image{}, engineError(ctx, "make image", key, ctx.Err())
}

func (f *flights) forget(key string, c *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls[key] == c {
		delete(f.calls, key)
	}
}
