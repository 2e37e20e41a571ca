package docker

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
)

// Networks is what the provider needs of an engine for networks that belong
// to one sandbox each.
type Networks interface {
	Networks(ctx context.Context) ([]container.Network, error)
	NetworkOf(ctx context.Context, name string) (string, error)
	Attached(ctx context.Context, id string) (int, error)
	CreateNetwork(ctx context.Context, p container.NetworkPlan) (id string, err error)
	RemoveNetwork(ctx context.Context, id string) error
}

// rangeTries is how many address ranges are offered to the engine. One is
// enough unless another client creates networks at the same moment.
const rangeTries = 8

// networkTries is how often a create is tried whose own network goes away under
// it.
const networkTries = 3

// appearsWithin is how long an engine may take between giving a range or a
// name away and telling of the network or container that got it.
const appearsWithin = time.Second

// giveNetwork returns plan on the network that s asks for. One of its own is
// made first, and is named by its id from then on.
func (p *Provider) giveNetwork(ctx context.Context, s sandbox.Spec, hash string, plan container.Plan) (container.Plan, error) {
	switch s.Network {
	case "none", "bridge":
		return plan, nil
	case sandbox.NetworkOwn:
	default:
		return plan, p.refuseOthersOwn(ctx, s)
	}
	if p.opts.Instance == "" || p.opts.Instance != s.Owner.Instance {
		return plan, sandbox.Errorf(sandbox.CodeInternal, "create network", "%s is of the instance %q and its provider of %q, so its network would never be removed", s.Name, s.Owner.Instance, p.opts.Instance)
	}
	if has, err := p.engine.Known(ctx); err != nil || has.Podman {
		return plan, errors.Join(err, noOwnNetwork(has, s))
	}
	switch _, err := p.engine.Inspect(ctx, s.Name); {
	case err == nil:
		return plan, &sandbox.Error{Code: sandbox.CodeBusy, Op: "create", Resource: s.Name, Message: "a container of that name exists"}
	case !sandbox.IsNotFound(err):
		return plan, err
	}
	id, err := p.ownNetwork(ctx, s, hash)
	if err != nil {
		return plan, err
	}
	return plan.On(id), nil
}

// noOwnNetwork is the error of Podman, nil for others: its bridges do not keep other
// containers of a network from a sandbox, as Docker's do, and are made by programs
// (CNI plugins, netavark) that differ in what they enforce.
func noOwnNetwork(has container.Posture, s sandbox.Spec) error {
	if !has.Podman {
		return nil
	}
	return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "create", Field: networkField(s), Resource: s.Name,
		Message: "Podman makes no network that isolates the sandbox from other containers on it", Hint: `use "none", with rules for hosts where it needs some, or the engine of Docker`}
}

// refuseOthersOwn refuses a network given by its name that was made for
// another sandbox alone.
func (p *Provider) refuseOthersOwn(ctx context.Context, s sandbox.Spec) error {
	all, err := p.engine.Networks(ctx)
	if err != nil {
		return err
	}
	for _, n := range all {
		if n.Name == s.Network && n.Labels.Format != "" {
			return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "create", Field: networkField(s), Resource: s.Network,
				Message: "that network belongs to another sandbox alone", Hint: `use "own" for a network of its own`}
		}
	}
	return nil
}

// ownNetwork returns the id of the network of s: one that a killed create has
// left, or a new one. Another process may create it at the same time. It then
// begins with the same range, and the engine accepts only one; the second
// process takes the network of the first, and the name of the container
// decides which of both goes on.
func (p *Provider) ownNetwork(ctx context.Context, s sandbox.Spec, hash string) (string, error) {
	routes, err := p.opts.Routes()
	if err != nil {
		return "", err
	}
	for try := 1; ; try++ {
		all, err := p.engine.Networks(ctx)
		if err != nil {
			return "", err
		}
		if id, err := p.leftNetwork(ctx, s, all); id != "" || err != nil {
			return id, err
		}
		var taken []netip.Prefix
		for _, n := range all {
			taken = append(taken, n.Subnets...)
		}
		ranges := container.Candidates(s.Name, taken, routes, 1)
		if len(ranges) == 0 {
			return "", noRange(s)
		}
		id, err := p.newNetwork(ctx, s, container.NewNetworkPlan(s, hash, p.opts.Now(), ranges[0]))
		if err == nil || try == rangeTries || sandbox.CodeOf(err) != sandbox.CodeBusy {
			return id, err
		}
		await(ctx, func() bool {
			all, err := p.engine.Networks(ctx)
			return err != nil || len(named(all, s.Name)) > 0
		})
		routes = append(routes, ranges[0])
	}
}

