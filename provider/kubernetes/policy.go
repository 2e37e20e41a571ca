package kubernetes

import (
	"context"
	"reflect"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bulkhead-dev/sandbox"
)

// policyName is the name of the policy that closes the network of pods. One serves
// all sandboxes of a namespace.
const policyName = "sandbox-deny-all"

// denyAll is a policy without rules: what it selects neither opens connections nor
// is reached by any.
func denyAll() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: policyName, Labels: map[string]string{labelFormat: LabelFormat}},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{labelNetwork: networkNone}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		},
	}
}

// closeNetwork makes sure that the policy is there before a pod that it is to close.
// A policy of that name with other rules is refused, because it was changed. A
// further policy of the namespace that opens what this one closes is not found here:
// policies add up, and the try of a connection finds that.
func (p *Provider) closeNetwork(ctx context.Context) error {
	want := denyAll()
	policies := p.client.NetworkingV1().NetworkPolicies(p.o.Namespace)
	got, err := policies.Get(ctx, policyName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		got, err = policies.Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // another process was first
			got, err = policies.Get(ctx, policyName, metav1.GetOptions{})
		}
	}
	if err != nil {
		return p.fail(ctx, "create", policyName, err)
	}
	if !reflect.DeepEqual(want.Spec.PodSelector.MatchLabels, got.Spec.PodSelector.MatchLabels) || len(got.Spec.PodSelector.MatchExpressions) > 0 ||
		!reflect.DeepEqual(want.Spec.PolicyTypes, got.Spec.PolicyTypes) || len(got.Spec.Ingress) > 0 || len(got.Spec.Egress) > 0 {
		return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "create", Field: "docker.network", Resource: policyName,
			Message: "the network policy " + policyName + " of the namespace " + p.o.Namespace + " was changed, so sandboxes would have a network",
			Hint:    "delete it: the next sandbox makes it again"}
	}
	return nil
}
