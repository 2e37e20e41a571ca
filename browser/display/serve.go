package display

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

// goneEvery is the interval at which an idle proxy checks whether its
// container still exists.
const goneEvery = time.Second

// Serve starts the browser and a CDP proxy for it. There is one proxy for each
// browser and process: a further call shares it, and it ends when all callers
// have closed it, or with the container. While it runs, a call with other
// egress rules gets [sandbox.CodeBusy]: the clients share one egress listener,
// which cannot attribute a request to one of them.
func (d *Display) Serve(ctx context.Context, r Request) (Served, error) {
	c, _, err := d.open(ctx, r, onUse)
	if err != nil {
		return Served{}, err
	}
	defer c.Close() // clients use a stay of their own
	host, notIsolated := c.(*hostBrowser)
	key := c.Name()
	if notIsolated {
		key += " " + host.addr // several scopes may use browsers at different addresses
	}
	open := func(context.Context) (*browser.Proxy, error) { return browser.OpenProxy(d.leading(r, c)) }
	var b *browser.Proxy
	var life *share
	var ws string
	for range 2 { // the last user may close the proxy at the same time
		if b, err = d.bridges.Get(ctx, key, open); err != nil {
			return Served{}, err
		}
		if life, err = d.share(c, b); err != nil {
			return Served{}, err
		}
		if ws, err = b.WebSocket(ctx); err == nil {
			break
		}
		life.Close()
	}
	if err != nil {
		return Served{}, err
	}
	name := c.Name()
	if notIsolated {
		name = ""
	}
	return Served{Life: life, Name: name, HTTPURL: b.URL(), WebSocketDebuggerURL: ws, Token: b.Token(), NotIsolated: notIsolated}, nil
}

// leading returns the options of a CDP proxy for the browser in c.
func (d *Display) leading(r Request, c Opened) browser.ProxyOptions {
	o := browser.ProxyOptions{Sources: c.Settings().Sources, Log: d.log.WithField("sandbox", c.Name())}
	if host, ok := c.(*hostBrowser); ok {
		o.Upstream = func(context.Context) (browser.Upstream, error) { return hostUpstream{host}, nil }
		return o
	}
	o.Upstream = func(ctx context.Context) (browser.Upstream, error) { return d.upstream(ctx, r, c.Name()) }
	o.Gone = func(ctx context.Context) error { return d.gone(ctx, r) }
	return o
}

// upstream opens the browser for one client of a CDP proxy. It does not
// recreate a removed container: its removal was deliberate.
func (d *Display) upstream(ctx context.Context, r Request, name string) (browser.Upstream, error) {
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

// gone returns when the container of r no longer exists. It takes no lease, so
// an idle proxy does not protect a browser from being pruned.
func (d *Display) gone(ctx context.Context, r Request) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(goneEvery):
		}
		switch there, err := d.backend.Exists(ctx, r); {
		case err == nil && !there:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		// An engine that does not answer has not reported a removal.
	}
}

// A share is one Served of a proxy.
type share struct {
	d      *Display
	name   string
	bridge *browser.Proxy
	once   sync.Once
	done   chan struct{}
	mine   bool // closed by its owner; written before done is closed
}

// A shared counts the shares of one proxy.
type shared struct {
	n     int // number of shares
	rules sandbox.EgressRules
}

// share adds a Served of a proxy to c.
func (d *Display) share(c browser.Container, b *browser.Proxy) (*share, error) {
	rules := c.Settings().Rules
	d.mu.Lock()
	all := d.shares[b]
	if all == nil {
		all = &shared{rules: rules}
		d.shares[b] = all
	}
	if !reflect.DeepEqual(all.rules, rules) {
		d.mu.Unlock()
		return nil, &sandbox.Error{Code: sandbox.CodeBusy, Op: "serve browser", Field: "network", Resource: c.Name(),
			Message: "clients are let in already, and their rules for hosts are others", Hint: "end what serves them first, or use another scope"}
	}
	all.n++
	d.mu.Unlock()
	s := &share{d: d, name: c.Name(), bridge: b, done: make(chan struct{})}
	go func() {
		select {
		case <-b.Done():
			s.end(false)
		case <-s.done:
		}
	}()
	return s, nil
}

// Done implements [Life].
func (s *share) Done() <-chan struct{} { return s.done }

// Err implements [Life].
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

// Close implements [Life].
func (s *share) Close() error {
	s.end(true)
	return nil
}

func (s *share) end(mine bool) {
	s.once.Do(func() {
		s.mine = mine
		s.d.mu.Lock()
		all := s.d.shares[s.bridge]
		all.n--
		last := all.n == 0
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
