package docker

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
)

// Plan implements [provider.Planner]. It tells what is closed in folders of
// people; all else the Spec says by itself. A folder that the first use makes is
// planned with when it is there.
func (p *Provider) Plan(ctx context.Context, s sandbox.Spec) (provider.Plan, error) {
	c, err := p.protection(ctx, s)
	if err != nil || c == nil {
		return provider.Plan{}, err
	}
	out := provider.Plan{Notes: c.notes, Closes: c.judge}
	for _, m := range c.mounts {
		if m.ReadOnly { // the others keep names above in their places
			out.Steps = append(out.Steps, provider.Step{Does: "read-only", Target: m.Target, Source: m.Source, Rule: c.rules[m.Target]})
		}
	}
	return out, nil
}

var _ provider.Planner = (*Provider)(nil)
