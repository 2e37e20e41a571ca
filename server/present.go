package server

import (
	"fmt"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/resource"
	tenants "github.com/bulkhead-dev/sandbox/tenant"
)

// present counts the running requests of each tenant. The zero value has no
// bound and admits no request.
type present struct {
	most int

	mu sync.Mutex
	of map[string]int // by tenant
}

// A held counts bytes that requests have in memory, by owner: a tenant, or all
// admins together. The zero value has no bound and admits none.
type held struct {
	most int64

	mu sync.Mutex
	of map[string]int64 // by tenant; requests of admins belong to no tenant
}

// take counts n more bytes until give is called, once. Where that is too many it
// returns how many are in use.
func (h *held) take(whose string, n int64) (give func(), used int64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if used := h.of[whose]; n > h.most-used {
		return nil, used, false
	}
	if h.of == nil {
		h.of = map[string]int64{}
	}
	h.of[whose] += n
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.of[whose] -= n; h.of[whose] <= 0 {
			delete(h.of, whose)
		}
	}, 0, true
}

// account returns the tenant that is charged for what a call holds, or "" where
// an admin calls.
func account(c *resource.Call) string {
	if c.Admin() {
		return ""
	}
	return c.Who.Tenant
}

// holdBody reserves room for a part of a body.
func (s *Server) holdBody(whose string, n int64) (give func(), err error) {
	give, used, ok := s.bodies.take(whose, n)
	if !ok {
		e := &tenants.Exceeded{Account: whose, Quota: "bodyBytesAtOnce", Limit: s.bodies.most, Used: used, Want: n, RetryAfter: retryPresent}
		return nil, e.Wrap("read request")
	}
	return give, nil
}

// holdAnswer reserves room for an answer. Its error is not one to retry: the
// request that the answer describes has been carried out.
func (s *Server) holdAnswer(whose string, n int64) (give func(), err error) {
	give, used, ok := s.answers.take(whose, n)
	if !ok {
		return nil, &sandbox.Error{
			Code: sandbox.CodeBudgetExceeded, Op: "serve", Field: "quota.answerBytesAtOnce", Resource: whose,
			Message: fmt.Sprintf("it was done, and there is no room for an answer of %d bytes: %d of %d are taken by answers that are not read yet", n, used, s.answers.most),
			Hint:    "read the answers that are under way",
		}
	}
	return give, nil
}

// retryPresent is the Retry-After of a request that was one too many.
const retryPresent = time.Second

// enter counts one more request until leave is called, once. Too many are
// [sandbox.CodeBudgetExceeded].
func (p *present) enter(tenant string) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.of[tenant]; n >= p.most {
		e := &tenants.Exceeded{Account: tenant, Quota: "requestsAtOnce", Limit: int64(p.most), Used: int64(n), Want: 1, RetryAfter: retryPresent}
		return nil, e.Wrap("serve")
	}
	if p.of == nil {
		p.of = map[string]int{}
	}
	p.of[tenant]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.of[tenant]--; p.of[tenant] == 0 {
			delete(p.of, tenant)
		}
	}, nil
}
