package manager_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

// as has a request made by a tenant.
func as(tenant string) func(*manager.Request) {
	return func(q *manager.Request) { q.Who.Tenant = tenant }
}

// mine returns the one sandbox in the list of a tenant.
func mine(t *testing.T, m *manager.Manager, tenant string) manager.Row {
	t.Helper()
	l, err := m.List(context.Background(), manager.ListOptions{Tenant: tenant})
	must(t, err)
	if len(l.Containers) != 1 || l.Containers[0].Tenant != tenant || l.Containers[0].Kind != sandbox.KindSandbox {
		t.Fatalf("the list of %s is %+v", tenant, l.Containers)
	}
	return l.Containers[0]
}

// TestNewTenantIsWarm holds that the first session of a tenant that nothing is
// known of claims a slot, that it finds nothing of another tenant there, and that
// the sandbox is the tenant's own from then on: for lists, quotas and prune, for
// other programs and when it is made anew.
func TestNewTenantIsWarm(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	text := pooled(2, `"docker":{"env":{"SHARED":"by settings"}}`)
	m := r.manager(text)
	fillPool(t, m)
	const look = `exec 2>&1; id -u; hostname; pwd; ls -A /workspace /tmp /var/tmp /run "$HOME" /.sandbox/run; env | sort; cat /etc/hosts /etc/passwd; cat /proc/1/environ | tr '\0' '\n'; ls /proc`
	outs, ids, uids := map[string]string{}, map[string]string{}, map[string]string{}
	for _, tenant := range []string{"acme", "vevil"} { // the second one after the first has used its slot
		_, o, err := run(m, "s", look, as(tenant))
		if err != nil || !o.Claimed || o.Miss != nil {
			t.Fatalf("the first session of %s: %+v, %v", tenant, o, err)
		}
		out, o, err := run(m, "s", look, as(tenant))
		if err != nil || o.Created {
			t.Fatalf("later: %+v, %v", o, err)
		}
		outs[tenant], ids[tenant] = out, mine(t, m, tenant).ID
		uids[tenant], _, _ = strings.Cut(out, "\n")
		if _, _, err := run(m, "s", `for d in /workspace /tmp /var/tmp "$HOME"; do echo secret-of-acme > $d/.cookies-acme; done; export SECRET=acme`, as(tenant)); err != nil {
			t.Fatal(err)
		}
	}
	if uids["acme"] == uids["vevil"] || ids["acme"] == ids["vevil"] {
		t.Errorf("two tenants share user %s or container %s", uids["acme"], ids["acme"])
	}
	if out := outs["vevil"]; strings.Contains(out, "acme") || strings.Contains(out, "cookies") {
		t.Errorf("the second tenant finds something of the first: %s", out)
	}
	for tenant, other := range map[string]string{"acme": "vevil", "vevil": "acme"} {
		out, err := exec.Command("docker", "inspect", ids[tenant]).CombinedOutput()
		if err != nil || strings.Contains(string(out), other) {
			t.Errorf("the container of %s names %s, %v", tenant, other, err)
		}
		if _, err := m.Recorded(ctx, other, mine(t, m, tenant).Name, ""); !sandbox.IsNotFound(err) {
			t.Errorf("%s is told of the sandbox of %s: %v", other, tenant, err)
		}
	}
	takes, err := m.Footprints(ctx, func(string) bool { return false })
	must(t, err)
	paid := map[string]int{}
	for _, f := range takes {
		paid[f.Tenant]++
	}
	if fmt.Sprint(paid) != "map[acme:1 vevil:1]" {
		t.Errorf("quotas count %v", paid)
	}
	// Another program, then a sandbox that is made anew: same user, same files.
	next := r.manager(text)
	again := func(what string, created bool) {
		t.Helper()
		out, o, err := run(next, "s", "id -u; cat /workspace/.cookies-acme", as("acme"))
		if err != nil || o.Created != created || o.Claimed || out != uids["acme"]+"\nsecret-of-acme" {
			t.Errorf("%s: %q, %+v, %v", what, out, o, err)
		}
	}
	again("another program", false)
	if done := next.Recreate(ctx, []manager.Row{mine(t, next, "acme")}); len(done.Removed) != 1 || len(done.Failed) != 0 {
		t.Fatalf("recreate: %+v", done)
	}
	again("made anew", true)
	// A sweep for one tenant takes its own, and neither the other's nor slots.
	fillPool(t, m)
	r.clock.advance(time.Minute)
	idle := time.Nanosecond
	if p, err := m.Prune(ctx, manager.PruneOptions{Idle: &idle, Workspaces: true, Tenant: "acme"}); err != nil || len(p.Removed) != 1 || len(p.Failed) != 0 {
		t.Errorf("prune: %+v, %v", p, err)
	}
	mine(t, m, "vevil")
	if n := slotsOf(t, m); n != 2 {
		t.Errorf("%d slots are left", n)
	}
	// What the first one leaves goes to no other tenant either.
	if out, o, err := run(m, "s", `ls -A /workspace /tmp "$HOME"; id -u`, as("third")); err != nil || !o.Claimed || strings.Contains(out, "acme") || strings.Contains(out, uids["acme"]) {
		t.Errorf("a third tenant: %q, %+v, %v", out, o, err)
	}
}

// TestTenantsRaceForSlots holds that of several tenants that claim at one time
// from two programs each has a sandbox of its own.
func TestTenantsRaceForSlots(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	keeper := r.manager(pooled(3))
	fillPool(t, keeper)
	other := r.manager(pooled(3))
	const n = 6
	outs := make(chan string, n)
	for i := range n {
		m := []*manager.Manager{keeper, other}[i%2]
		go func() {
			out, o, err := run(m, config.DefaultSession, `ls -A /workspace; echo x > /workspace/mine; id -u`, as(fmt.Sprint("tenant", i)))
			outs <- fmt.Sprint(out, err, o.Claimed || o.Miss != nil)
		}()
	}
	seen := map[string]bool{}
	for range n {
		out := <-outs
		if strings.Contains(out, "mine") || !strings.HasSuffix(out, "<nil> true") {
			t.Errorf("a tenant finds %q", out)
		}
		seen[out] = true
	}
	if len(seen) != n {
		t.Errorf("%d sandboxes for %d tenants", len(seen), n)
	}
}

// TestProcessesRaceForOneSlot holds that of processes that claim one slot for
// tenants of their own one gets it, and that the others make theirs.
func TestProcessesRaceForOneSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fillPool(t, r.manager(pooled(1)))
	const n = 3
	outs := make(chan string, n)
	for i := range n {
		cmd := childCmd(r, childSet+"="+pooled(1), childTenant+"="+fmt.Sprint("tenant", i), childLine+"=ls -A /workspace; echo x > /workspace/mine; id -u")
		go func() {
			b, err := cmd.Output()
			outs <- fmt.Sprint(strings.TrimSpace(string(b)), err)
		}()
	}
	users := map[string]bool{}
	for range n {
		out := <-outs
		if strings.Contains(out, "mine") || strings.Count(out, "<nil>") != 2 {
			t.Errorf("a child said %q", out)
		}
		users[strings.Fields(out)[2]] = true
	}
	claims, err := filepath.Glob(filepath.Join(r.state.Registry(), "claims", "*.json"))
	if err != nil || len(claims) != 1 || len(users) != n {
		t.Errorf("%d claims on one slot and %d users, %v", len(claims), len(users), err)
	}
	r.holds("in the end", n, n, n, 1)
}
