package local

import (
	"context"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// A handle is an open local sandbox. It has a seat in one instance for what comes
// next; earlier seats last as long as something runs in them.
type handle struct {
	site    *site
	spec    sandbox.Spec
	places  places // of a sandbox without mounts
	planner *planner
	closing chan struct{} // closed by Close

	mu    sync.Mutex
	seat  *seat
	older []*seat // that something still uses
	over  bool
}

// A seat is a handle's session with the guest of one instance.
type seat struct {
	h        *handle
	instance *instance
	*client.Client

	// Guarded by the handle:
	using int    // commands, shells and the like
	look  uint64 // the last look at the host after which the instance was found intact
	left  bool   // another seat has taken its place
	gone  bool   // it was given back
}

// Info implements [sandbox.Sandbox].
func (h *handle) Info() sandbox.Info {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.site.p.infoOf(h.site.def, []launch.Record{h.seat.instance.noted})
}

// sit takes a seat in the instance that is wanted now. The caller has its turn.
func (h *handle) sit(ctx context.Context) (s *seat, err error) {
	err = h.planner.retry(ctx, func(pl planned) error {
		s, err = h.sitIn(ctx, pl)
		return err
	})
	return s, err
}

// sitIn takes a seat in the instance of pl. One that falls before there is a
// session with it is replaced once.
func (h *handle) sitIn(ctx context.Context, pl planned) (*seat, error) {
	s, fallen, err := h.sitOnce(ctx, pl)
	if fallen && ctx.Err() == nil {
		s, _, err = h.sitOnce(ctx, pl)
	}
	return s, err
}

func (h *handle) sitOnce(ctx context.Context, pl planned) (_ *seat, fallen bool, err error) {
	w, err := h.site.instanceFor(ctx, h.spec, pl)
	if err != nil {
		return nil, false, err
	}
	c, err := w.session(ctx, h.spec)
	if err != nil {
		h.site.leave(w)
		alive, unseen := w.First().Alive()
		return nil, !alive && unseen == nil, explain(ctx, h.spec.Name, err)
	}
	return &seat{h: h, instance: w, Client: c}, false, nil
}

// What [handle.use] does about an instance that has fallen. Who starts something
// new has to know that what he left there is gone; a shell tells it by itself.
const (
	mustStand = false
	mayRevive = true
)

// use returns the seat for something new, in an instance that is as rules and host
// ask for now, or have asked for since asOf. The caller gives it back with
// [seat.release].
func (h *handle) use(ctx context.Context, revive bool, asOf time.Time) (*seat, error) {
	if err := h.ready(revive); err != nil {
		return nil, err
	}
	h.mu.Lock()
	last := h.seat.instance
	h.mu.Unlock()
	if err := last.unheld(); err != nil {
		return nil, err
	}
	pl, err := h.planner.planFor(ctx, asOf)
	if err != nil {
		return nil, err
	}
	if s, err := h.take(pl, revive); s != nil || err != nil {
		return s, err
	}
	release, err := h.site.p.turns.Enter(ctx, h.spec.Name)
	if err != nil {
		return nil, err
	}
	defer release()
	if s, err := h.take(pl, revive); s != nil || err != nil {
		return s, err // another call was first
	}
	next, err := h.sit(ctx)
	h.planner.used()
	if err != nil {
		return nil, err
	}
	return h.move(next)
}

// ready returns an error when nothing can be started through the handle.
func (h *handle) ready(revive bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.over:
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "start", Resource: h.spec.Name, Message: "the handle was closed"}
	case !revive && h.seat.instance.missed():
		return h.seat.instance.whyEnded("start", &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "start", Resource: h.spec.Name, Message: "the sandbox has ended", Hint: "open the sandbox again", Retryable: true})
	}
	return nil
}

// take returns the present seat when its instance is the one of that plan.
func (h *handle) take(pl planned, revive bool) (*seat, error) {
	if err := h.ready(revive); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seat.instance.key != pl.key || !h.seat.instance.intact(h.seat.look == pl.look) || revive && h.seat.ended() {
		return nil, nil
	}
	h.seat.look = pl.look
	h.seat.using++
	h.seat.instance.inUse.Add(1)
	return h.seat, nil
}

// move puts next in the place of the present seat, and returns it in use.
func (h *handle) move(next *seat) (*seat, error) {
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		next.giveBack()
		return nil, h.ready(mustStand)
	}
	last := h.seat
	h.seat, next.using, last.left = next, 1, true
	next.instance.inUse.Add(1)
	done := last.using == 0
	if !done {
		h.older = append(h.older, last)
	}
	h.mu.Unlock()
	if done {
		last.giveBack()
	}
	return next, nil
}

// ended reports whether the session is over, as that of a fallen instance is.
func (s *seat) ended() bool { return s.instance.fallen() || s.Client.Err() != nil }

// release says that what the seat was taken for has ended.
func (s *seat) release() {
	h := s.h
	h.mu.Lock()
	s.using--
	s.instance.inUse.Add(-1)
	done := s.left && s.using == 0 && !s.gone
	if done {
		for i, old := range h.older {
			if old == s {
				h.older = append(h.older[:i], h.older[i+1:]...)
				break
			}
		}
	}
	h.mu.Unlock()
	if done {
		s.giveBack()
	}
}

// giveBack ends the session, and leaves the instance.
func (s *seat) giveBack() {
	s.h.mu.Lock()
	gone := s.gone
	s.gone = true
	s.h.mu.Unlock()
	if gone {
		return
	}
	s.Client.Close()
	s.h.site.leave(s.instance)
}

// Close implements [sandbox.Sandbox].
func (h *handle) Close() error {
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		return nil
	}
	h.over = true
	close(h.closing)
	seats := append(h.older, h.seat)
	h.older = nil
	h.mu.Unlock()
	h.planner.close()
	var wg sync.WaitGroup
	for _, s := range seats {
		wg.Go(s.giveBack)
	}
	wg.Wait()
	return nil
}

// Ping reports whether the guest answers.
func (h *handle) Ping(ctx context.Context) error {
	if err := h.ready(mustStand); err != nil {
		return err
	}
	h.mu.Lock()
	c, w := h.seat.Client, h.seat.instance
	h.mu.Unlock()
	if w.replaced.Load() && w.fallen() {
		return nil // the next use finds another one
	}
	return c.Ping(ctx)
}

var _ sandbox.Sandbox = (*handle)(nil)
