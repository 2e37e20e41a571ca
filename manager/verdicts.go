package manager

import (
	"context"
	"path"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
)

// A judge says what a wall's rules make of an operation on a path inside.
type judge func(op sandbox.Operation, inside string) sandbox.Verdict

// plan fills in how the provider would enforce the wanted Spec, where it can
// tell, and returns what judges paths, or nil.
func (e *Explanation) plan(ctx context.Context, w *want) judge {
	p, ok := w.provider.(provider.Planner)
	if !ok {
		return nil
	}
	plan, err := p.Plan(ctx, w.spec)
	if err != nil {
		e.Problems = append(e.Problems, err.Error())
		return nil
	}
	e.Layers = append(e.Layers, plan.Layers...)
	e.Wall = append(e.Wall, plan.Steps...)
	e.Notes = append(e.Notes, plan.Notes...)
	return plan.Judge
}

// verdicts answers q. What no policy decides about is said to be unknown,
// which beats guessing; onPath answers for paths and may be nil or have no
// answer.
func verdicts(q Questions, onPath func(path string) []Verdict) []Verdict {
	out := []Verdict{}
	for _, v := range []Verdict{
		{Kind: "tool", Subject: q.Tool}, {Kind: "command", Subject: q.Command}, {Kind: "path", Subject: q.Path}, {Kind: "host", Subject: q.Host},
	} {
		if v.Subject == "" {
			continue
		}
		if v.Kind == "path" && onPath != nil {
			if answers := onPath(v.Subject); answers != nil {
				out = append(out, answers...)
				continue
			}
		}
		v.Verdict, v.Reason = "unknown", "no "+v.Kind+" policy is enforced in this version; the wall alone decides"
		out = append(out, v)
	}
	return out
}

// judged asks j about a path inside, which is taken to lie in workdir when it
// is relative.
func judged(j judge, workdir, inside string) []Verdict {
	if j == nil {
		return nil
	}
	if !path.IsAbs(inside) {
		inside = path.Join(workdir, inside)
	}
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
