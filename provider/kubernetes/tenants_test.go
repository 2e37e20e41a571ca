package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/kubernetes"
)

// A tenantRig is a rig whose tenants have namespaces of their own.
type tenantRig struct {
	*rig
	mu     sync.Mutex
	quotas map[string]kubernetes.Quota
}

func newTenantRig(t testing.TB) *tenantRig {
	t.Helper()
	r := &tenantRig{rig: newRig(t), quotas: map[string]kubernetes.Quota{}}
	r.namespace = testenv.KubeNamespace(t)
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), 5*time.Minute)
		defer done()
		if out, err := testenv.Kubectl(ctx, t, "delete", "namespace", "--wait=true", "--selector", "dev.bulkhead.sandbox.instance="+r.fleet().Instance()).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return r
}

// fleet returns a further program of the fleet.
func (r *tenantRig) fleet(change ...func(*kubernetes.Options)) *kubernetes.Provider {
	r.Helper()
	o := kubernetes.Options{Kubeconfig: r.kubeconfig, Namespace: r.namespace, TenantNamespaces: true, Quota: r.quotaOf}
	for _, c := range change {
		c(&o)
	}
	return r.providerWith(r, o)
}

var unbounded = kubernetes.Quota{Pods: -1, Memory: -1, NanoCPUs: -1, Disk: -1}

func (r *tenantRig) quotaOf(tenant string) kubernetes.Quota {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q, ok := r.quotas[tenant]; ok {
		return q
	}
	return unbounded
}

func (r *tenantRig) bound(tenant string, change func(*kubernetes.Quota)) {
	q := r.quotaOf(tenant)
	change(&q)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quotas[tenant] = q
}

// of is the spec for a session of a tenant.
func (r *tenantRig) of(tenant, session string) sandbox.Spec {
	s := r.spec(tenant + "/" + session)
	s.Owner.Tenant, s.Owner.Session, s.Owner.ScopeKey = tenant, session, session
	return s
}

// get is what kubectl prints of objects in a namespace; nothing where there are none.
func (r *tenantRig) get(namespace, kind, path string) string {
	r.Helper()
	out, err := testenv.Kubectl(r.Context(), r, "get", "--namespace", namespace, kind, "--ignore-not-found", "-o", "jsonpath="+path).CombinedOutput()
	if err != nil {
		r.Fatalf("get %s of %s: %v: %s", kind, namespace, err, out)
	}
	return string(out)
}

// run returns what a command in an open sandbox prints.
func printed(t testing.TB, p sandbox.Provider, s sandbox.Spec, args ...string) string {
	t.Helper()
	sb, err := p.Open(t.Context(), s)
	must(t, err)
	defer sb.Close()
	var out bytes.Buffer
	process, err := sb.Start(t.Context(), sandbox.Command{Args: args, Stdout: &out})
	must(t, err)
	_, err = process.Wait()
	must(t, err)
	return strings.TrimSpace(out.String())
}

func names(infos []sandbox.Info) (out []string) {
	for _, i := range infos {
		out = append(out, i.Name)
	}
	slices.Sort(out)
	return out
}

