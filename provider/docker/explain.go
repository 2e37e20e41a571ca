package docker

import (
	"context"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
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

// limitNotes says which limits of s hold less exactly on this engine, or not.
func (p *Provider) limitNotes(ctx context.Context, s sandbox.Spec) []string {
	posture, err := p.engine.Known(ctx)
	if err != nil {
		return []string{"which limits the engine enforces is not known: " + err.Error()}
	}
	var notes []string
	if why := posture.Uncounted(s.Runtime); why != "" && s.Limits.Processes > 0 {
		notes = append(notes, provider.Sampled(why))
	}
	refusal := posture.Refusal("create", s.Name)
	switch {
	case refusal == nil:
	case slices.Contains(s.Security.Dangerous, hardening.SwitchMissingLimits):
		notes = append(notes, "not enforced by this engine, as docker."+hardening.SwitchMissingLimits+" allows: "+strings.Join(posture.Missing(), ", "))
	default:
		notes = append(notes, "no sandbox can be made: "+refusal.Error())
	}
	return append(notes, posture.Weaker()...)
}

var _ provider.Planner = (*Provider)(nil)
