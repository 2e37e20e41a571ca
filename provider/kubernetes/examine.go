package kubernetes

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/provider"
)

var _ provider.Examiner = (*Provider)(nil)

// A Right is a verb that a Provider uses in the namespace of its sandboxes.
type Right struct {
	Group, Resource string // a subresource stands after a slash
	Verb            string
	For             string // what does not work without it
}

// String returns the verb and the resource.
func (r Right) String() string { return r.Verb + " " + r.Resource }

// Rights returns all of them, for a server of that version.
func Rights(v *version.Version) []Right {
	out := []Right{
		{"", "pods", "get", "sandboxes are made, opened and inspected"},
		{"", "pods", "list", "sandboxes are listed and pruned"},
		{"", "pods", "watch", "the start and the end of a pod are awaited"},
		{"", "pods", "create", "sandboxes are made"},
		{"", "pods", "delete", "sandboxes are removed"},
		{"", "pods/exec", "get", "guests are reached"},
		{"networking.k8s.io", "networkpolicies", "get", "the network of sandboxes is seen to be closed"},
		{"coordination.k8s.io", "leases", "get", "records of sandboxes are read"},
		{"coordination.k8s.io", "leases", "list", "records of all sandboxes are read"},
		{"coordination.k8s.io", "leases", "watch", "programs that want a sandbox alone are heard"},
		{"coordination.k8s.io", "leases", "create", "sandboxes are put on record"},
		{"coordination.k8s.io", "leases", "update", "records change, and locks are taken"},
		{"coordination.k8s.io", "leases", "delete", "records are removed"},
	}
	if v != nil && v.AtLeast(version.MajorMinor(1, 35)) {
		out = append(out, Right{"", "pods/exec", "create", "guests are reached"})
	}
	return out
}

// TenantRights returns the verbs that a Provider uses in all namespaces where
// [Options.TenantNamespaces] is set, for a server of that version. Of [Rights] it then
// needs those of Leases alone.
func TenantRights(v *version.Version) []Right {
	out := []Right{
		{"", "namespaces", "get", "the namespace of a tenant is seen to be its own"},
		{"", "namespaces", "list", "namespaces of tenants that are idle are found"},
		{"", "namespaces", "create", "a tenant gets its namespace"},
		{"", "namespaces", "delete", "namespaces of tenants that are idle are removed"},
		{"networking.k8s.io", "networkpolicies", "create", "the network of the namespace of a tenant is closed"},
		{"", "resourcequotas", "get", "the quota of a tenant is compared with the settings"},
		{"", "resourcequotas", "create", "a tenant gets its quota"},
		{"", "resourcequotas", "update", "a quota follows the settings"},
	}
	for _, r := range Rights(v) {
		if r.Resource != leasesResource {
			out = append(out, r)
		}
	}
	return out
}

const leasesResource = "leases"

// An examination is one set of checks.
type examination struct {
	*Provider
	provider.Examined
}

// Examine implements [provider.Examiner]. One check makes a pod with the settings and
// removes it, because whether a policy is enforced and an image can be pulled is known
// to none but a node.
func (p *Provider) Examine(e provider.Examined) []provider.Check {
	x := examination{p, e}
	return []provider.Check{
		{Name: "cluster", Look: x.cluster}, {Name: "cluster-rights", Look: x.rights}, {Name: "cluster-nodes", Look: x.nodes},
		{Name: "guest-image", Look: x.guestImage}, {Name: "runtime-class", Look: x.runtimeClass}, {Name: "pod", Look: x.pod},
	}
}

func found(status, fix, format string, args ...any) provider.Finding {
	return provider.Finding{Status: status, Detail: termsafe.Line(fmt.Sprintf(format, args...)), Fix: fix}
}

// failed is the finding of an error.
func failed(err error) provider.Finding {
	e, ok := errors.AsType[*sandbox.Error](err)
	if !ok {
		return found("fail", "", "%v", err)
	}
	said := *e
	said.Hint = ""
	return found("fail", e.Hint, "%v", &said)
}

// cluster looks whether the API server answers.
func (x examination) cluster(ctx context.Context) provider.Finding {
	v, err := x.serverVersion(ctx)
	if err != nil {
		return failed(x.fail(ctx, "ask", "the API server", err))
	}
	host := ""
	if x.config != nil {
		host = " at " + x.config.Host
	}
	if !v.AtLeast(version.MajorMinor(1, 30)) {
		return found("warn", "use Kubernetes 1.30 or newer", "Kubernetes %s answers%s, which is older than what is tested", v, host)
	}
	return found("ok", "", "Kubernetes %s answers%s; sandboxes are in the namespace %s%s", v, host, x.o.Namespace, x.beside())
}

