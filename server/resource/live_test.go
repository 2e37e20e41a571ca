package resource_test

import (
	"bufio"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant"
)

// TestLiveEvents holds that each caller hears of its own sandboxes and records alone,
// and that what comes too fast is counted.
func TestLiveEvents(t *testing.T) {
	t.Parallel()
	live := resource.NewLive()
	t.Cleanup(live.Close)
	r := served.New(t, served.Options{Resources: func(r *served.Rig) []resource.Resource {
		return []resource.Resource{live.Resource(resource.LiveOptions{Manager: r.Manager, Approvals: manager.NewApprovalQueue(manager.ApprovalQueueOptions{}), Log: r.Log})}
	}})
	name := r.Ready("acme", "s1")
	r.Want(403, "acme", "GET", "/v1/events?all=true", "")
	// heard follows as one of the people until an event of that name has the text, and
	// returns everything that came until then.
	heard := func(as, path string) func(event, text string) string {
		t.Helper()
		ctx, done := context.WithTimeout(t.Context(), 30*time.Second)
		t.Cleanup(done)
		res, err := r.Send(ctx, as, "GET", path, nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%v %v", err, res)
		}
		t.Cleanup(func() { res.Body.Close() })
		lines, all, last := bufio.NewScanner(res.Body), "", ""
		lines.Buffer(nil, 8<<20)
		return func(event, text string) string {
			t.Helper()
			for lines.Scan() {
				line := lines.Text()
				all += line + "\n"
				if rest, ok := strings.CutPrefix(line, "event: "); ok {
					last = rest
				}
				if strings.HasPrefix(line, "data: ") && last == event && strings.Contains(line, text) {
					return all
				}
			}
			t.Fatalf("%s: no event %s has %q: %v\n%s", as, event, text, lines.Err(), all)
			return ""
		}
	}
	mine, other, session, admin := heard("acme", "/v1/events"), heard("evil", "/v1/events"), heard("acme-s2", "/v1/events"), heard("root", "/v1/events?all=true")
	mine("sandboxes", name)
	admin("sandboxes", name)
	if all := other("figures", `"sandboxes":0`) + session("figures", `"sandboxes":0`); strings.Contains(all, name) {
		t.Errorf("others hear of the sandbox:\n%s", all)
	}
	record := func(tenant, session, what string) violation.Record {
		return violation.Record{Time: time.Now(), Tenant: tenant, Agent: "main", Session: session, Type: violation.NetworkViolation, Severity: policy.Low, Verdict: policy.Deny, Resource: what, Count: 1}
	}
	live.Violations([]violation.Record{record("acme", "s1", "of-acme-s1"), record("acme", "s2", "of-acme-s2"), record("evil", "s1", "of-evil")})
	live.Evidence([]evidence.Record{{Time: time.Now(), Tenant: "acme", Agent: "main", Session: "s1", Type: evidence.TypeBegin, Data: json.RawMessage(`{"id":"of-acme"}`)}, {Time: time.Now(), Tenant: "acme", Type: evidence.TypeCheckpoint, Data: json.RawMessage(`{}`)}})
	if all := mine("records", "of-acme-s1"); strings.Contains(all, "of-evil") || strings.Contains(all, "checkpoint") {
		t.Errorf("acme hears\n%s", all)
	}
	if all := session("records", "of-acme-s2"); strings.Contains(all, "of-acme-s1") || strings.Contains(all, "of-evil") {
		t.Errorf("the session s2 hears\n%s", all)
	}
	if all := other("records", "of-evil"); strings.Contains(all, "of-acme") {
		t.Errorf("evil hears\n%s", all)
	}
	admin("records", "of-evil")
	many := make([]violation.Record, 3000)
	for i := range many {
		many[i] = record("acme", "s1", "flood")
	}
	live.Violations(many)
	mine("records", `"dropped":2000`)
	r.Ready("acme", "s3")
	mine("sandboxes", `"session":"s3"`)
}

// TestTenantsAreListed holds what the list of tenants says, and of whom.
func TestTenantsAreListed(t *testing.T) {
	t.Parallel()
	r := served.New(t, served.Options{Resources: func(r *served.Rig) []resource.Resource {
		return []resource.Resource{resource.NewTokens(r.Tokens), resource.NewTenants(resource.TenantOptions{Accounts: accounts{}, Tokens: r.Tokens, Settings: nothingSet, Manager: r.Manager})}
	}})
	r.Ready("acme", "s1")
	r.Want(201, "acme", "POST", "/v1/tokens", `{"role":"session","session":"s9","budget":{"calls":5}}`)
	ids := func(as string) (ids []string, budgets int) {
		for _, one := range served.JSON[api.TenantList](t, r.Want(200, as, "GET", "/v1/tenants", "")).Items {
			ids, budgets = append(ids, one.ID), budgets+len(one.Budgets)
			if one.ID == "acme" && (one.Held.Sandboxes != 3 || one.Limits.Sandboxes != 7) {
				t.Errorf("%s: %+v", as, one)
			}
		}
		return ids, budgets
	}
	if got, n := ids("acme"); strings.Join(got, ",") != "acme" || n != 1 {
		t.Errorf("acme sees %v and %d budgets", got, n)
	}
	if got, n := ids("evil"); strings.Join(got, ",") != "evil" || n != 0 {
		t.Errorf("evil sees %v and %d budgets", got, n)
	}
	if got, n := ids("root"); !strings.Contains(strings.Join(got, ","), "acme,evil") || n != 1 {
		t.Errorf("an admin sees %v and %d budgets", got, n)
	}
}

// accounts say the same of each tenant.
type accounts struct{}

func (accounts) Rules(string) config.TenantRules {
	return config.TenantRules{Limits: tenant.NoLimits().With(tenant.Sandboxes, 7), Weight: 1}
}

func (accounts) Held(string) tenant.Want { return tenant.Want{Sandboxes: 3} }

func (accounts) Used(context.Context, []string) (map[string]budget.Amount, error) { return nil, nil }

func nothingSet() *config.Settings { return nil }
