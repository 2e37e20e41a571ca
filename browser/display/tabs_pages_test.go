package display

import (
	"fmt"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// TestPagesLeaveRoom checks that one tenant cannot open so many pages that
// there are none for others, and that their total is bounded.
func TestPagesLeaveRoom(t *testing.T) {
	open := func(p *Tabs, tenant string) (n int) {
		for ; ; n++ {
			if n > maxPages {
				t.Fatalf("tenant %q opens more than %d pages", tenant, maxPages)
			}
			if _, err := p.claim(config.Who{Tenant: tenant, Agent: "main", Session: fmt.Sprint(n)}); err != nil {
				if sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
					t.Fatal(err)
				}
				return n
			}
		}
	}
	p := NewTabs(nil)
	if n := open(p, "greedy"); n != maxTheirs {
		t.Errorf("one tenant opens %d", n)
	}
	if _, err := p.claim(config.Who{Tenant: "greedy", Agent: "main", Session: "0"}); err != nil {
		t.Errorf("a page that is open: %v", err)
	}
	all := maxTheirs
	for i := range maxPages {
		all += open(p, fmt.Sprint("tenant", i))
	}
	if all != maxPages {
		t.Errorf("%d pages are open", all)
	}
	if n := open(NewTabs(nil), ""); n != maxPages {
		t.Errorf("who is alone opens %d", n)
	}
}
