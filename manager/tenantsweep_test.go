package manager_test

import (
	"context"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/kubernetes"
)

// TestKubePruneTenants holds that prune removes the namespace of a tenant without sandboxes
// after the time of the settings or of the call, and one of a tenant with sandboxes not.
func TestKubePruneTenants(t *testing.T) {
	r := newPodRig(t)
	clock := time.Now
	r.rig.change = func(o *manager.Options) {
		p, err := kubernetes.New(kubernetes.Options{
			Kubeconfig: testenv.Kube(t), Namespace: r.namespace, TenantNamespaces: true, Now: func() time.Time { return clock() },
			World: func() hardening.World {
				return hardening.World{Canonical: func(p string) (string, error) { return p, nil }, Workspaces: []string{r.state.Workspaces()}}
			},
		})
		must(t, err)
		t.Cleanup(func() { p.Close() })
		o.Providers, err = provider.New(p)
		must(t, err)
	}
	namespace := func(tenant string) string { return r.namespace + "-t-" + tenant }
	t.Cleanup(func() {
		for _, tenant := range []string{"acme", "globex"} {
			if out, err := testenv.Kubectl(context.Background(), t, "delete", "namespace", namespace(tenant), "--ignore-not-found", "--wait=false").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
	})
	m := r.manager(r.pooled(0))
	var first manager.Outcome
	for _, tenant := range []string{"acme", "globex"} {
		_, o, err := run(m, "one", "true", func(q *manager.Request) { q.Who.Tenant = tenant })
		must(t, err)
		if first.Name == "" {
			first = o
		}
	}
	l, err := m.List(t.Context(), manager.ListOptions{})
	must(t, err)
	for _, row := range l.Containers {
		if row.Name == first.Name {
			must(t, m.Remove(t.Context(), row, manager.RemoveOptions{Force: true}))
		}
	}
	there := func(tenant string) string {
		t.Helper()
		return kubectl(t, "get", "namespace", namespace(tenant), "--ignore-not-found", "-o", "jsonpath={.metadata.deletionTimestamp}{.metadata.name}")
	}
	prune := func(o manager.PruneOptions) {
		t.Helper()
		_, err := m.Prune(t.Context(), o)
		must(t, err)
	}
	hour, never := time.Hour, time.Duration(0)
	prune(manager.PruneOptions{}) // it was used just now
	clock = func() time.Time { return time.Now().Add(2 * time.Hour) }
	prune(manager.PruneOptions{})                               // 24 hours by default
	prune(manager.PruneOptions{Idle: &never})                   // switched off
	prune(manager.PruneOptions{Idle: &hour, DryRun: true})      // removes nothing
	prune(manager.PruneOptions{Idle: &hour, Tenant: "initech"}) // that of another
	if got := there("acme"); got != namespace("acme") {
		t.Errorf("the namespace of acme is %q", got)
	}
	prune(manager.PruneOptions{Idle: &hour})
	if got := there("acme"); got == namespace("acme") {
		t.Error("the namespace of acme, empty and idle, is there")
	}
	if got := there("globex"); got != namespace("globex") {
		t.Errorf("the namespace of globex, which has a sandbox, is %q", got)
	}
}
