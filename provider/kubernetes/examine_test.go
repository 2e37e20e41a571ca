package kubernetes

import (
	"errors"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	kubeversion "k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/bulkhead-dev/sandbox/provider"
)

const digested = "registry.example/guest@sha256:aaaa"

// examine runs the check of that name.
func (c cluster) examine(t *testing.T, name string, e provider.Examined) provider.Finding {
	t.Helper()
	c.api.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &kubeversion.Info{GitVersion: "v1.34.4"}
	for _, check := range c.Examine(e) {
		if check.Name == name {
			return check.Look(t.Context())
		}
	}
	t.Fatalf("there is no check %s", name)
	return provider.Finding{}
}

// grant has the cluster grant all rights but those.
func (c cluster) grant(without ...string) {
	c.api.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		r := review.Spec.ResourceAttributes
		resource := strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/")
		review.Status.Allowed = r.Namespace == "sandboxes"
		for _, no := range without {
			review.Status.Allowed = review.Status.Allowed && no != r.Verb+" "+resource
		}
		return true, review, nil
	})
}

// TestExamineRights holds that each right is asked for, and that one which is missing
// is named with what does not work without it.
func TestExamineRights(t *testing.T) {
	c := newCluster(t)
	c.grant()
	if f := c.examine(t, "cluster-rights", provider.Examined{}); f.Status != "ok" {
		t.Errorf("with all rights: %+v", f)
	}
	all := Rights(version.MustParseGeneric("1.34.4"))
	if len(all) < 7 || len(Rights(version.MustParseGeneric("1.35.0"))) != len(all)+1 {
		t.Errorf("the rights are %v", all)
	}
	for _, r := range all {
		c := newCluster(t)
		c.grant(r.String())
		f := c.examine(t, "cluster-rights", provider.Examined{})
		if f.Status != "fail" || !strings.Contains(f.Detail, r.String()+" ("+r.For+")") || strings.Count(f.Detail, "(") != 1 || f.Fix == "" {
			t.Errorf("without %s: %+v", r, f)
		}
	}
}

// TestExamineTenantRights is that for namespaces of tenants, which need rights everywhere.
func TestExamineTenantRights(t *testing.T) {
	v := version.MustParseGeneric("1.34.4")
	look := func(without string) provider.Finding {
		c := newCluster(t)
		c.o.TenantNamespaces = true
		c.api.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
			review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
			r := review.Spec.ResourceAttributes
			name := r.Verb + " " + strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/")
			leases := r.Resource == "leases" && r.Namespace == "sandboxes"
			review.Status.Allowed = (leases || r.Namespace == "") && name != without
			return true, review, nil
		})
		return c.examine(t, "cluster-rights", provider.Examined{})
	}
	if f := look(""); f.Status != "ok" || !strings.Contains(f.Detail, "in all namespaces") {
		t.Errorf("with all rights: %+v", f)
	}
	for _, r := range append(TenantRights(v), Right{"coordination.k8s.io", "leases", "update", "records change, and locks are taken"}) {
		f := look(r.String())
		if f.Status != "fail" || !strings.Contains(f.Detail, r.String()+" ("+r.For+")") || !strings.Contains(f.Fix, "Role") {
			t.Errorf("without %s: %+v", r, f)
		}
	}
}

// TestExamineFindings holds the verdict and the advice of the other checks.
func TestExamineFindings(t *testing.T) {
	node := func(name string, change ...corev1.NodeCondition) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "a"}}}
		n.Status.Conditions = append([]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}, change...)
		return n
	}
	full := corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}
	lost := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"}
	cordoned := node("c")
	cordoned.Spec.Unschedulable = true
	refuse := func(verb, resource string) func(cluster) {
		return func(c cluster) {
			c.api.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no"))
			})
		}
	}
	guest := map[string]any{optGuestImage: digested}
	for name, tt := range map[string]struct {
		check   string
		objects []runtime.Object
		change  func(cluster)
		e       provider.Examined
		status  string
		text    string
	}{
		"cluster":             {check: "cluster", status: "ok", text: "1.34.4"},
		"no nodes":            {check: "cluster-nodes", status: "fail", text: "nodeSelector"},
		"nodes":               {check: "cluster-nodes", objects: []runtime.Object{node("a"), node("b")}, status: "ok", text: "2 of 2"},
		"a full node":         {check: "cluster-nodes", objects: []runtime.Object{node("a"), node("b", full)}, status: "warn", text: "b: DiskPressure"},
		"lost nodes":          {check: "cluster-nodes", objects: []runtime.Object{node("b", lost), cordoned}, status: "fail", text: "b: not ready (NodeStatusUnknown); c: cordoned"},
		"other nodes":         {check: "cluster-nodes", objects: []runtime.Object{node("a")}, e: provider.Examined{Options: map[string]any{optNodeSelector: map[string]any{"pool": "b"}}}, status: "fail", text: "nodeSelector"},
		"nodes forbidden":     {check: "cluster-nodes", change: refuse("list", "nodes"), status: "ok", text: "not looked at"},
		"no guest":            {check: "guest-image", status: "fail", text: "guestImage"},
		"guest by a tag":      {check: "guest-image", e: provider.Examined{Options: map[string]any{optGuestImage: "registry.example/guest:1"}}, status: "warn", text: "no digest"},
		"guest":               {check: "guest-image", e: provider.Examined{Options: guest}, status: "ok", text: digested},
		"default runtime":     {check: "runtime-class", status: "ok", text: "default runtime"},
		"no such runtime":     {check: "runtime-class", e: provider.Examined{Runtime: "gvisor"}, status: "fail", text: `"gvisor"`},
		"runtime":             {check: "runtime-class", objects: []runtime.Object{&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Handler: "runsc"}}, e: provider.Examined{Runtime: "gvisor"}, status: "ok", text: "runsc"},
		"runtime forbidden":   {check: "runtime-class", change: refuse("get", "runtimeclasses"), e: provider.Examined{Runtime: "gvisor"}, status: "ok", text: "not looked at"},
		"no guest for a pod":  {check: "pod", status: "skip", text: "guest-image"},
		"a pod that does not": {check: "pod", change: refuse("create", "pods"), e: provider.Examined{Image: "registry.example/x", Network: networkNone, Options: guest}, status: "fail", text: "pods"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			for _, o := range tt.objects {
				if err := c.api.Tracker().Add(o); err != nil {
					t.Fatal(err)
				}
			}
			if tt.change != nil {
				tt.change(c)
			}
			f := c.examine(t, tt.check, tt.e)
			if f.Status != tt.status || !strings.Contains(f.Detail, tt.text) {
				t.Errorf("%+v, want %s with %q", f, tt.status, tt.text)
			}
			if f.Status == "fail" && f.Fix == "" {
				t.Errorf("nothing says what to do: %+v", f)
			}
		})
	}
}
