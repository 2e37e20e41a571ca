package browser

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// opener opens proxies and counts them.
type opener struct {
	c *chromium
	n atomic.Int64
}

func (o *opener) open(context.Context) (*Proxy, error) {
	o.n.Add(1)
	return OpenProxy(ProxyOptions{Upstream: o.c.upstream})
}

func newSet(t *testing.T) *ProxySet {
	s := NewProxySet()
	t.Cleanup(s.CloseAll)
	return s
}

func TestSetOpensOnce(t *testing.T) {
	s, o := newSet(t), &opener{c: newChromium(t)}
	var all sync.WaitGroup
	got := make([]*Proxy, 20)
	for i := range got {
		all.Go(func() { got[i], _ = s.Get(t.Context(), "a", o.open) })
	}
	all.Wait()
	for i := range got {
		if got[i] == nil || got[i] != got[0] {
			t.Fatalf("caller %d has another bridge", i)
		}
	}
	other, err := s.Get(t.Context(), "b", o.open)
	if err != nil || other == got[0] || o.n.Load() != 2 {
		t.Errorf("%v, %d were opened, want one for each name", err, o.n.Load())
	}
}

// TestSetReplacesDead checks that a proxy that has ended is not returned.
func TestSetReplacesDead(t *testing.T) {
	s, o := newSet(t), &opener{c: newChromium(t)}
	first, err := s.Get(t.Context(), "a", o.open)
	if err != nil {
		t.Fatal(err)
	}
	first.cancel()
	second, err := s.Get(t.Context(), "a", o.open)
	if err != nil || second == first {
		t.Fatalf("the dead one comes back, %v", err)
	}
	<-first.Done()
	if again, err := s.Get(t.Context(), "a", o.open); err != nil || again != second {
		t.Errorf("the end of the first took the second out, %v", err)
	}
}

func TestSetFailure(t *testing.T) {
	s, o := newSet(t), &opener{c: newChromium(t)}
	fault := errors.New("no")
	if _, err := s.Get(t.Context(), "a", func(context.Context) (*Proxy, error) { return nil, fault }); err != fault {
		t.Fatalf("%v, want the fault", err)
	}
	if _, err := s.Get(t.Context(), "a", o.open); err != nil {
		t.Errorf("a failure is remembered: %v", err)
	}
}

// TestSetGivesUp checks that a caller whose ctx ends does not fail the others.
func TestSetGivesUp(t *testing.T) {
	s, o := newSet(t), &opener{c: newChromium(t)}
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := s.Get(ctx, "a", func(ctx context.Context) (*Proxy, error) {
			close(begun)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		first <- err
	}()
	<-begun
	second := make(chan error, 1)
	go func() {
		_, err := s.Get(t.Context(), "a", o.open)
		second <- err
	}()
	impatient, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.Get(impatient, "a", o.open); sandbox.CodeOf(err) != sandbox.CodeTimeout {
		t.Errorf("waiting: %v, want a timeout", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up: %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("who waited: %v", err)
	}
}

func TestSetDropWhileOpening(t *testing.T) {
	s, o := newSet(t), &opener{c: newChromium(t)}
	begun, proceed := make(chan struct{}), make(chan struct{})
	var opened *Proxy
	result := make(chan error, 1)
	go func() {
		_, err := s.Get(t.Context(), "a", func(ctx context.Context) (*Proxy, error) {
			close(begun)
			<-proceed
			b, err := o.open(ctx)
			opened = b
			return b, err
		})
		result <- err
	}()
	<-begun
	dropped := make(chan struct{})
	go func() {
		s.Drop("a")
		close(dropped)
	}()
	for s.has("a") {
		// until Drop has taken it out
	}
	close(proceed)
	<-dropped
	if err := <-result; sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("%v, want that it was closed", err)
	}
	<-opened.Done()
}

// has reports whether a name is in s.
func (s *ProxySet) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[name] != nil
}

func TestSetCloseAll(t *testing.T) {
	s, o := newSet(t), &opener{c: newChromium(t)}
	a, err := s.Get(t.Context(), "a", o.open)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Get(t.Context(), "b", o.open)
	if err != nil {
		t.Fatal(err)
	}
	s.Drop("nobody")
	s.CloseAll()
	<-a.Done()
	<-b.Done()
	if _, err := s.Get(t.Context(), "a", o.open); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("%v, want that the set is closed", err)
	}
}