// TestKubeTenants holds that two tenants with the same name of a session have their pods in
// two namespaces, which any program of the fleet lists, opens and removes, and neither
// reaches by the name of the other's.
func TestKubeTenants(t *testing.T) {
	t.Parallel()
	r := newTenantRig(t)
	p, other := r.fleet(), r.fleet()
	a, b, none := r.of("acme", "s"), r.of("globex", "s"), r.of("", "s")
	for _, s := range []sandbox.Spec{a, b, none} {
		_, err := p.Create(t.Context(), s)
		must(t, err)
	}
	for _, s := range []sandbox.Spec{a, b, none} {
		namespace := p.TenantNamespace(s.Owner.Tenant)
		if got := r.get(namespace, "pods", "{.items[*].metadata.name}"); got != s.Name {
			t.Errorf("%s has the pods %q, want %s", namespace, got, s.Name)
		}
		if got := printed(t, other, s, "echo", "hello"); got != "hello" {
			t.Errorf("the command of %s prints %q", s.Name, got)
		}
		info, err := r.fleet().Inspect(t.Context(), s.Name) // by one that has seen none
		if must(t, err); info.Owner != s.Owner {
			t.Errorf("%s belongs to %+v", s.Name, info.Owner)
		}
		if s.Owner.Tenant == "" {
			continue
		}
		if got := r.get("", "namespace/"+namespace, `{.metadata.labels.pod-security\.kubernetes\.io/enforce}`); got != "restricted" {
			t.Errorf("%s enforces %q", namespace, got)
		}
		if got := r.get(namespace, "networkpolicies", "{.items[*].metadata.name}"); got != "sandbox-deny-all" {
			t.Errorf("%s has the policies %q", namespace, got)
		}
	}
	all, err := other.List(t.Context(), sandbox.Filter{Instance: r.instance})
	must(t, err)
	if want := slices.Sorted(slices.Values([]string{a.Name, b.Name, none.Name})); !slices.Equal(names(all), want) {
		t.Errorf("listed: %v, want %v", names(all), want)
	}
	mine, err := other.List(t.Context(), sandbox.Filter{Instance: r.instance, Tenant: "acme"})
	if must(t, err); !slices.Equal(names(mine), []string{a.Name}) {
		t.Errorf("listed of acme: %v, want %s", names(mine), a.Name)
	}
	stolen := b
	stolen.Name = a.Name
	if _, err := other.Open(t.Context(), stolen); !sandbox.IsNotFound(err) {
		t.Errorf("globex opens the sandbox of acme: %v", err)
	}

	// A pod in the namespace of one tenant that names another is no sandbox.
	out, err := testenv.Kubectl(t.Context(), t, "get", "--namespace", p.TenantNamespace("acme"), "pod", a.Name, "-o", "json").Output()
	must(t, err)
	forged := testenv.Kubectl(t.Context(), t, "create", "--namespace", p.TenantNamespace("globex"), "-f", "-")
	forged.Stdin = strings.NewReader(strings.NewReplacer(`"namespace": "`+p.TenantNamespace("acme")+`"`, `"namespace": "`+p.TenantNamespace("globex")+`"`).Replace(string(out)))
	if out, err := forged.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	all, err = other.List(t.Context(), sandbox.Filter{Instance: r.instance})
	if must(t, err); len(all) != 3 {
		t.Errorf("with a forged pod: %v", names(all))
	}
	must(t, r.fleet().Remove(t.Context(), a.Name))
	if got := r.get(p.TenantNamespace("acme"), "pods", "{.items[*].metadata.name}"); got != "" {
		t.Errorf("acme still has %q", got)
	}
	if got := r.get(p.TenantNamespace("globex"), "pods", "{.items[*].metadata.name}"); len(strings.Fields(got)) != 2 {
		t.Errorf("globex has %q: its own and the forged pod stay", got)
	}
	if _, err := other.Inspect(t.Context(), a.Name); !sandbox.IsNotFound(err) {
		t.Errorf("the forged pod is inspected: %v", err)
	}

	// A program without the setting is none of this fleet.
	if plain := r.provider(t); plain.Instance() == p.Instance() {
		t.Error("programs with and without the setting share their locks")
	}
	if sb, err := p.Open(t.Context(), none); err != nil {
		t.Error(err)
	} else {
		defer sb.Close()
		if _, err := p.Bind(sb, b, sb.Info()); sandbox.CodeOf(err) != sandbox.CodeUnsupported {
			t.Errorf("a pod of all becomes that of a tenant: %v", err)
		}
	}
}

