package browser

import (
	"context"
	"sync"

	"github.com/bulkhead-dev/sandbox"
)

// A ProxySet holds the CDP proxies of one process, one for each browser. It is
// safe for concurrent use.
type ProxySet struct {
	mu      sync.Mutex
	entries map[string]*entry
	closed  bool
}

// An entry is a proxy, or one that is being opened.
type entry struct {
	ready  chan struct{} // closed when proxy or err is set
	bridge *Proxy
	err    error
	again  bool // the opening caller gave up, which says nothing about the proxy
}

// NewProxySet returns an empty ProxySet.
func NewProxySet() *ProxySet { return &ProxySet{entries: map[string]*entry{}} }

// Get returns the proxy of a name, and opens it if none is running. Of several
// concurrent callers one opens the proxy, and all receive its error, except
// that callers whose ctx has not ended try again if the opener's ctx had
// ended. Proxies outlive ctx.
func (s *ProxySet) Get(ctx context.Context, name string, open func(context.Context) (*Proxy, error)) (*Proxy, error) {
	for {
		e, mine, err := s.take(name)
		if err != nil {
			return nil, err
		}
		if mine {
			s.fill(ctx, name, e, open)
			return e.bridge, e.err
		}
		select {
		case <-e.ready:
		case <-ctx.Done():
			return nil, sandbox.Errorf(sandbox.CodeTimeout, proxyOp, "the bridge did not open in time: %w", context.Cause(ctx))
		}
		switch {
		case e.again:
		case e.err != nil:
			return nil, e.err
		case alive(e.bridge):
			return e.bridge, nil
		default:
			s.forget(name, e)
		}
	}
}

func alive(b *Proxy) bool { return b.ctx.Err() == nil }

// take returns the entry of a name; mine reports that the caller has to fill
// it.
func (s *ProxySet) take(name string) (_ *entry, mine bool, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false, sandbox.Errorf(sandbox.CodeUnavailable, proxyOp, "the bridges were closed")
	}
	if e := s.entries[name]; e != nil {
		return e, false, nil
	}
	e := &entry{ready: make(chan struct{})}
	s.entries[name] = e
	return e, true, nil
}

// fill opens the proxy of an entry. If the entry was dropped meanwhile, it
// closes the proxy.
func (s *ProxySet) fill(ctx context.Context, name string, e *entry, open func(context.Context) (*Proxy, error)) {
	b, err := open(ctx)
	s.mu.Lock()
	dropped := s.entries[name] != e
	if err != nil && !dropped {
		delete(s.entries, name)
	}
	s.mu.Unlock()
	if err == nil && dropped {
		b.Close()
		b, err = nil, sandbox.Errorf(sandbox.CodeUnavailable, proxyOp, "the bridge was closed while it opened")
	}
	e.bridge, e.err, e.again = b, err, err != nil && !dropped && ctx.Err() != nil
	close(e.ready)
	if b != nil {
		go func() {
			<-b.Done()
			s.forget(name, e)
		}()
	}
}

// forget removes an entry, unless another one has taken its place.
func (s *ProxySet) forget(name string, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[name] == e {
		delete(s.entries, name)
	}
}

// Drop closes the proxy of a name, if there is one, and waits.
func (s *ProxySet) Drop(name string) {
	s.mu.Lock()
	e := s.entries[name]
	delete(s.entries, name)
	s.mu.Unlock()
	e.close()
}

// CloseAll closes every proxy and waits. No proxy is opened afterwards.
func (s *ProxySet) CloseAll() {
	s.mu.Lock()
	s.closed = true
	entries := s.entries
	s.entries = map[string]*entry{}
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, e := range entries {
		all.Go(e.close)
	}
	all.Wait()
}

// close waits for an opening under way and closes the proxy.
func (e *entry) close() {
	if e == nil {
		return
	}
	<-e.ready
	if e.bridge != nil {
		e.bridge.Close()
	}
}
