package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

func asError(err error, to **sandbox.Error) bool { return errors.As(err, to) }

// A cluster is a provider on a fake API server.
type cluster struct {
	*Provider
	api *fake.Clientset
}

// newCluster returns a cluster in which each pod that is created is changed by
// each of became in turn, as a cluster does.
func newCluster(t *testing.T, became ...func(*corev1.Pod)) cluster {
	t.Helper()
	api := fake.NewClientset()
	p := newProvider(Options{
		Namespace: "sandboxes", Schedule: 50 * time.Millisecond, Ready: 5 * time.Second,
		World: func() hardening.World {
			return hardening.World{Canonical: func(p string) (string, error) { return p, nil }, Workspaces: []string{"/state/workspaces"}}
		},
	}, api)
	p.way = noWay{}
	api.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pod := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		pod.UID = "11111111-2222-3333-4444-555555555555"
		for _, change := range became {
			change(pod)
		}
		return false, nil, nil
	})
	return cluster{p, api}
}

// noWay reaches no guest.
type noWay struct{}

func (noWay) Connect(context.Context, *corev1.Pod) (Conn, error) {
	return nil, relayError("the stream was refused")
}

func (c cluster) spec() sandbox.Spec {
	s := specOf(nil)
	s.Mounts[0].Source = "/state/workspaces/" + s.Name
	return s
}

// pods counts the pods that there are.
func (c cluster) count(t *testing.T) int {
	t.Helper()
	list, err := c.api.CoreV1().Pods("sandboxes").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

func runs(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

func waits(container, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		s := []corev1.ContainerStatus{{Name: container, Image: "registry.example/x", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
		if p.Status.Phase = corev1.PodPending; container == prepareName {
			p.Status.InitContainerStatuses = s
		} else {
			p.Status.ContainerStatuses = s
		}
	}
}

// TestCreateFails holds that each way in which a pod does not come to serve is an
// error with its code and with what to do, and that no pod is left.
func TestCreateFails(t *testing.T) {
	for name, tt := range map[string]struct {
		became func(*corev1.Pod)
		code   sandbox.Code
		text   []string
	}{
		"image": {waits(containerName, "ImagePullBackOff", "not \x1b[31mfound"), sandbox.CodeUnavailable, []string{"docker.image", `not \x1b[31mfound`, "imagePullSecrets"}},
		"guest": {waits(prepareName, "ErrImagePull", "no"), sandbox.CodeUnavailable, []string{"kubernetes.guestImage", "pulled"}},
		"start": {waits(containerName, "CreateContainerError", "no runtime"), sandbox.CodeUnavailable, []string{"no runtime", "runtime class"}},
		"crash": {waits(containerName, "CrashLoopBackOff", "back-off"), sandbox.CodeUnavailable, []string{"again and again", "architecture"}},
		"prepare": {func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: prepareName, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "full"}}}}
		}, sandbox.CodeUnavailable, []string{"prepared", "full"}},
		"nodes": {func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes"}}
		}, sandbox.CodeUnavailable, []string{"0/3 nodes", "nodeSelector"}},
		"evicted": {func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "disk pressure"
		}, sandbox.CodeUnavailable, []string{"evicted", "disk pressure", "recreate"}},
		"guest silent": {runs, sandbox.CodeUnavailable, []string{"the stream was refused", "recreate"}},
		"sidecar":      {changes["sidecar"], sandbox.CodeCapabilityBlocked, []string{"containers", "mutatingwebhookconfigurations"}},
		"root":         {weakenings["root"], sandbox.CodeCapabilityBlocked, []string{"securityContext"}},
		"policy label": {changes["label"], sandbox.CodeCapabilityBlocked, []string{labelNetwork}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, tt.became)
			_, err := c.Create(t.Context(), c.spec())
			if sandbox.CodeOf(err) != tt.code {
				t.Fatalf("Create: %v, want %s", err, tt.code)
			}
			for _, want := range tt.text {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if n := c.count(t); n != 0 {
				t.Errorf("%d pods are left", n)
			}
		})
	}
}

// TestAPIErrors holds the code and the advice for what the API server refuses.
func TestAPIErrors(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, tt := range map[string]struct {
		err  error
		code sandbox.Code
		text string
	}{
		"right":        {apierrors.NewForbidden(pods, "x", errors.New(`cannot create resource "pods"`)), sandbox.CodePermissionDeny, `cannot create resource "pods"`},
		"quota":        {apierrors.NewForbidden(pods, "x", errors.New("exceeded quota: small, requested: pods=1")), sandbox.CodeBudgetExceeded, "ResourceQuota"},
		"pod security": {apierrors.NewForbidden(pods, "x", errors.New(`violates PodSecurity "restricted"`)), sandbox.CodeCapabilityBlocked, "baseline"},
		"credentials":  {apierrors.NewUnauthorized("no"), sandbox.CodePermissionDeny, "renew"},
		"invalid":      {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil), sandbox.CodeValidation, "settings"},
		"exists":       {apierrors.NewAlreadyExists(pods, "x"), sandbox.CodeBusy, "exists"},
		"busy":         {apierrors.NewTooManyRequests("later", 1), sandbox.CodeUnavailable, "later"},
		"timeout":      {apierrors.NewTimeoutError("slow", 1), sandbox.CodeTimeout, "load"},
		"namespace":    {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "sandboxes"), sandbox.CodeUnavailable, "kubectl create namespace sandboxes"},
		"connection":   {errors.New("dial tcp 192.0.2.1:6443: connect: connection refused"), sandbox.CodeUnavailable, "kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.api.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.err })
			_, err := c.Create(t.Context(), c.spec())
			if sandbox.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v; want %s with %q", err, tt.code, tt.text)
			}
		})
	}
}