// TestKubeTenantQuota holds that the ResourceQuota of a tenant is that of the settings, now
// and when they change, and that one that is used up is an error at once, with the same
// code and field as elsewhere, that leaves nothing behind.
func TestKubeTenantQuota(t *testing.T) {
	t.Parallel()
	r := newTenantRig(t)
	p := r.fleet()
	namespace := p.TenantNamespace("acme")
	r.bound("acme", func(q *kubernetes.Quota) { q.Pods, q.Disk = 1, 10<<30 })
	one, two := r.of("acme", "one"), r.of("acme", "two")
	_, err := p.Create(t.Context(), one)
	must(t, err)
	refused := func(what, field string, text ...string) {
		t.Helper()
		begun := time.Now()
		_, err := p.Create(t.Context(), two)
		e, ok := errors.AsType[*sandbox.Error](err)
		if !ok || e.Code != sandbox.CodeBudgetExceeded || e.Field != field || e.Resource != "tenant acme" || e.Retryable || e.Hint == "" {
			t.Fatalf("%s: %+v", what, err)
		}
		for _, want := range text {
			if !strings.Contains(e.Message, want) {
				t.Errorf("%s: %q does not say %q", what, e.Message, want)
			}
		}
		t.Logf("%s: %v, in %v", what, err, time.Since(begun).Round(time.Millisecond))
		if got := r.get(namespace, "pods", "{.items[*].metadata.name}"); got != one.Name {
			t.Errorf("%s: the pods are %q", what, got)
		}
	}
	refused("pods", "quota.sandboxes", "requested: pods=1", "used: pods=1", "limited: pods=1")

	// Made anew at the limit, again and again: the cluster counts a pod for a moment
	// after it is gone.
	for range 3 {
		must(t, p.Remove(t.Context(), one.Name))
		_, err := p.Create(t.Context(), one)
		must(t, err)
	}
	memory := one.Resources.Memory
	r.bound("acme", func(q *kubernetes.Quota) { q.Pods, q.Memory = 5, memory+1<<20 })
	refused("memory", "quota.memory", "limits.memory")
	if got := r.get(namespace, "resourcequota/sandbox-tenant", "{.spec.hard.pods}"); got != "5" {
		t.Errorf("the quota has %q pods", got)
	}
	r.bound("acme", func(q *kubernetes.Quota) { q.Memory, q.NanoCPUs = -1, 1 })
	refused("cpus", "quota.nanoCpus", "limits.cpu")
	r.bound("acme", func(q *kubernetes.Quota) { q.NanoCPUs, q.Disk = -1, 1<<20 })
	refused("disk", "quota.disk", "limits.ephemeral-storage")
	r.bound("acme", func(q *kubernetes.Quota) { q.Disk = 1 << 30 })
	claim := with(two, "workspace", "pvc", "workspaceSize", int64(2<<30))
	if _, err := p.Create(t.Context(), claim); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded || !strings.Contains(err.Error(), "requests.storage=2Gi") {
		t.Errorf("a claim above the quota: %v", err)
	}
	r.bound("acme", func(q *kubernetes.Quota) { *q = unbounded })
	_, err = p.Create(t.Context(), two)
	must(t, err)
	if got := r.get(namespace, "resourcequota/sandbox-tenant", "{.spec.hard}"); got != "" && got != "{}" {
		t.Errorf("without bounds the quota is %s", got)
	}
}

