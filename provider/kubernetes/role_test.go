package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/kubernetes"
)

// An account is the service account of the chart in a namespace of its own, with the
// chart's role and its policies.
type account struct {
	testing.TB
	namespace  string
	kubeconfig string
	client     client.Interface // as the account
	role       rbacv1.Role      // as the chart has it

	everywhere rbacv1.ClusterRole // the same; empty without tenantNamespaces
}

func newAccount(t testing.TB, values ...string) *account {
	t.Helper()
	a := &account{TB: t, namespace: testenv.KubeNamespace(t), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	args := append([]string{"template", "sandbox", chartDir, "--namespace", a.namespace, "--kube-version", "1.34.4",
		"--values", filepath.Join(chartDir, "..", "manifests.yaml"), "--show-only", "templates/rbac.yaml", "--show-only", "templates/serviceaccount.yaml",
		"--show-only", "templates/networkpolicy.yaml"}, values...)
	rendered, err := testenv.Helm(t.Context(), t, args...).Output()
	must(t, err)
	a.kubectl(string(rendered), "apply", "-f", "-")
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(rendered), 4096); ; {
		var r rbacv1.Role
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else {
			must(t, err)
		}
		switch r.Kind {
		case "Role":
			a.role = r
		case "ClusterRole":
			a.everywhere = rbacv1.ClusterRole{TypeMeta: r.TypeMeta, ObjectMeta: r.ObjectMeta, Rules: r.Rules}
		}
	}
	admin, err := clientcmd.LoadFromFile(testenv.Kube(t))
	must(t, err)
	token := a.kubectl("", "create", "token", "sandbox")
	for _, user := range admin.AuthInfos {
		user.ClientCertificateData, user.ClientKeyData, user.Token = nil, nil, token
	}
	must(t, clientcmd.WriteToFile(*admin, a.kubeconfig))
	config, err := clientcmd.BuildConfigFromFlags("", a.kubeconfig)
	must(t, err)
	a.client, err = client.NewForConfig(config)
	must(t, err)
	return a
}

func (a *account) kubectl(stdin string, args ...string) string {
	a.Helper()
	cmd := testenv.Kubectl(a.Context(), a, append([]string{"--namespace", a.namespace}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		a.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// has gives the account this role and waits until the API server goes by it: what is
// asked for is granted, and what is without is not.
func (a *account) has(role rbacv1.Role, without *right) {
	a.Helper()
	text, err := json.Marshal(role)
	must(a, err)
	a.kubectl(string(text), "apply", "-f", "-")
	for deadline := time.Now().Add(time.Minute); ; {
		wrong := ""
		for _, r := range rightsOf(a.role) {
			if want := without == nil || r != *without; a.may(r) != want {
				wrong = fmt.Sprintf("%s: granted %v", r, !want)
			}
		}
		if wrong == "" {
			return
		}
		if time.Now().After(deadline) {
			a.Fatalf("the API server does not go by the role: %s", wrong)
		}
	}
}

func (a *account) may(r right) bool {
	a.Helper()
	resource, sub, _ := strings.Cut(r.resource, "/")
	answer, err := a.client.AuthorizationV1().SelfSubjectAccessReviews().Create(a.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: a.namespace, Verb: r.verb, Group: r.group, Resource: resource, Subresource: sub,
		}},
	}, metav1.CreateOptions{})
	must(a, err)
	return answer.Status.Allowed
}

// A right is one verb of one rule.
type right struct{ group, resource, verb string }

func (r right) String() string { return r.verb + " " + r.resource }

// rightsOf returns what a role grants.
func rightsOf(role rbacv1.Role) (out []right) {
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					out = append(out, right{group, resource, verb})
				}
			}
		}
	}
	return out
}

// An operation is what a daemon does with a cluster.
type clusterOperation struct {
	name string
	do   func(ctx context.Context) error
}

