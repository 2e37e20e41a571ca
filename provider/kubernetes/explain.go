package kubernetes

import (
	"context"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/provider"
)

// Plan implements [provider.Planner]: it says what the settings of a pod leave to
// the cluster.
func (p *Provider) Plan(_ context.Context, s sandbox.Spec) (provider.Plan, error) {
	sh, err := shapeOf(s.Options)
	if err != nil {
		return provider.Plan{}, err
	}
	layer := func(name string, on bool, is, isNot string) provider.Layer {
		if on {
			return provider.Layer{Name: name, On: true, Detail: is}
		}
		return provider.Layer{Name: name, Detail: isNot}
	}
	out := provider.Plan{Layers: []provider.Layer{
		layer("seccomp", true, "the runtime's default profile (RuntimeDefault)", ""),
		layer("network policy", s.Network == networkNone, "nothing is reached and nothing reaches the pod, where the network plugin enforces "+policyName, "docker.network is "+s.Network+": the pod has the network of all pods"),
		layer("user namespace", sh.userNamespace, "ids inside are none of the node (hostUsers: false)", "ids inside are those of the node; kubernetes.userNamespace is host"),
	}}
	if sh.seccompProfile != "" {
		out.Layers[0].Detail = "the profile " + sh.seccompProfile + " of each node (Localhost)"
	}
	out.Workspace = "a volume of the pod (" + sh.workspace + "), at most " + quantity(sh.workspaceSize).String() + ", removed with it"
	if sh.seccompProfile == "" {
		out.Notes = append(out.Notes, "the built-in seccomp profile is not used: the runtime's default allows more calls; install it on every node and name it as kubernetes.seccompProfile")
	}
	if sh.guestImage != "" && !strings.Contains(sh.guestImage, "@sha256:") {
		out.Notes = append(out.Notes, "kubernetes.guestImage "+sh.guestImage+" is no digest: what its name leads to can change")
	}
	for _, t := range s.Tmpfs {
		if !t.Exec {
			out.Notes = append(out.Notes, "programs can be executed in "+t.Target+": volumes of pods have no option noexec")
			break
		}
	}
	out.Notes = append(out.Notes, p.wayNotes(sh)...)
	if p.Separates(s.Owner.Tenant) {
		out.Notes = append(out.Notes, "the pod is in the namespace "+p.tenantNamespace(s.Owner.Tenant)+" of the tenant, with a ResourceQuota of its limits; none of a pool is used")
	}
	if sh.trustNetworking && s.Network == networkNone {
		out.Notes = append(out.Notes, "whether the network policy is enforced is not tried: kubernetes.networkPolicy is trust")
	}
	return out, nil
}

// warn reports what the guest cannot keep apart on this node.
func (p *Provider) warn(c *client.Client, s sandbox.Spec) {
	for _, what := range c.Hello().Degraded {
		p.o.Warn(s.Name, "weaker here: "+termsafe.Line(what))
	}
}
