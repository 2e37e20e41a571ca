package manager

import "time"

// maxTenants bounds the tenants whose budgets are remembered at a time.
const maxTenants = 10_000

// A budget is how many questions a tenant may still ask.
type askBudget struct {
	left float64
	at   time.Time // when left was right
}

// budget returns the budget of a tenant. The caller holds d.mu.
func (d *ApprovalQueue) budget(tenant string, now time.Time) *askBudget {
	b := d.budgets[tenant]
	if b == nil {
		if len(d.budgets) >= maxTenants {
			d.forget(now)
		}
		b = &askBudget{left: float64(d.o.Burst), at: now}
		d.budgets[tenant] = b
	}
	return b
}

// forget drops the budgets that are full again.
func (d *ApprovalQueue) forget(now time.Time) {
	for tenant, b := range d.budgets {
		if b.refill(now, d.o); b.left >= float64(d.o.Burst) {
			delete(d.budgets, tenant)
		}
	}
}

func (b *askBudget) refill(now time.Time, o ApprovalQueueOptions) {
	if passed := now.Sub(b.at); passed > 0 {
		b.left = min(float64(o.Burst), b.left+passed.Minutes()*float64(o.PerMinute))
		b.at = now
	}
}

// take uses one question up if there is one left.
func (b *askBudget) take(now time.Time, o ApprovalQueueOptions) bool {
	b.refill(now, o)
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