// operations returns all of them, in an order in which each finds what it needs.
func (a *account) operations(r *rig, s sandbox.Spec) []clusterOperation {
	p, err := kubernetes.New(kubernetes.Options{Kubeconfig: a.kubeconfig, Namespace: a.namespace, World: r.world})
	must(a, err)
	a.Cleanup(func() { p.Close() })
	docs, locks := p.State(keylock.Open(a.TempDir()), func(string) {})
	record := func(text string) error {
		return docs.Change(s.Name, func(d *statedir.Document) error {
			d.Creation = []byte(text)
			if text == "" {
				d.Creation = nil
			}
			return nil
		})
	}
	return []clusterOperation{
		{"list", func(ctx context.Context) error {
			_, err := p.List(ctx, sandbox.Filter{Instance: r.instance})
			return err
		}},
		{"create", func(ctx context.Context) error {
			_, err := p.Create(ctx, s)
			return err
		}},
		{"inspect", func(ctx context.Context) error {
			_, err := p.Inspect(ctx, s.Name)
			return err
		}},
		{"exec", func(ctx context.Context) error {
			sb, err := p.Open(ctx, s)
			if err != nil {
				return err
			}
			defer sb.Close()
			process, err := sb.Start(ctx, sandbox.Command{Args: []string{"true"}})
			if err != nil {
				return err
			}
			_, err = process.Wait()
			return err
		}},
		{"remove", func(ctx context.Context) error { return p.Remove(ctx, s.Name) }},
		{"record", func(context.Context) error { return record("one") }},
		{"change record", func(context.Context) error { return record("two") }},
		{"read record", func(context.Context) error {
			_, err := docs.Get(s.Name)
			return err
		}},
		{"list records", func(context.Context) error {
			_, err := docs.List()
			return err
		}},
		{"forget record", func(context.Context) error { return record("") }},
		{"hold", func(ctx context.Context) error {
			// The program joins the others with the first lock, and finds out
			// beside it whether it may watch.
			for range 20 {
				held, err := locks.Shared(ctx, s.Name)
				if err != nil {
					return err
				}
				if err := held.Release(); err != nil && sandbox.CodeOf(err) != sandbox.CodeUnavailable {
					return err
				}
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(50 * time.Millisecond):
				}
			}
			return nil
		}},
	}
}

// TestKubeRole holds that the role of the chart is enough, and that no verb of it can be
// left out: without it an operation fails, with an error that names the right. The
// verbs are those that the chart has.
func TestKubeRole(t *testing.T) {
	t.Parallel()
	a, r := newAccount(t), newRig(t)
	admin, err := kubernetes.New(kubernetes.Options{Kubeconfig: r.kubeconfig, Namespace: a.namespace, World: r.world})
	must(t, err)
	t.Cleanup(func() { admin.Close() })
	rights := rightsOf(a.role)
	if len(rights) < 5 {
		t.Fatalf("the chart grants %v", rights)
	}
	var asked, granted []string
	for _, r := range kubernetes.Rights(nil) {
		asked = append(asked, r.String())
	}
	for _, r := range rights {
		granted = append(granted, r.String())
	}
	if slices.Sort(asked); !slices.Equal(asked, slices.Sorted(slices.Values(granted))) {
		t.Errorf("doctor looks for the rights %v, the chart grants %v", asked, granted)
	}
	a.has(a.role, nil)
	for _, o := range a.operations(r, r.spec("all")) {
		if err := o.do(t.Context()); err != nil {
			t.Fatalf("with all rights, %s: %v", o.name, err)
		}
	}
	for i, missing := range rights {
		t.Run(strings.ReplaceAll(missing.String(), "/", "-"), func(t *testing.T) {
			role := a.role
			role.Rules = nil
			for _, other := range slices.Delete(slices.Clone(rights), i, i+1) {
				role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{other.group}, Resources: []string{other.resource}, Verbs: []string{other.verb}})
			}
			a.has(role, &missing)
			s := r.spec(missing.String())
			defer func() { must(t, admin.Remove(context.WithoutCancel(t.Context()), s.Name)) }()
			for _, o := range a.operations(r, s) {
				err := o.do(t.Context())
				if err == nil {
					continue
				}
				t.Logf("%s fails: %v", o.name, err)
				if sandbox.CodeOf(err) != sandbox.CodePermissionDeny || !strings.Contains(err.Error(), "cannot "+missing.verb+" resource \""+missing.resource+"\"") {
					t.Errorf("%s fails without naming %s: %v", o.name, missing, err)
				}
				return
			}
			t.Errorf("nothing needs %s: the chart grants too much", missing)
		})
	}
}