// beside says where the sandboxes of tenants are.
func (x examination) beside() string {
	if x.o.TenantNamespaces {
		return ", those of tenants in one for each"
	}
	return ""
}

func (x examination) serverVersion(ctx context.Context) (*version.Version, error) {
	type answer struct {
		v   *version.Version
		err error
	}
	answers := make(chan answer, 1)
	go func() { // the client takes no context
		info, err := x.client.Discovery().ServerVersion()
		if err != nil {
			answers <- answer{err: err}
			return
		}
		v, err := version.ParseGeneric(info.GitVersion)
		answers <- answer{v, err}
	}()
	select {
	case a := <-answers:
		return a.v, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rights asks for each verb that is used.
func (x examination) rights(ctx context.Context) provider.Finding {
	v, _ := x.serverVersion(ctx) // which the check of the cluster reports
	all := Rights(v)
	if x.o.TenantNamespaces {
		all = slices.DeleteFunc(all, func(r Right) bool { return r.Resource != leasesResource })
		everywhere := TenantRights(v)
		if f := x.granted(ctx, "", everywhere); f.Status != "ok" {
			return f
		}
		f := x.granted(ctx, x.o.Namespace, all)
		if f.Status == "ok" {
			f.Detail += fmt.Sprintf(", and %d in all namespaces", len(everywhere))
		}
		return f
	}
	return x.granted(ctx, x.o.Namespace, all)
}

// granted asks for rights in a namespace; in all of them where that is empty.
func (x examination) granted(ctx context.Context, namespace string, all []Right) provider.Finding {
	var missing []string
	for _, r := range all {
		ok, err := x.may(ctx, namespace, r)
		if err != nil {
			return failed(x.fail(ctx, "ask for rights", x.o.Namespace, err))
		}
		if !ok {
			missing = append(missing, r.String()+" ("+r.For+")")
		}
	}
	if len(missing) > 0 && namespace == "" {
		return found("fail", "grant them by a ClusterRole, see docs/kubernetes-fleet.md; tenantNamespaces of the chart in deploy/helm/sandbox has it", "the account lacks in all namespaces, for kubernetes.tenantNamespaces: %s", strings.Join(missing, "; "))
	}
	if len(missing) > 0 {
		return found("fail", "grant them by a Role, see docs/kubernetes.md; the chart in deploy/helm/sandbox has it", "the account lacks in the namespace %s: %s", namespace, strings.Join(missing, "; "))
	}
	return found("ok", "", "all %d rights in the namespace %s are granted", len(all), namespace)
}

func (x examination) may(ctx context.Context, namespace string, r Right) (bool, error) {
	resource, sub, _ := strings.Cut(r.Resource, "/")
	answer, err := x.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: sub,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// nodes looks at the conditions of the nodes that sandboxes may be on.
func (x examination) nodes(ctx context.Context) provider.Finding {
	sh, err := shapeOf(x.Options)
	if err != nil {
		return failed(err)
	}
	list, err := x.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(sh.nodeSelector).String(), Limit: page})
	switch {
	case apierrors.IsForbidden(err):
		return found("ok", "", "not looked at: the account may not list nodes, which is not needed")
	case err != nil:
		return failed(x.fail(ctx, "list nodes", "", err))
	case len(list.Items) == 0:
		return found("fail", "correct kubernetes.nodeSelector, or label nodes", "no node has the labels of kubernetes.nodeSelector")
	}
	var ready int
	var bad []string
	for _, n := range list.Items {
		if why := troubleOf(n); why != "" {
			bad = append(bad, n.Name+": "+why)
		} else {
			ready++
		}
	}
	slices.Sort(bad)
	const most = 5
	more := ""
	if len(bad) > most {
		bad, more = bad[:most], fmt.Sprintf(" and %d more", len(bad)-most)
	}
	const look = "see them with: kubectl describe node"
	switch {
	case ready == 0:
		return found("fail", look, "no node takes pods: %s%s", strings.Join(bad, "; "), more)
	case len(bad) > 0:
		return found("warn", look, "%d of %d nodes take pods; %s%s", ready, len(list.Items), strings.Join(bad, "; "), more)
	}
	return found("ok", "", "%d of %d nodes take pods", ready, len(list.Items))
}

// troubleOf says why a node takes no pods, or nothing.
func troubleOf(n corev1.Node) string {
	var why []string
	if n.Spec.Unschedulable {
		why = append(why, "cordoned")
	}
	known := false
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type == corev1.NodeReady:
			if known = true; c.Status != corev1.ConditionTrue {
				why = append(why, "not ready ("+c.Reason+")")
			}
		case c.Status == corev1.ConditionTrue && (c.Type == corev1.NodeMemoryPressure || c.Type == corev1.NodeDiskPressure || c.Type == corev1.NodePIDPressure || c.Type == corev1.NodeNetworkUnavailable):
			why = append(why, string(c.Type))
		}
	}
	if !known {
		why = append(why, "it has not reported yet")
	}
	return strings.Join(why, ", ")
}

