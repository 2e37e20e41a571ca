package resource

import (
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A slow store blocks each listing until the test ends it, and counts the
// callers.
type tokensSlow struct {
	tokensStore
	end chan struct{}

	mu     sync.Mutex
	inside map[string]int // listings under way, by the token that asks
	whole  int            // of them, those of all tokens
}

func (s *tokensSlow) List() (token.Listing, error) {
	s.mu.Lock()
	s.whole++
	s.mu.Unlock()
	return s.ListBelow("")
}

func (s *tokensSlow) ListBelow(id string) (token.Listing, error) {
	s.mu.Lock()
	s.inside[id]++
	s.mu.Unlock()
	<-s.end
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside[id]--
	return token.Listing{}, nil
}

func asking(c auth.Caller) *Call {
	return &Call{Caller: c, Request: httptest.NewRequest("GET", "/v1/tokens", nil)}
}

func holder(tenant string) auth.Caller {
	return auth.Caller{Role: token.Session, Tenant: tenant, Token: &token.Token{ID: tenant}}
}

// TestListsOneAtATime holds that one list at a time is made for a tenant, of its
// own tokens alone, and that no tenant waits for another.
func TestListsOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &tokensSlow{end: make(chan struct{}), inside: map[string]int{}}
		x := NewTokens(store)
		var all sync.WaitGroup
		for _, c := range []auth.Caller{holder("acme"), holder("evil"), {Role: token.Admin}} {
			for range 20 {
				all.Go(func() {
					if _, err := x.list(asking(c)); err != nil {
						t.Error(err)
					}
				})
			}
		}
		synctest.Wait()
		store.mu.Lock()
		for _, id := range []string{"acme", "evil", ""} {
			if store.inside[id] != 1 {
				t.Errorf("%d lists for %q", store.inside[id], id)
			}
		}
		if store.whole != 1 {
			t.Errorf("%d lists of all tokens", store.whole)
		}
		store.mu.Unlock()
		close(store.end)
		all.Wait()
	})
}