// TestKubeTenantRole is TestKubeRole for the ClusterRole that tenantNamespaces of the chart adds,
// beside which the Role grants Leases alone.
func TestKubeTenantRole(t *testing.T) {
	t.Parallel()
	a, r := newAccount(t, "--set", "tenantNamespaces=true"), newRig(t)
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), 5*time.Minute)
		defer done()
		for _, kind := range []string{"clusterrolebinding", "clusterrole"} {
			if out, err := testenv.Kubectl(ctx, t, "delete", kind, a.everywhere.Name).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
	})
	pods := int64(5)
	o := kubernetes.Options{Kubeconfig: a.kubeconfig, Namespace: a.namespace, TenantNamespaces: true, World: r.world, Quota: func(string) kubernetes.Quota {
		return kubernetes.Quota{Pods: pods, Memory: -1, NanoCPUs: -1, Disk: -1}
	}}
	program := func(o kubernetes.Options) *kubernetes.Provider {
		p, err := kubernetes.New(o)
		must(t, err)
		t.Cleanup(func() { p.Close() })
		return p
	}
	admin := o
	admin.Kubeconfig = r.kubeconfig
	all := program(admin)
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), 5*time.Minute)
		defer done()
		if out, err := testenv.Kubectl(ctx, t, "delete", "namespace", "--wait=true", "--selector", "dev.bulkhead.sandbox.instance="+all.Instance()).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	operations := func(tenant string) []clusterOperation {
		s := r.spec(tenant)
		s.Owner.Tenant = tenant
		p := program(o)
		later := o
		later.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
		return []clusterOperation{
			{"list", func(ctx context.Context) error {
				_, err := p.List(ctx, sandbox.Filter{Instance: r.instance})
				return err
			}},
			{"create", func(ctx context.Context) error {
				_, err := p.Create(ctx, s)
				return err
			}},
			{"inspect", func(ctx context.Context) error {
				_, err := p.Inspect(ctx, s.Name)
				return err
			}},
			{"exec", func(ctx context.Context) error {
				sb, err := p.Open(ctx, s)
				if err != nil {
					return err
				}
				return sb.Close()
			}},
			{"change quota", func(ctx context.Context) error {
				pods++
				return p.PrepareTenant(ctx, tenant)
			}},
			{"remove", func(ctx context.Context) error { return p.Remove(ctx, s.Name) }},
			{"remove namespace", func(ctx context.Context) error {
				_, err := program(later).SweepTenants(ctx, time.Hour)
				return err
			}},
		}
	}
	granted := func(rules []rbacv1.PolicyRule) (out []right) {
		return rightsOf(rbacv1.Role{Rules: rules})
	}
	rights := granted(a.everywhere.Rules)
	same := func(what string, doctor []kubernetes.Right, chart []right) {
		var asked, has []string
		for _, r := range doctor {
			asked = append(asked, r.String())
		}
		for _, r := range chart {
			has = append(has, r.String())
		}
		slices.Sort(asked)
		if slices.Sort(has); !slices.Equal(asked, has) || len(has) < 6 {
			t.Errorf("%s: doctor looks for %v, the chart grants %v", what, asked, has)
		}
	}
	same("everywhere", kubernetes.TenantRights(nil), rights)
	same("in the namespace", slices.DeleteFunc(kubernetes.Rights(nil), func(r kubernetes.Right) bool { return r.Resource != "leases" }), granted(a.role.Rules))
	// has gives the account the rights but one, and waits until the API server goes by it.
	has := func(without int) {
		t.Helper()
		role := a.everywhere
		role.Rules = nil
		for i, one := range rights {
			if i != without {
				role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{one.group}, Resources: []string{one.resource}, Verbs: []string{one.verb}})
			}
		}
		text, err := json.Marshal(role)
		must(t, err)
		a.kubectl(string(text), "apply", "-f", "-")
		everywhere := *a
		everywhere.namespace = ""
		for deadline := time.Now().Add(time.Minute); ; {
			wrong := slices.IndexFunc(rights, func(r right) bool { return everywhere.may(r) != (without < 0 || r != rights[without]) })
			if wrong < 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the API server does not go by the role: %s", rights[wrong])
			}
		}
	}
	has(-1)
	for _, o := range operations("all") {
		if err := o.do(t.Context()); err != nil {
			t.Fatalf("with all rights, %s: %v", o.name, err)
		}
	}
	for i, missing := range rights {
		t.Run(strings.ReplaceAll(missing.String(), "/", "-"), func(t *testing.T) {
			has(i)
			for _, o := range operations(fmt.Sprint("tenant-", i)) {
				err := o.do(t.Context())
				if err == nil {
					continue
				}
				t.Logf("%s fails: %v", o.name, err)
				if sandbox.CodeOf(err) != sandbox.CodePermissionDeny || !strings.Contains(err.Error(), "cannot "+missing.verb+" resource \""+missing.resource+"\"") {
					t.Errorf("%s fails without naming %s: %v", o.name, missing, err)
				}
				return
			}
			t.Errorf("nothing needs %s: the chart grants too much", missing)
		})
	}
}