// guestImage looks at how the image of the guest is named.
func (x examination) guestImage(context.Context) provider.Finding {
	sh, err := shapeOf(x.Options)
	if err == nil {
		err = sh.needGuest()
	}
	switch {
	case err != nil:
		return failed(err)
	case !strings.Contains(sh.guestImage, "@sha256:"):
		return found("warn", "write it like registry.example.com/sandbox-guest@sha256:DIGEST", "kubernetes.guestImage %s is no digest: what its name leads to can change", sh.guestImage)
	}
	return found("ok", "", "%s", sh.guestImage)
}

// runtimeClass looks whether the cluster has the runtime of the settings.
func (x examination) runtimeClass(ctx context.Context) provider.Finding {
	if x.Runtime == "" {
		return found("ok", "", "docker.runtime names none: pods have the default runtime of their node")
	}
	class, err := x.client.NodeV1().RuntimeClasses().Get(ctx, x.Runtime, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return found("ok", "", "not looked at: the account may not get runtime classes, which is not needed")
	case apierrors.IsNotFound(err):
		return found("fail", "make it, or name one of: kubectl get runtimeclasses", "the cluster has no runtime class %q, which docker.runtime names", x.Runtime)
	case err != nil:
		return failed(x.fail(ctx, "get runtime class", x.Runtime, err))
	}
	return found("ok", "", "the runtime class %s is there, with the handler %s", class.Name, class.Handler)
}

// pod makes a pod as the settings want it, in which a connection that the policy
// forbids is tried, and removes it.
func (x examination) pod(ctx context.Context) provider.Finding {
	sh, err := shapeOf(x.Options)
	if err != nil {
		return failed(err)
	}
	if err := sh.needGuest(); err != nil {
		return provider.Finding{Status: "skip", Detail: "depends on guest-image"}
	}
	s := x.spec()
	begun := time.Now()
	_, err = x.Create(ctx, s)
	if gone := x.Remove(context.WithoutCancel(ctx), s.Name); err == nil && gone != nil {
		return failed(gone)
	}
	if err != nil {
		return failed(err)
	}
	took := time.Since(begun).Round(100 * time.Millisecond)
	switch {
	case x.Network != networkNone:
		return found("ok", "", "a pod was ready in %v; its network is not closed: docker.network is %s", took, x.Network)
	case sh.trustNetworking:
		return found("warn", "set kubernetes.networkPolicy to verify", "a pod was ready in %v; whether the network policy is enforced was not tried", took)
	}
	return found("ok", "", "a pod was ready in %v, and the network policy closes its network", took)
}

// spec is that of the pod.
func (x examination) spec() sandbox.Spec {
	var id [8]byte
	rand.Read(id[:]) // never fails
	const user, memory = 20001, 128 << 20
	return sandbox.Spec{
		Format: sandbox.SpecFormat, Name: "sbx-doctor-" + hex.EncodeToString(id[:]), Kind: sandbox.KindSandbox, Provider: Name,
		Owner: sandbox.Owner{Instance: x.Instance(), Agent: sandbox.DefaultAgent, Session: "doctor", Scope: sandbox.ScopeSession, ScopeKey: "doctor"},
		Image: x.Image, ImageID: x.Image, Workdir: "/tmp", UID: user, GID: user,
		Tmpfs:        []sandbox.Tmpfs{{Target: "/tmp", Size: 16 << 20, Exec: true, Mode: 0o1777}},
		ReadOnlyRoot: true, Network: x.Network, Runtime: x.Runtime,
		Security:  sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true},
		Resources: sandbox.Resources{Memory: memory, MemorySwap: memory, NanoCPUs: 1e9, PIDs: 128},
		Options:   x.Options,
	}
}