// await asks seen until it says yes, for a moment.
func await(ctx context.Context, seen func() bool) {
	ctx, done := context.WithTimeout(ctx, appearsWithin)
	defer done()
	for !seen() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// leftNetwork returns the network of s that is there already and can be used,
// or "". What is ours and cannot be used is removed; what is not ours stands
// in the way.
func (p *Provider) leftNetwork(ctx context.Context, s sandbox.Spec, all []container.Network) (string, error) {
	use := ""
	for _, n := range named(all, s.Name) {
		if n.Labels.Format == "" || !n.Labels.Owner.Same(s.Owner) {
			return "", &sandbox.Error{Code: sandbox.CodeBusy, Op: "create network", Resource: s.Name,
				Message: "a network of that name exists that does not belong to this sandbox", Hint: "when nothing needs it, remove it: docker network rm " + n.ID}
		}
		attached, err := p.engine.Attached(ctx, n.ID)
		if sandbox.IsNotFound(err) {
			continue // removed meanwhile
		}
		if err != nil {
			return "", err
		}
		if attached > 0 {
			return "", &sandbox.Error{Code: sandbox.CodeBusy, Op: "create network", Resource: s.Name,
				Message: "other containers are attached to the sandbox's own network", Hint: "detach them: docker network inspect " + n.ID + " names them"}
		}
		if n.AsPlanned && n.Labels.Kind == s.Kind && use == "" {
			use = n.ID
			continue
		}
		if err := p.engine.RemoveNetwork(ctx, n.ID); err != nil {
			return "", err
		}
	}
	return use, nil
}

// newNetwork makes the network of plan, which is that of s.
func (p *Provider) newNetwork(ctx context.Context, s sandbox.Spec, plan container.NetworkPlan) (string, error) {
	m := seeThrough(ctx, func(ctx context.Context) (m made) {
		m.id, m.err = p.engine.CreateNetwork(ctx, plan)
		return m
	}, func(m made) {
		if m.err == nil {
			p.discardNetwork(ctx, s.Name, m.id)
		}
	})
	if code := sandbox.CodeOf(m.err); code == sandbox.CodeTimeout || code == sandbox.CodeUnavailable {
		p.dropNetwork(ctx, s) // the answer may have been lost
	}
	if m.err != nil {
		return "", m.err
	}
	return m.id, p.alone(ctx, s, m.id)
}

// alone makes sure that no other network bears the name of the new one id:
// older engines compare names before they make a network and not while they
// do, and then start no container on either.
func (p *Provider) alone(ctx context.Context, s sandbox.Spec, id string) error {
	all, err := p.engine.Networks(ctx)
	if err == nil && len(named(all, s.Name)) > 1 {
		err = &sandbox.Error{Code: sandbox.CodeBusy, Op: "create network", Resource: s.Name, Retryable: true, Message: "another program has made a network of that name at the same time"}
	}
	if err != nil {
		p.discardNetwork(ctx, s.Name, id)
	}
	return err
}

func named(all []container.Network, name string) []container.Network {
	var out []container.Network
	for _, n := range all {
		if n.Name == name {
			out = append(out, n)
		}
	}
	return out
}

// networkField is the setting that s has its network from.
func networkField(s sandbox.Spec) string {
	if s.Kind == sandbox.KindBrowser {
		return "browser.network"
	}
	return "docker.network"
}

func noRange(s sandbox.Spec) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "create network", Field: networkField(s), Resource: s.Name,
		Message: "no address range is left for a network of its own: networks and routes of this host cover them all",
		Hint:    "remove networks that nothing uses, with sandbox prune and docker network prune, or name a network that exists"}
}

// lostNetwork reports whether a create has failed because the network of its own
// went away under it: one that was there already can be that of a create which
// goes on, meets another of that name, and gives it up.
func lostNetwork(s sandbox.Spec, err error) bool {
	var e *sandbox.Error
	return s.Network == sandbox.NetworkOwn && errors.As(err, &e) &&
		e.Code == sandbox.CodeUnavailable && e.Op == "start" && e.Field == networkField(s)
}

// twoNetworks reports whether a container has not started because another network
// bears the name of its own. A create that has lost the name of the container to
// this one may have made it, and removes it now; see [Provider.leaveNetwork].
func twoNetworks(s sandbox.Spec, err error) bool {
	var e *sandbox.Error
	return s.Network == sandbox.NetworkOwn && errors.As(err, &e) &&
		e.Code == sandbox.CodeBusy && e.Retryable && e.Field == networkField(s)
}

func networkGone(s sandbox.Spec) error {
	hint := "make the network, or name another one"
	if s.Network == sandbox.NetworkOwn {
		hint = "start afresh with: sandbox recreate"
	}
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "start", Field: networkField(s), Resource: s.Name, Message: "the network of the sandbox is not there", Hint: hint}
}
