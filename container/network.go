package container

import (
	"context"
	"maps"
	"net/netip"
	"strings"
	"time"

	"github.com/docker/docker/api/types/network"

	"github.com/bulkhead-dev/sandbox"
)

// A Network is a network of the engine. Names of networks are not unique on
// every engine; ids are.
type Network struct {
	ID      string
	Name    string
	Subnets []netip.Prefix

	// Labels is what labels say of the sandbox that the network was made
	// for. Its Format is empty when they are not ours.
	Labels sandbox.Info

	// AsPlanned reports whether the network is set up as NewNetworkPlan has
	// it, whatever its range.
	AsPlanned bool
}

// A NetworkPlan is a network that the engine is asked to create.
type NetworkPlan struct {
	Name  string
	Range netip.Prefix

	labels map[string]string
}

// NewNetworkPlan plans the network of s alone in the range r. It is pure;
// hash and now go into the labels, which are those of the container.
func NewNetworkPlan(s sandbox.Spec, hash string, now time.Time, r netip.Prefix) NetworkPlan {
	return NetworkPlan{Name: s.Name, Range: r, labels: toLabels(s, hash, now)}
}

// bridge is the driver of sandboxes' own networks.
const bridge = "bridge"

// bridgeOptions isolate the sandbox from other containers that are attached to
// its network.
func bridgeOptions() map[string]string {
	return map[string]string{"com.docker.network.bridge.enable_icc": "false"}
}

// CreateNetwork makes the network of p and returns its id. It returns
// [sandbox.CodeBusy] if there is a network of that name, or one that overlaps
// its range.
func (e *Engine) CreateNetwork(ctx context.Context, p NetworkPlan) (id string, err error) {
	ctx, done := context.WithTimeout(ctx, e.limit.Create)
	defer done()
	without := false
	answer, err := e.api.NetworkCreate(ctx, p.Name, network.CreateOptions{
		Driver: bridge, EnableIPv6: &without, Options: bridgeOptions(), Labels: p.labels,
		IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: p.Range.String()}}},
	})
	switch {
	case err == nil && answer.ID == "":
		return "", sandbox.Errorf(sandbox.CodeUnavailable, "create network", "the engine's answer about %s is incomplete", p.Name)
	case err != nil && ctx.Err() == nil && isOverlap(err):
		return "", &sandbox.Error{Code: sandbox.CodeBusy, Op: "create network", Resource: p.Name, Retryable: true, Err: err,
			Message: "the engine finds the address range " + p.Range.String() + " taken", Hint: "see docker network ls; docker network prune removes networks that nothing uses"}
	}
	return answer.ID, e.fail(ctx, "create network", p.Name, err)
}

// isOverlap reports whether the engine refused a range because another
// network has some of it. Engines have no code of its own for that.
func isOverlap(err error) bool { return strings.Contains(strings.ToLower(err.Error()), "overlap") }

// RemoveNetwork removes the network. It returns nil if there is no such
// network, and [sandbox.CodeBusy] if containers are attached to it.
func (e *Engine) RemoveNetwork(ctx context.Context, id string) error {
	ctx, done := context.WithTimeout(ctx, e.limit.Change)
	defer done()
	err := e.api.NetworkRemove(ctx, id)
	switch failed := e.fail(ctx, "remove network", id, err); {
	case failed == nil, sandbox.IsNotFound(failed):
		return nil
	case strings.Contains(err.Error(), "active endpoints"):
		return &sandbox.Error{Code: sandbox.CodeBusy, Op: "remove network", Resource: id, Retryable: true, Err: err,
			Message: "containers are attached to the network", Hint: "see docker network inspect " + id}
	default:
		return failed
	}
}

// Networks returns every network of the engine, ours or not.
func (e *Engine) Networks(ctx context.Context) ([]Network, error) {
	ctx, done := context.WithTimeout(ctx, e.limit.Query)
	defer done()
	rows, err := e.api.NetworkList(ctx, network.ListOptions{})
	if err != nil {
		return nil, e.fail(ctx, "list networks", "", err)
	}
	out := make([]Network, 0, len(rows))
	for _, r := range rows {
		out = append(out, networkOf(r))
	}
	return out, nil
}

// Attached counts the running containers that are attached to the network.
func (e *Engine) Attached(ctx context.Context, id string) (int, error) {
	ctx, done := context.WithTimeout(ctx, e.limit.Query)
	defer done()
	r, err := e.api.NetworkInspect(ctx, id, network.InspectOptions{})
	if err == nil && r.ID == "" {
		return 0, sandbox.Errorf(sandbox.CodeUnavailable, "inspect network", "the engine's answer about %s is incomplete", id)
	}
	return len(r.Containers), e.fail(ctx, "inspect network", id, err)
}

// NetworkOf returns the network of the container as it was asked for: a mode
// such as "none", a name, or the id of a network.
func (e *Engine) NetworkOf(ctx context.Context, name string) (string, error) {
	ctx, done := context.WithTimeout(ctx, e.limit.Query)
	defer done()
	r, err := e.api.ContainerInspect(ctx, name)
	if err != nil {
		return "", e.fail(ctx, "inspect container", name, err)
	}
	if r.ContainerJSONBase == nil || r.HostConfig == nil {
		return "", sandbox.Errorf(sandbox.CodeUnavailable, "inspect container", "the engine's answer about %s is incomplete", name)
	}
	return string(r.HostConfig.NetworkMode), nil
}

// networkOf reads the engine's answer. A range that cannot be read is none
// that was planned.
func networkOf(r network.Inspect) Network {
	n := Network{ID: r.ID, Name: r.Name, Labels: fromLabels(r.Labels)}
	if n.Labels.Format != "" {
		n.Labels.Name = r.Name
	}
	for _, c := range r.IPAM.Config {
		if p, err := netip.ParsePrefix(c.Subnet); err == nil {
			n.Subnets = append(n.Subnets, p.Masked())
		}
	}
	n.AsPlanned = r.Driver == bridge && !r.EnableIPv6 && !r.Internal && !r.Ingress && !r.ConfigOnly &&
		maps.Equal(r.Options, bridgeOptions()) && len(r.IPAM.Config) == 1 && len(n.Subnets) == 1 && servesSubnet(n.Subnets[0])
	return n
}