// TestKubeTenantRefusals holds that a namespace which is not the tenant's is left as it is,
// and one that was changed is not used.
func TestKubeTenantRefusals(t *testing.T) {
	t.Parallel()
	r := newTenantRig(t)
	p := r.fleet()
	kubectl := func(args ...string) {
		t.Helper()
		if out, err := testenv.Kubectl(t.Context(), t, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	foreign := p.TenantNamespace("foreign")
	kubectl("create", "namespace", foreign)
	t.Cleanup(func() {
		_ = testenv.Kubectl(context.WithoutCancel(t.Context()), t, "delete", "namespace", foreign, "--wait=false").Run()
	})
	refused := func(tenant string, code sandbox.Code, text string) {
		t.Helper()
		_, err := p.Create(t.Context(), r.of(tenant, "s"))
		if sandbox.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v; want %s with %q", tenant, err, code, text)
		}
		if got := r.get(p.TenantNamespace(tenant), "pods", "{.items[*].metadata.name}"); got != "" {
			t.Errorf("%s: there are the pods %q", tenant, got)
		}
	}
	refused("foreign", sandbox.CodePermissionDeny, "not that of the tenant")
	if got := r.get(foreign, "networkpolicies,resourcequotas", "{.items[*].metadata.name}"); got != "" {
		t.Errorf("the namespace of others has %q", got)
	}
	// With our labels for another tenant it is not that of this one.
	must(t, p.PrepareTenant(t.Context(), "globex"))
	kubectl("annotate", "--overwrite", "namespace", p.TenantNamespace("globex"), "dev.bulkhead.sandbox.tenant=initech")
	refused("globex", sandbox.CodePermissionDeny, "not that of the tenant")

	must(t, p.PrepareTenant(t.Context(), "weak"))
	kubectl("label", "--overwrite", "namespace", p.TenantNamespace("weak"), "pod-security.kubernetes.io/enforce=privileged")
	refused("weak", sandbox.CodeCapabilityBlocked, "was changed")
	must(t, p.PrepareTenant(t.Context(), "open"))
	kubectl("patch", "--namespace", p.TenantNamespace("open"), "networkpolicy", "sandbox-deny-all", "--type=merge", "--patch", `{"spec":{"egress":[{}]}}`)
	refused("open", sandbox.CodeCapabilityBlocked, "was changed")

	secret := with(r.of("acme", "s"), "imagePullSecrets", []any{"registry"})
	if _, err := p.Create(t.Context(), secret); sandbox.CodeOf(err) != sandbox.CodeUnsupported {
		t.Errorf("imagePullSecrets: %v", err)
	}
	way := with(r.of("acme", "s"), "wayFromLabels", map[string]any{"a": "b"})
	if _, err := p.Create(t.Context(), way); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("wayFromLabels: %v", err)
	}
	if got := r.get("", "namespace/"+p.TenantNamespace("acme"), "{.metadata.name}"); got != "" {
		t.Errorf("what was refused made the namespace %s", got)
	}
}

// nowhere is a kubeconfig for an API server that is never asked.
func nowhere(t testing.TB) string {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(file, []byte("apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: [{name: x, cluster: {server: \"http://127.0.0.1:1\"}}]\ncontexts: [{name: x, context: {cluster: x}}]\n"), 0o600))
	return file
}

