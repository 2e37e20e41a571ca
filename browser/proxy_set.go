package browser

import (
	"context"
	"sync"

	"github.com/bulkhead-dev/sandbox"
)

// A Set holds the bridges of one process, one for each browser. It is safe
// for concurrent use.
type ProxySet struct {
	mu      sync.Mutex
	entries map[string]*entry
	closed  bool
}

// An entry is a bridge, or the opening of one.
type entry struct {
	ready  chan struct{} // closed when bridge or err are there
	bridge *Proxy
	err    error
	again  bool // whoever opened it gave up, which says nothing about the bridge
}

// NewSet returns an empty Set.
func NewProxySet() *ProxySet { return &ProxySet{entries: map[string]*entry{}} }

// Get returns the bridge of a name, and opens it if there is none that lives.
// Of many callers one opens; what it failed with is the error of all that wait
// for it, except that callers whose ctx lives try again when it failed because
// its own had ended. Bridges outlive ctx.
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

// take returns the entry of a name; mine says that the caller has to fill it.
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

// fill opens the bridge of an entry. When the entry was dropped meanwhile, so
// is the bridge.
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

// forget takes an entry out, unless another has its place.
func (s *ProxySet) forget(name string, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[name] == e {
		delete(s.entries, name)
	}
}

// Drop closes the bridge of a name, if there is one, and waits.
func (s *ProxySet) Drop(name string) {
	s.mu.Lock()
	e := s.entries[name]
	delete(s.entries, name)
	s.mu.Unlock()
	e.close()
}

// CloseAll closes every bridge and waits. Nothing is opened afterwards.
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

// close waits for an opening that is under way, which then closes by itself.
func (e *entry) close() {
	if e == nil {
		return
	}
	<-e.ready
	if e.bridge != nil {
		e.bridge.Close()
	}
}
