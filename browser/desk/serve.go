package desk

import (
	"context"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser/bridge"
)

// goneEvery is the time between two looks whether a container that nobody
// uses is still there.
const goneEvery = time.Second

// Serve brings the browser up and lets clients of the DevTools protocol in.
// There is one bridge for each browser and process: who asks again gets the
// same, and it ends when all have closed it, or with the container.
func (d *Desk) Serve(ctx context.Context, r Request) (Served, error) {
	c, _, err := d.open(ctx, r, onUse)
	if err != nil {
		return Served{}, err
	}
	defer c.Close() // clients have a stay of their own
	host, notIsolated := c.(*hostBrowser)
	b, err := d.bridges.Get(ctx, c.Name(), func(context.Context) (*bridge.Bridge, error) {
		o := bridge.Options{Sources: c.Settings().Sources, Log: d.log.WithField("sandbox", c.Name())}
		o.Upstream = func(ctx context.Context) (bridge.Upstream, error) { return d.upstream(ctx, r, c.Name()) }
		o.Gone = func(ctx context.Context) error { return d.gone(ctx, r) }
		if notIsolated {
			o.Upstream = func(context.Context) (bridge.Upstream, error) { return hostUpstream{host}, nil }
			o.Gone = nil
		}
		return bridge.Open(o)
	})
	if err != nil {
		return Served{}, err
	}
	life := d.share(c.Name(), b)
	ws, err := b.WebSocket(ctx)
	if err != nil {
		life.Close()
		return Served{}, err
	}
	name := c.Name()
	if notIsolated {
		name = ""
	}
	return Served{Life: life, Name: name, HTTPURL: b.URL(), WebSocketDebuggerURL: ws, Token: b.Token(), NotIsolated: notIsolated}, nil
}

// upstream opens the browser for one client of a bridge. A container that has
// gone is not made anew: whoever took it away meant it.
func (d *Desk) upstream(ctx context.Context, r Request, name string) (bridge.Upstream, error) {
	return d.stays.enter(ctx, name, d.log, func(ctx context.Context) (Opened, error) {
		c, _, err := d.open(ctx, r, notAnew)
		if sandbox.IsNotFound(err) {
			err = removed(name)
		}
		return c, err
	})
}

func removed(name string) error {
	return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "use browser", Resource: name, Message: "the browser was removed", Hint: "start one with: sandbox browser start"}
}

// gone returns when the container of r is no longer there. It takes no lease:
// a bridge that nobody uses keeps no browser from being pruned.
func (d *Desk) gone(ctx context.Context, r Request) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(goneEvery):
		}
		switch there, err := d.house.Exists(ctx, r); {
		case err == nil && !there:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		// An engine that does not answer has not said that it is gone.
	}
}

// A share is one Served of a bridge.
type share struct {
	d      *Desk
	name   string
	bridge *bridge.Bridge
	once   sync.Once
	done   chan struct{}
	mine   bool // closed by its owner; written before done is closed
}

// share counts one more Served of a bridge.
func (d *Desk) share(name string, b *bridge.Bridge) *share {
	d.mu.Lock()
	d.shares[b]++
	d.mu.Unlock()
	s := &share{d: d, name: name, bridge: b, done: make(chan struct{})}
	go func() {
		select {
		case <-b.Done():
			s.end(false)
		case <-s.done:
		}
	}()
	return s
}

// Done implements [order.Life].
func (s *share) Done() <-chan struct{} { return s.done }

// Err implements [order.Life].
func (s *share) Err() error {
	select {
	case <-s.done:
	default:
		return nil
	}
	if s.mine {
		return nil
	}
	return removed(s.name)
}

// Close implements [order.Life].
func (s *share) Close() error {
	s.end(true)
	return nil
}

func (s *share) end(mine bool) {
	s.once.Do(func() {
		s.mine = mine
		s.d.mu.Lock()
		s.d.shares[s.bridge]--
		last := s.d.shares[s.bridge] == 0
		if last {
			delete(s.d.shares, s.bridge)
		}
		s.d.mu.Unlock()
		if last {
			s.bridge.Close()
		}
		close(s.done)
	})
}
