package config

import (
	"fmt"
	"math"

	"github.com/bulkhead-dev/sandbox/tenant"
)

// defaultTokens is how many tokens of a tenant that were made from others may be
// good where nothing is said: enough for a conversation each of many people, and
// few enough to be looked through.
const defaultTokens = 4096

// maxTenants bounds the list of tenants.
const maxTenants = 10_000

// TenantRules are what settings say about one tenant.
type TenantRules struct {
	Limits  tenant.Limits `json:"limits"` // -1 is no bound
	Weight  int           `json:"weight"` // commands that begin when it is its turn
	Tokens  int64         `json:"tokens"` // made from others, that are good; -1 is no bound
	Listed  bool          `json:"listed"`
	Refused bool          `json:"refused"` // it is not listed, and the list is closed
}

// Tenants are the rules of all tenants, ready to be asked. They do not change
// and are safe for concurrent use.
type Tenants struct {
	closed bool
	rest   TenantRules // of tenants that are not listed
	listed map[string]TenantRules
}

// TenantsOf returns the rules for tenants. s may be nil.
func TenantsOf(s *Settings) Tenants {
	t := Tenants{rest: TenantRules{Limits: tenant.NoLimits(), Weight: 1, Tokens: defaultTokens}}
	if s == nil || s.Tenants == nil {
		return t
	}
	if d := s.Tenants.Defaults; d != nil {
		t.rest = t.rest.under(d)
	}
	t.closed = s.Tenants.Closed != nil && *s.Tenants.Closed
	t.listed = make(map[string]TenantRules, len(s.Tenants.List))
	for _, one := range s.Tenants.List {
		if one.ID == nil {
			continue // refused when the file is parsed
		}
		r := t.rest.under(one.limits())
		r.Listed = true
		t.listed[*one.ID] = r
	}
	return t
}

// Of returns the rules for a tenant. The empty one, of people who use this
// machine for themselves, is never refused.
func (t Tenants) Of(tenant string) TenantRules {
	if r, ok := t.listed[tenant]; ok {
		return r
	}
	r := t.rest
	r.Refused = t.closed && tenant != ""
	return r
}

// under returns r with l laid over it.
func (r TenantRules) under(l *TenantLimits) TenantRules {
	lay(&r.Limits.Sandboxes, l.Sandboxes)
	lay(&r.Limits.Commands, l.Commands)
	lay(&r.Limits.Memory, l.Memory)
	if l.CPUs != nil {
		r.Limits.NanoCPUs = tenant.Unlimited
		if *l.CPUs >= 0 {
			r.Limits.NanoCPUs = int64(math.Round(*l.CPUs * 1e9))
		}
	}
	lay(&r.Limits.Disk, l.Disk)
	if l.RequestsPerSecond != nil {
		r.Limits.RequestsPerSecond = *l.RequestsPerSecond
		r.Limits.RequestBurst = 0 // as many as in a second, where nothing else is said beside it
		if *l.RequestsPerSecond == tenant.Unlimited {
			r.Limits.RequestBurst = tenant.Unlimited
		}
	}
	if l.RequestBurst != nil && r.Limits.RequestsPerSecond != tenant.Unlimited {
		r.Limits.RequestBurst = *l.RequestBurst
	}
	lay(&r.Weight, l.Weight)
	lay(&r.Tokens, l.Tokens)
	return r
}

func (p *problems) tenants(t *TenantsSettings) {
	if t == nil {
		return
	}
	if n := len(t.List); n > maxTenants {
		p.badly("tenants.list", "those that need nothing of their own are served without being listed", "has %d tenants; %d are allowed", n, maxTenants)
		return
	}
	if t.Defaults != nil {
		p.tenantLimits(t.Defaults, "tenants.defaults")
	}
	first := map[string]int{}
	for i, one := range t.List {
		at := fmt.Sprintf("tenants.list[%d]", i)
		if one.ID != nil {
			if j, ok := first[*one.ID]; ok {
				p.badly(at+".id", "give each tenant an id of its own", "%q is the id of tenants.list[%d] already", *one.ID, j)
			}
			first[*one.ID] = i
		}
		p.tenantLimits(one.limits(), at)
	}
}

func (p *problems) tenantLimits(l *TenantLimits, at string) {
	if l.CPUs != nil && *l.CPUs < 0 && *l.CPUs != -1 {
		p.badly(at+".cpus", "-1 is no bound", "%v is no number of processors", *l.CPUs)
	}
}
