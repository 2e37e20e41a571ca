package kubernetes

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bulkhead-dev/sandbox"
)

// policyName is the name of the policy that closes the network of pods. One serves
// all sandboxes of a namespace.
const policyName = "sandbox-deny-all"

// denyAll is a policy without rules: what it selects neither opens connections nor
// is reached by any.
func denyAll() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: policyName, Labels: map[string]string{labelFormat: sandbox.InfoFormat}},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{labelNetwork: networkNone}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		},
	}
}

// portPolicy is the policy that lets what settings name in at the port of the guest
// of s, and nothing else; nil where there is none to let in. Pods are selected by the
// digest of its rules, so that settings that change hold for the pods made then, and
// no policy is ever changed.
func portPolicy(s sandbox.Spec, sh shape) *networkingv1.NetworkPolicy {
	from := sh.wayFrom
	if sh.way == wayExec || s.Network != networkNone || len(from.labels)+len(from.cidrs) == 0 {
		return nil
	}
	tcp, port := corev1.ProtocolTCP, intstr.FromInt32(int32(sh.wayPort))
	rule := networkingv1.NetworkPolicyIngressRule{Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: &port}}}
	if len(from.labels) > 0 {
		peer := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: from.labels}}
		if from.namespace != "" {
			peer.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: from.namespace}}
		}
		rule.From = append(rule.From, peer)
	}
	for _, cidr := range from.cidrs {
		rule.From = append(rule.From, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}})
	}
	text, _ := json.Marshal(rule) // it has no values that JSON lacks
	sum := digest(string(text))[:16]
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: portPolicyPrefix + sum, Labels: map[string]string{labelFormat: sandbox.InfoFormat}},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{labelNetwork: networkNone, labelWay: sum}},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{rule},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		},
	}
}

// portPolicyPrefix begins the name of a policy that opens ports.
const portPolicyPrefix = "sandbox-way-"

// closeNetwork makes sure that the policy is there before a pod that it is to close.
// A further policy of the namespace that opens what this one closes is not found here:
// policies add up, and the try of a connection finds that.
func (p *Provider) closeNetwork(ctx context.Context, namespace string) error {
	return p.havePolicy(ctx, namespace, denyAll())
}

// openPort makes sure of the policy that lets this program in, where s has one.
func (p *Provider) openPort(ctx context.Context, namespace string, s sandbox.Spec) error {
	sh, err := shapeOf(s.Options)
	if err != nil {
		return err
	}
	if policy := portPolicy(s, sh); policy != nil {
		return p.havePolicy(ctx, namespace, policy)
	}
	return nil
}

// havePolicy makes a policy unless it is there. One of that name with other rules is
// refused, because it was changed.
func (p *Provider) havePolicy(ctx context.Context, namespace string, want *networkingv1.NetworkPolicy) error {
	policies := p.client.NetworkingV1().NetworkPolicies(namespace)
	got, err := policies.Get(ctx, want.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		got, err = policies.Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // another process was first
			got, err = policies.Get(ctx, want.Name, metav1.GetOptions{})
		}
	}
	if err != nil && namespace != p.o.Namespace {
		return p.failTenant(ctx, "close network", namespace, err)
	}
	if err != nil {
		return p.fail(ctx, "create", want.Name, err)
	}
	if !equality.Semantic.DeepEqual(want.Spec, got.Spec) {
		return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "create", Field: "docker.network", Resource: want.Name,
			Message: "the network policy " + want.Name + " of the namespace " + namespace + " was changed, so sandboxes would have a network",
			Hint:    "delete it: the next sandbox makes it again"}
	}
	return nil
}
