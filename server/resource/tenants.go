package resource

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// An accountant knows what tenants may hold and hold; *admission.Admission is one.
type accountant interface {
	Rules(tenant string) config.TenantRules
	Held(tenant string) tenant.Want
	Used(ctx context.Context, tokens []string) (map[string]budget.Amount, error)
}

// TenantOptions configure the resource. All are required.
type TenantOptions struct {
	Accounts accountant
	Tokens   tokensStore
	Settings func() *config.Settings
	Manager  liveManager
}

// A tenantsResource has the route.
type tenantsResource struct {
	o      TenantOptions
	tokens *tokensResource
}

// NewTenants returns the resource.
func NewTenants(o TenantOptions) *tenantsResource {
	return &tenantsResource{o, NewTokens(o.Tokens)}
}

// Routes implements [Resource].
func (x *tenantsResource) Routes() []Route {
	return []Route{{
		ID: "listTenants", Method: http.MethodGet, Path: api.Prefix + "/tenants", Tag: "tokens", Role: token.Session,
		Summary: "List tenants with their quotas and budgets", Doc: "Admins see those that the settings name, and all that have a sandbox or a token; others see their own.",
		Response: api.TenantList{}, Errors: []int{503}, Do: x.list,
	}}
}

func (x *tenantsResource) list(c *Call) (any, error) {
	all, err := x.tokens.mine(c)
	if err != nil {
		return nil, err
	}
	if own := c.Caller.Token; own != nil && !c.Admin() && !slices.ContainsFunc(all.Tokens, func(t token.Listed) bool { return t.ID == own.ID }) {
		all.Tokens = append(all.Tokens, token.Listed{Token: *own})
	}
	ids := map[string]bool{c.Who.Tenant: true}
	if c.Admin() {
		if s := x.o.Settings(); s != nil && s.Tenants != nil {
			for _, t := range s.Tenants.List {
				if t.ID != nil {
					ids[*t.ID] = true
				}
			}
		}
		l, _ := x.o.Manager.List(c.Context(), manager.ListOptions{All: true, Unmatched: true}) // has what the records hold where a provider does not answer
		for i := range l.Containers {
			if l.Containers[i].Kind == sandbox.KindSandbox {
				ids[l.Containers[i].Tenant] = true
			}
		}
	}
	budgets := map[string][]token.Token{}
	var with []string
	for _, t := range all.Tokens {
		if c.Admin() && t.Role != token.Admin {
			ids[t.Tenant] = true
		}
		if t.Budget != nil && t.Refused == "" {
			budgets[t.Tenant] = append(budgets[t.Tenant], t.Token)
			with = append(with, t.ID)
		}
	}
	used, err := x.o.Accounts.Used(c.Context(), with)
	if err != nil {
		return nil, err
	}
	out := api.TenantList{Items: make([]api.Tenant, 0, len(ids))}
	for id := range ids {
		rules, held := x.o.Accounts.Rules(id), x.o.Accounts.Held(id)
		t := api.Tenant{
			ID: id, Listed: rules.Listed, Refused: rules.Refused, Weight: rules.Weight, Limits: rules.Limits, Budgets: []api.TokenBudgetUse{},
			Held: api.TenantHeld{Sandboxes: held.Sandboxes, Commands: held.Commands, Memory: held.Memory, NanoCPUs: held.NanoCPUs, Disk: held.Disk},
		}
		for _, b := range budgets[id] {
			t.Budgets = append(t.Budgets, api.TokenBudgetUse{
				Token: b.ID, Role: string(b.Role), Agent: b.Agent, Session: b.Session, Note: b.Note, Expires: b.Expires, Bound: *b.Budget, Used: used[b.ID],
			})
		}
		slices.SortFunc(t.Budgets, func(a, b api.TokenBudgetUse) int { return cmp.Compare(a.Token, b.Token) })
		out.Items = append(out.Items, t)
	}
	slices.SortFunc(out.Items, func(a, b api.Tenant) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}
