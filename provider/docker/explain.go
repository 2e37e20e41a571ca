package docker

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/provider"
)

// Plan implements [provider.Planner]. It reports what is closed in folders of
// people; the Spec itself says everything else. A folder that the first use
// creates is part of the plan once it exists.
func (p *Provider) Plan(ctx context.Context, s sandbox.Spec) (provider.Plan, error) {
	notes := p.limitNotes(ctx, s)
	c, err := p.protection(ctx, s, nil)
	if err != nil || c == nil {
		return provider.Plan{Notes: notes}, err
	}
	out := provider.Plan{Notes: append(notes, c.notes...), Closes: c.judge}
	for _, m := range c.mounts {
		if m.ReadOnly { // the others keep names above in their places
			out.Steps = append(out.Steps, provider.Step{Does: "read-only", Target: m.Target, Source: m.Source, Rule: c.rules[m.Target]})
		}
	}
	for _, m := range c.masks {
		out.Steps = append(out.Steps, provider.Step{Does: "closed", Target: m.Target, Rule: c.rules[m.Target]})
	}
	if len(c.ruled.Globs) > 0 {
		out.Notes = append(out.Notes, "patterns of filesystem.denyRead and denyWrite are closed to programs where they match when the sandbox is made; "+
			"what comes to match later is closed to file tools and to command lines that name it, and to programs after: sandbox recreate")
	}
	return out, nil
}

// limitNotes says which limits of s hold less exactly on this engine.
func (p *Provider) limitNotes(ctx context.Context, s sandbox.Spec) []string {
	engine, able := p.engine.(interface {
		Posture(context.Context) (container.Posture, error)
	})
	if s.Limits.Processes <= 0 || !able {
		return nil
	}
	posture, err := engine.Posture(ctx)
	if err != nil {
		return []string{"whether limits.processes is exact is not known: " + err.Error()}
	}
	if why := posture.Uncounted(s.Runtime); why != "" {
		return []string{provider.Sampled(why)}
	}
	return nil
}

var _ provider.Planner = (*Provider)(nil)
