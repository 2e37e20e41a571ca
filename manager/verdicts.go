package manager

import (
	"context"
	"path"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/gate"
	"github.com/bulkhead-dev/sandbox/provider"
)

// An explainer answers what settings decide, and why, without effects.
type explainer struct{ m *Manager }

// A judge says what a sandbox's rules make of an operation on a path inside.
type judge func(op sandbox.Operation, inside string) sandbox.Verdict

// plan fills in how the provider would enforce the wanted Spec, where it can
// tell, and returns what judges paths, and what closes some of them; either may
// be nil.
func (e *Explanation) plan(ctx context.Context, w *want) (wall, closes judge) {
	of := w.provider
	if b, wrapped := asIdentified(of); wrapped {
		of = b.bindable
	}
	p, ok := of.(provider.Planner)
	if !ok {
		return nil, nil
	}
	plan, err := p.Plan(ctx, w.spec)
	if err != nil {
		e.Problems = append(e.Problems, err.Error())
		return nil, nil
	}
	if plan.Workspace != "" {
		e.Workspace = plan.Workspace
	}
	e.Layers = append(e.Layers, plan.Layers...)
	e.Wall = append(e.Wall, plan.Steps...)
	e.Notes = append(e.Notes, plan.Notes...)
	return plan.Judge, plan.Closes
}

// answer answers q by the policies of res and, for paths, by the rules of the
// sandbox where it has some.
func (x *explainer) answer(ctx context.Context, e *Explanation, res config.Resolved, q Questions, wall, closes judge) {
	in := x.m.host.Inside(res)
	g, err := gate.New(res, in)
	if err != nil {
		e.Problems = append(e.Problems, err.Error())
		return
	}
	closed, err := config.ClosedAllows(res, in, g.Paths())
	if err != nil {
		e.Problems = append(e.Problems, err.Error())
	}
	linked, err := x.linked(res)
	if err != nil {
		e.Problems = append(e.Problems, err.Error())
	}
	e.NoEffect = append(e.NoEffect, noticesOf(slices.Concat(closed, linked))...)
	e.Network = networkPlan(res, g.Hosts())
	if q.Tool != "" {
		d := g.Tools().Judge(q.Tool)
		e.Verdicts = append(e.Verdicts, Verdict{Kind: "tool", Subject: q.Tool, Verdict: string(d.Verdict), Reason: d.Reason})
	}
	if q.Command != "" {
		e.Verdicts = append(e.Verdicts, x.answerCommand(ctx, g, res, q.Command)...)
	}
	if q.Path != "" {
		inside := q.Path
		if !path.IsAbs(inside) {
			inside = path.Join(res.Docker.Workdir, inside)
		}
		if wall != nil {
			e.Verdicts = append(e.Verdicts, judged(wall, inside)...)
		}
		e.Verdicts = append(e.Verdicts, closedBy(closes, inside, answerPath(g, inside, wall != nil))...)
		if d := g.Tools().Changes(); d.Verdict != policy.Allow {
			e.Verdicts = append(e.Verdicts, Verdict{Kind: "file tool", Operation: string(sandbox.OpWrite), Subject: inside, Verdict: string(d.Verdict), Reason: d.Reason})
		}
	}
	if q.Host != "" {
		e.Verdicts = append(e.Verdicts, x.answerNetwork(ctx, g, res, q.Host, q.Method)...)
	}
}

// linked returns a notice for each allowed path that opens nothing because it
// leads through a link on this host.
func (x *explainer) linked(res config.Resolved) ([]config.Notice, error) {
	f := config.Facts{Home: x.m.host.Home, Env: x.m.host.Env, Canonical: map[string]string{}, Via: map[string][]string{}}
	if err := x.m.describer.canonical(res, &f); err != nil {
		return nil, err
	}
	return config.LinkedAllows(res, f), nil
}

// answerCommand says what the gate makes of a line for a shell, and where it
// would run.
func (x *explainer) answerCommand(ctx context.Context, g *gate.Gate, res config.Resolved, text string) []Verdict {
	j := g.Judge(gate.Call{Line: text})
	at, err := x.m.gates.enter(ctx, res, outing{excluded: j.Excluded}, observe)
	if err != nil && at.gate.Reason == "" {
		at.gate = Gate{Place: Refused, Reason: err.Error()}
	}
	v, note := g.Effective(j, at.gate.Place == Sandboxed)
	reason := j.Summary()
	if r, ok := j.Decisive(); ok && r.Hint != "" {
		reason += "; instead: " + r.Hint
	}
	if note != "" {
		reason += "; " + note
	}
	where := at.gate.Reason
	if j.ExcludedReason != "" {
		where += " (" + j.ExcludedReason + ")"
	}
	out := []Verdict{
		{Kind: "command", Subject: text, Verdict: string(v), Reason: reason},
		{Kind: "command", Operation: "place", Subject: text, Verdict: string(at.gate.Place), Reason: where},
	}
	for _, w := range j.Warnings {
		out = append(out, Verdict{Kind: "command", Operation: "warning", Subject: text, Verdict: "warn", Reason: w.Message + ", which strictness strict refuses; instead: " + w.Hint})
	}
	return out
}

// answerPath returns the verdict of the policy for paths on a path inside.
// Where the sandbox has rules of its own, it returns only what the policy has
// against commands that name the path.
func answerPath(g *gate.Gate, inside string, wall bool) []Verdict {
	var out []Verdict
	for _, op := range []sandbox.Operation{sandbox.OpRead, sandbox.OpWrite} {
		d := g.Paths().Judge(op, inside)
		kind, reason := "path", d.Message
		if d.Rule != "" && d.Verdict != policy.Allow {
			reason += " (" + d.Rule + ")"
		}
		if d.Hint != "" {
			reason += "; instead: " + d.Hint
		}
		switch {
		case wall && d.Verdict == policy.Allow:
			continue
		case wall:
			kind = "command naming it"
		case d.Verdict == policy.Allow:
			reason = "no rule of the policy is against it; the mounts of the sandbox decide"
		}
		out = append(out, Verdict{Kind: kind, Operation: string(op), Subject: inside, Verdict: string(d.Verdict), Reason: reason})
	}
	return out
}

// closedBy has the answers say what closes denies.
func closedBy(closes judge, inside string, answers []Verdict) []Verdict {
	if closes == nil {
		return answers
	}
	for i, own := range judged(closes, inside) {
		if own.Verdict == "deny" && i < len(answers) && answers[i].Verdict != "deny" {
			answers[i] = own
		}
	}
	return answers
}

// judged asks j about an absolute path inside.
func judged(j judge, inside string) []Verdict {
	var out []Verdict
	for _, op := range []sandbox.Operation{sandbox.OpRead, sandbox.OpWrite} {
		v := j(op, inside)
		answer := Verdict{Kind: "path", Operation: string(op), Subject: inside, Verdict: "deny", Reason: v.Rule}
		switch {
		case v.Allowed:
			answer.Verdict = "allow"
		case v.Builtin || v.HostPath == "":
			answer.Reason += "; nothing can grant it"
		default:
			answer.Reason += "; it could be granted"
		}
		if v.HostPath != "" && v.HostPath != inside {
			answer.Reason += " (on the host: " + v.HostPath + ")"
		}
		out = append(out, answer)
	}
	return out
}
