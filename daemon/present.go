package daemon

import (
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/tenant/quota"
)

// present counts the requests that tenants have under way. The zero value
// without a bound lets nobody in.
type present struct {
	most int

	mu sync.Mutex
	of map[string]int // by tenant
}

// retryPresent is when to come again where too many are there.
const retryPresent = time.Second

// enter counts one request more, until leave is called, once. Too many are
// [sandbox.CodeBudgetExceeded].
func (p *present) enter(tenant string) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.of[tenant]; n >= p.most {
		e := &quota.Exceeded{Account: tenant, Quota: "requestsAtOnce", Limit: int64(p.most), Used: int64(n), Want: 1, RetryAfter: retryPresent}
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
