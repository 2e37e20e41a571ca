//go:build linux && !sandbox_front && !sandbox_engine

package orchestrator_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// newTenantFleet is a fleet whose tenants acme and globex have namespaces of their own.
func newTenantFleet(t testing.TB) *fleet {
	t.Helper()
	f := newFleet(t)
	f.settings = strings.Replace(f.settings, `"networkPolicy": "trust"`, `"networkPolicy": "trust", "tenantNamespaces": true`, 1)
	f.settings = strings.Replace(f.settings, `"agents"`, `"tenants": {"list": [{"id": "acme", "sandboxes": 1}, {"id": "globex", "memory": "1g", "cpus": 4}]}, "agents"`, 1)
	f.settings = strings.Replace(f.settings, `"provider": "kubernetes"`, `"provider": "kubernetes", "pool": {"size": 1}`, 1)
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
		defer done()
		for _, tenant := range []string{"acme", "globex"} {
			if out, err := testenv.Kubectl(ctx, t, "delete", "namespace", f.namespace+"-t-"+tenant, "--ignore-not-found", "--wait=false").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
	})
	return f
}

// runOf runs a line of a shell for a tenant.
func (f *fleet) runOf(m *manager.Manager, tenant, session, line string) (string, manager.Outcome, error) {
	var out bytes.Buffer
	ctx, done := context.WithTimeout(f.Context(), 3*time.Minute)
	defer done()
	who := config.Who{Tenant: tenant, Agent: "main", Session: session}
	o, err := m.Run(ctx, manager.Request{Who: who, Command: sandbox.Command{Args: []string{"sh", "-c", line}, Stdout: &out, Stderr: &out}})
	return strings.TrimSpace(out.String()), o, err
}

func (f *fleet) podsOf(tenant string) []string {
	f.Helper()
	return strings.Fields(f.kubectl("get", "pods", "--namespace", f.namespace+"-t-"+tenant, "--output", "name"))
}

// TestKubeTenantNamespaces holds that two programs serve tenants with namespaces of their
// own: sessions with one name stay apart, the quota of a tenant bounds it and leaves
// nothing behind, a pool serves those without a tenant, and list, explain, recreate,
// prune and remove reach all.
func TestKubeTenantNamespaces(t *testing.T) {
	f := newTenantFleet(t)
	first, second := f.open(), f.open()
	a, err := first.Manager()
	fatal(t, err)
	b, err := second.Manager()
	fatal(t, err)
	for filled := false; !filled; {
		_, next, err := a.Refill(t.Context())
		fatal(t, err)
		filled = next > time.Second
	}
	if got := f.names("pods"); len(got) != 1 {
		t.Fatalf("the pool has the pods %v", got)
	}
	made := map[string]manager.Outcome{}
	for _, tenant := range []string{"acme", "globex"} {
		_, o, err := f.runOf(a, tenant, "one", "echo "+tenant+" > /workspace/f")
		fatal(t, err)
		if !o.Created || o.Claimed || o.Miss == nil || o.Miss.Reason != pool.NoSlots {
			t.Errorf("%s: %+v, %+v", tenant, o, o.Miss)
		}
		made[tenant] = o
		if got := f.podsOf(tenant); len(got) != 1 || got[0] != "pod/"+o.Name {
			t.Errorf("%s has the pods %v, want %s", tenant, got, o.Name)
		}
		if out, _, err := f.runOf(b, tenant, "one", "cat /workspace/f"); err != nil || out != tenant {
			t.Errorf("%s by the other program: %q, %v", tenant, out, err)
		}
	}
	if _, o := f.mustRun(a, "one", "true"); !o.Claimed {
		t.Errorf("without a tenant the pool is not used: %+v, %+v", o, o.Miss)
	}
	if hard := f.kubectl("get", "resourcequota", "sandbox-tenant", "--namespace", f.namespace+"-t-globex", "--output", "jsonpath={.spec.hard}"); hard != `{"limits.cpu":"4","limits.memory":"1Gi"}` {
		t.Errorf("the quota of globex is %s", hard)
	}

	_, _, err = f.runOf(b, "acme", "two", "true")
	e, ok := errors.AsType[*sandbox.Error](err)
	if !ok || e.Code != sandbox.CodeBudgetExceeded || e.Field != "quota.sandboxes" || e.Resource != "tenant acme" || !strings.Contains(e.Message, "used: pods=1, limited: pods=1") {
		t.Errorf("a second sandbox of acme: %v", err)
	}
	if got := f.podsOf("acme"); len(got) != 1 {
		t.Errorf("acme has the pods %v", got)
	}
	l, err := b.List(t.Context(), manager.ListOptions{})
	fatal(t, err)
	if len(l.Containers) != 3 {
		t.Errorf("b lists %+v", l.Containers)
	}
	rows := map[string]manager.Row{}
	for _, row := range l.Containers {
		rows[row.Tenant] = row
		if row.Status != sandbox.StatusRunning {
			t.Errorf("b lists %+v", row)
		}
	}
	x, err := b.Explain(t.Context(), config.Who{Tenant: "acme", Agent: "main", Session: "one"}, nil, manager.Questions{})
	fatal(t, err)
	if x.Status != sandbox.StatusRunning || len(x.Drift) > 0 {
		t.Errorf("b explains %v, %v", x.Status, x.Drift)
	}

	fatal(t, b.Remove(t.Context(), rows["acme"], manager.RemoveOptions{Force: true}))
	if got := f.podsOf("acme"); len(got) > 0 {
		t.Errorf("acme still has the pods %v", got)
	}
	if _, o, err := f.runOf(b, "acme", "two", "true"); err != nil || !o.Created {
		t.Errorf("after the removal acme has room: %+v, %v", o, err)
	}

	// A pod without a record is an orphan, in the namespace of a tenant too.
	first.Close()
	second.Close()
	f.kubectl("delete", "lease", made["globex"].Name, "--namespace", f.namespace)
	c := f.replica()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C { // an orphan is kept for its first minute
		pruned, err := c.Prune(t.Context(), manager.PruneOptions{})
		fatal(t, err)
		if len(pruned.Removed) > 0 {
			if r := pruned.Removed[0]; len(pruned.Removed) != 1 || r.Name != made["globex"].Name || !strings.Contains(r.Reason, "orphan") {
				t.Errorf("pruned: %+v", pruned)
			}
			break
		}
		if time.Since(begun) > 2*time.Minute {
			t.Fatalf("the orphan of globex is there: %v", f.podsOf("globex"))
		}
	}
	if got := f.podsOf("globex"); len(got) > 0 {
		t.Errorf("the orphan of globex is there: %v", got)
	}
	if got := f.podsOf("acme"); len(got) != 1 {
		t.Errorf("prune has removed what is used: %v", got)
	}
}