// TestNetworkPolicy holds that the policy is there before the first pod, is made
// once, and that one with other rules is refused.
func TestNetworkPolicy(t *testing.T) {
	c := newCluster(t, runs)
	for range 2 {
		_, _ = c.Create(t.Context(), c.spec()) // fails for want of a guest
	}
	var order []string
	for _, a := range c.api.Actions() {
		if a.GetVerb() == "create" {
			order = append(order, a.GetResource().Resource)
		}
	}
	if got := strings.Join(order, " "); got != "networkpolicies pods pods" {
		t.Errorf("made were %s", got)
	}
	policies := c.api.NetworkingV1().NetworkPolicies("sandboxes")
	got, err := policies.Get(t.Context(), policyName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}}
	if _, err := policies.Update(t.Context(), got, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(t.Context(), c.spec()); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || !strings.Contains(err.Error(), policyName) {
		t.Errorf("with a policy that opens: %v", err)
	}
	open := c.spec()
	open.Network = "bridge"
	if _, err := c.Create(t.Context(), open); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("a sandbox with a network needs no policy: %v", err)
	}
}

// TestListPages holds that all pages are read, that a list which expires begins
// anew, and that pods of others are left out.
func TestListPages(t *testing.T) {
	c := newCluster(t)
	pod := func(i int) corev1.Pod {
		s := c.spec()
		s.Name = fmt.Sprintf("sbx-%d", i)
		p, err := Plan(s, "hash", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		runs(p)
		return *p
	}
	foreign := pod(9)
	foreign.Annotations = maps.Clone(foreign.Annotations)
	delete(foreign.Annotations, labelHash)
	expired := false
	c.api.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		switch o := a.(clienttesting.ListActionImpl).ListOptions; {
		case o.Limit != page:
			return true, nil, errors.New("without a limit")
		case o.Continue == "":
			return true, &corev1.PodList{ListMeta: metav1.ListMeta{Continue: "2"}, Items: []corev1.Pod{pod(1), foreign}}, nil
		case !expired:
			expired = true
			return true, nil, apierrors.NewResourceExpired("the continue parameter is too old")
		}
		return true, &corev1.PodList{Items: []corev1.Pod{pod(2)}}, nil
	})
	list, err := c.List(t.Context(), sandbox.Filter{Tenant: c.spec().Owner.Tenant})
	if err != nil || len(list) != 2 || list[0].Name != "sbx-1" || list[1].Name != "sbx-2" || list[0].Owner != c.spec().Owner || list[0].Status != sandbox.StatusRunning {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestForeignPod holds that a pod of that name which is not ours is neither used nor
// removed.
func TestForeignPod(t *testing.T) {
	c := newCluster(t)
	s := c.spec()
	_, err := c.api.CoreV1().Pods("sandboxes").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(t.Context(), s.Name); sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
		t.Errorf("Remove: %v", err)
	}
	if _, err := c.Open(t.Context(), s); sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
		t.Errorf("Open: %v", err)
	}
	if _, err := c.Create(t.Context(), s); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("Create: %v", err)
	}
	if c.count(t) != 1 {
		t.Error("the pod was removed")
	}
}

// TestPodOfNewerVersion holds that a pod whose labels have a later format is listed and
// refused, and that a Lease of a later format is not rewritten.
func TestPodOfNewerVersion(t *testing.T) {
	c := newCluster(t)
	s := c.spec()
	labels := labelsOf(s, shape{})
	labels[labelFormat] = "9"
	annotations := annotationsOf(s, "hash", time.Now())
	annotations[labelFormat] = "9"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: "sandboxes", Labels: labels, Annotations: annotations}}
	if _, err := c.api.CoreV1().Pods("sandboxes").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	infos, err := c.listed(t.Context(), sandbox.Filter{Instance: s.Owner.Instance})
	if err != nil || len(infos) != 1 || infos[0].Format != "9" {
		t.Errorf("list shows %+v, %v", infos, err)
	}
	if _, err := c.Open(t.Context(), s); sandbox.CodeOf(err) != sandbox.CodeUnsupported {
		t.Errorf("Open says %v", err)
	}
}
