package docker

import (
	"context"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
)

// checkNetwork makes sure that the network of the stopped container info is
// still there, where it has one of its own.
func (p *Provider) checkNetwork(ctx context.Context, info sandbox.Info, s sandbox.Spec) error {
	id, err := p.engine.NetworkOf(ctx, info.ID)
	if err != nil || !isID(id) {
		return err
	}
	all, err := p.engine.Networks(ctx)
	if err != nil {
		return err
	}
	for _, n := range all {
		if n.ID == id && n.Labels.Owner.Same(info.Owner) {
			return nil
		}
	}
	return networkGone(s)
}

// sweepNetworks removes the networks of that name which are ours and whose
// owner is mine, except the one that the container of that name is on.
func (p *Provider) sweepNetworks(ctx context.Context, name string, mine func(sandbox.Owner) bool) error {
	all, err := p.engine.Networks(ctx)
	if err != nil {
		return err
	}
	ours := slices.DeleteFunc(named(all, name), func(n container.Network) bool {
		return n.Labels.Format == "" || !mine(n.Labels.Owner)
	})
	if len(ours) == 0 {
		return nil
	}
	used, err := p.engine.NetworkOf(ctx, name)
	if err != nil && !sandbox.IsNotFound(err) {
		return err
	}
	for _, n := range ours {
		if n.ID == used || n.Name == used {
			continue
		}
		if err := p.engine.RemoveNetwork(ctx, n.ID); err != nil {
			return err
		}
	}
	return nil
}

// cleanup is how long the removal of what a failed create has left may take. What
// is not removed by then is there until the next prune, so it is as long as an
// engine may take that is full of work.
const cleanup = 30 * time.Second

// dropNetwork removes the network of s after its create has failed, also when
// ctx has ended. The one that the container of that name is on stays.
func (p *Provider) dropNetwork(ctx context.Context, s sandbox.Spec) {
	if s.Network != sandbox.NetworkOwn {
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer done()
	if err := p.sweepNetworks(ctx, s.Name, s.Owner.Same); err != nil {
		p.opts.Warn(s.Name, "could not remove the network of a sandbox that was not made: "+err.Error())
	}
}

// leaveNetwork ends a create that the engine has refused because another one
// has taken the name. The network is the other's now, which removes it when
// it fails. A second one is removed once the other's container tells which
// one it is on; engines show it some time after they have taken the name. One
// that does not show in time may be on either, so both stay.
func (p *Provider) leaveNetwork(ctx context.Context, s sandbox.Spec) {
	if s.Network != sandbox.NetworkOwn {
		return
	}
	there := false
	await(context.WithoutCancel(ctx), func() bool {
		_, err := p.engine.Inspect(ctx, s.Name)
		there = err == nil
		return !sandbox.IsNotFound(err)
	})
	if there {
		p.dropNetwork(ctx, s)
	}
}

// discardNetwork removes the network id, which was made a moment ago.
func (p *Provider) discardNetwork(ctx context.Context, name, id string) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer done()
	if err := p.engine.RemoveNetwork(ctx, id); err != nil {
		p.opts.Warn(name, "could not remove the network of a sandbox that was not made: "+err.Error())
	}
}

// remnants returns the sandboxes that match f and of which networks are all
// that is left.
func remnants(networks []container.Network, infos []sandbox.Info, f sandbox.Filter) []sandbox.Info {
	there := make(map[string]bool, len(infos))
	for _, i := range infos {
		there[i.Name] = true
	}
	var out []sandbox.Info
	for _, n := range networks {
		i := n.Labels
		if i.Format == "" || there[i.Name] || !matches(i, f) {
			continue
		}
		there[i.Name] = true
		i.Status = sandbox.StatusMissing
		out = append(out, i)
	}
	return out
}

func matches(i sandbox.Info, f sandbox.Filter) bool {
	return (f.Name == "" || f.Name == i.Name) && (f.Kind == "" || f.Kind == i.Kind) &&
		(f.Instance == "" || f.Instance == i.Owner.Instance) && (f.Tenant == "" || f.Tenant == i.Owner.Tenant)
}

// isID reports whether a container's network is given by its id, as only a
// network of its own is.
func isID(s string) bool {
	return len(s) == 64 && !slices.ContainsFunc([]byte(s), func(c byte) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'f')
	})
}