// hostileTenants are names of tenants, in which later ones try to come to the namespace
// of earlier ones.
func hostileTenants(p *kubernetes.Provider) []string {
	long := strings.Repeat("a", 300)
	out := []string{
		"acme", "ACME", "Acme", "acme ", "acme.", "acme-", "-acme", "ac_me", "ac-me", "ac--me", "../x", "x", "/x", "..", ".", "*", "acme\x00", "acme\n", "acmé", "ac\xffme",
		"kube-system", "t-acme", "h-acme", long, long + "b", long[:63], long[:253], strings.Repeat("é", 200), "{}", `"`, "a\\q", " ", strings.Repeat("-", 80),
	}
	for _, t := range slices.Clone(out) {
		name := p.TenantNamespace(t)
		out = append(out, name, strings.TrimPrefix(name, p.Namespace()+"-t-"), strings.TrimPrefix(name, p.Namespace()+"-h-"), strings.TrimPrefix(name, p.Namespace()+"-"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestTenantNames holds that each tenant has a namespace of its own, whatever it is
// called, and that it is none that others have.
func TestTenantNames(t *testing.T) {
	for _, o := range []kubernetes.Options{{Namespace: "sandboxes"}, {Namespace: "sandboxes", Fleet: "b"}, {Namespace: strings.Repeat("n", 63)}, {Namespace: "n"}} {
		o.TenantNamespaces, o.Kubeconfig = true, nowhere(t)
		p, err := kubernetes.New(o)
		must(t, err)
		t.Cleanup(func() { p.Close() })
		of := map[string]string{o.Namespace: "none"}
		for _, tenant := range hostileTenants(p) {
			name := p.TenantNamespace(tenant)
			if what := validation.IsDNS1123Label(name); len(what) > 0 {
				t.Errorf("%q has the namespace %q: %v", tenant, name, what)
			}
			if !strings.HasPrefix(name, o.Namespace[:min(len(o.Namespace), 20)]) {
				t.Errorf("%q has the namespace %q", tenant, name)
			}
			if first, taken := of[name]; taken {
				t.Errorf("%q and %q share the namespace %s", first, tenant, name)
			}
			of[name] = tenant
		}
		if len(of) < 60 {
			t.Errorf("only %d names were tried", len(of))
		}
	}
}

// TestKubeTenantHostile makes a pod for tenants with such names.
func TestKubeTenantHostile(t *testing.T) {
	t.Parallel()
	r := newTenantRig(t)
	p := r.fleet()
	var want []string
	for _, tenant := range []string{"../x", "ACME", strings.Repeat("a", 300), strings.Repeat("a", 301)} {
		s := r.of(tenant, "s")
		_, err := p.Create(t.Context(), s)
		must(t, err)
		want = append(want, s.Name)
		if got := r.get(p.TenantNamespace(tenant), "pods", "{.items[*].metadata.name}"); got != s.Name {
			t.Errorf("%.20q has the pods %q, want %s", tenant, got, s.Name)
		}
	}
	all, err := r.fleet().List(t.Context(), sandbox.Filter{Instance: r.instance})
	if must(t, err); !slices.Equal(names(all), slices.Sorted(slices.Values(want))) {
		t.Errorf("listed %v, want %v", names(all), want)
	}
}

// A cutting notes what transports send that changes something, and from the moment that
// it is cut they fail everything, as where the program is killed.
type cutting struct {
	mu   sync.Mutex
	sent []string
	at   string // the request after which all fail
	cut  atomic.Bool
}

// A cuttable transport is one of them.
type cuttable struct {
	*cutting
	next http.RoundTripper
}

func (c *cutting) wrap(o *kubernetes.Options) {
	o.Wrap(func(next http.RoundTripper) http.RoundTripper { return cuttable{c, next} })
}

func (c cuttable) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.cut.Load() {
		return nil, errors.New("the program was killed")
	}
	what := r.Method + " " + r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	answer, err := c.next.RoundTrip(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Method != http.MethodGet {
		c.sent = append(c.sent, what)
	}
	if what == c.at {
		c.cut.Store(true)
	}
	return answer, err
}

// TestKubeTenantKilled kills a program after each step that comes before a pod, and holds
// that no pod is there, and that the next program makes all that was left out first.
func TestKubeTenantKilled(t *testing.T) {
	t.Parallel()
	r := newTenantRig(t)
	for i, at := range []string{"POST leases", "POST namespaces", "POST networkpolicies", "POST resourcequotas"} {
		tenant := fmt.Sprintf("killed-%d", i)
		r.bound(tenant, func(q *kubernetes.Quota) { q.Pods = 3 })
		killed := &cutting{at: at}
		p := r.fleet(func(o *kubernetes.Options) {
			o.Call = 3 * time.Second
			killed.wrap(o)
		})
		s := r.of(tenant, "s")
		if _, err := p.Create(t.Context(), s); err == nil || !killed.cut.Load() {
			t.Fatalf("killed after %s: %v, having sent %v", at, err, killed.sent)
		}
		if got := r.get(p.TenantNamespace(tenant), "pods", "{.items[*].metadata.name}"); got != "" {
			t.Errorf("killed after %s: there are the pods %q", at, got)
		}
		seen := &cutting{}
		p = r.fleet(seen.wrap)
		_, err := p.Create(t.Context(), s)
		must(t, err)
		seen.mu.Lock()
		sent := slices.Concat(killed.sent, seen.sent)
		seen.mu.Unlock()
		order := []string{"POST namespaces", "POST networkpolicies", "POST resourcequotas", "POST pods"}
		last := -1
		for _, step := range order {
			n := slices.Index(sent, step)
			if n <= last {
				t.Errorf("killed after %s: sent %v, want %v in this order", at, sent, order)
			}
			last = n
		}
	}
}

// TestKubeTenantSweep holds that prune removes the namespace of a tenant that is empty and
// idle, and none that is used, has pods, or is not ours.
func TestKubeTenantSweep(t *testing.T) {
	t.Parallel()
	r := newTenantRig(t)
	p := r.fleet()
	later := r.fleet(func(o *kubernetes.Options) { o.Now = func() time.Time { return time.Now().Add(2 * time.Hour) } })
	used, empty := r.of("used", "s"), r.of("empty", "s")
	for _, s := range []sandbox.Spec{used, empty} {
		_, err := p.Create(t.Context(), s)
		must(t, err)
	}
	must(t, p.Remove(t.Context(), empty.Name))
	must(t, p.PrepareTenant(t.Context(), "forged"))
	if out, err := testenv.Kubectl(t.Context(), t, "label", "--overwrite", "namespace", p.TenantNamespace("forged"), "dev.bulkhead.sandbox.tenant=0").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	sweep := func(by *kubernetes.Provider, idle time.Duration, want ...string) {
		t.Helper()
		got, err := by.SweepTenants(t.Context(), idle)
		if must(t, err); !slices.Equal(got, want) {
			t.Errorf("after %v: removed %v, want %v", idle, got, want)
		}
	}
	sweep(p, time.Hour)
	sweep(p, time.Nanosecond) // a namespace that was just used is never idle
	sweep(later, 0)
	sweep(later, 3*time.Hour)
	sweep(later, time.Hour, p.TenantNamespace("empty"))
	if got := printed(t, p, used, "echo", "lives"); got != "lives" {
		t.Errorf("the used sandbox prints %q", got)
	}
	for _, tenant := range []string{"used", "forged"} {
		if got := r.get("", "namespace/"+p.TenantNamespace(tenant), "{.status.phase}"); got != "Active" {
			t.Errorf("the namespace of %s is %q", tenant, got)
		}
	}
	// A session that begins while the namespace ends waits for that, and begins.
	_, err := r.fleet().Create(t.Context(), empty)
	must(t, err)
	if got := printed(t, p, empty, "echo", "again"); got != "again" {
		t.Errorf("it prints %q", got)
	}
	must(t, p.Remove(t.Context(), used.Name))
	sweep(later, time.Hour) // it was used just now, by both clocks
}

// TestKubeTenantSweepRace has programs remove namespaces as idle while others begin
// sessions there: each session begins.
func TestKubeTenantSweepRace(t *testing.T) {
	t.Parallel()
	r := newTenantRig(t)
	must(t, r.fleet().PrepareTenant(t.Context(), "acme"))
	for round := range 3 {
		ahead := func(o *kubernetes.Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(round+1) * time.Hour) }
		}
		var wait sync.WaitGroup
		swept := make(chan int, 2)
		for range 2 {
			p := r.fleet(ahead)
			wait.Go(func() {
				out, err := p.SweepTenants(t.Context(), 30*time.Minute)
				if err != nil {
					t.Error(err)
				}
				swept <- len(out)
			})
		}
		for i := range 2 {
			p, s := r.fleet(ahead), r.of("acme", fmt.Sprint(round, i))
			wait.Go(func() {
				if _, err := p.Create(t.Context(), s); err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
				if _, err := p.Inspect(t.Context(), s.Name); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
				if err := p.Remove(t.Context(), s.Name); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if n := <-swept + <-swept; n > 1 {
			t.Errorf("round %d: the namespace was removed %d times", round, n)
		}
	}
}
