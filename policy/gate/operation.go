package gate

import (
	"cmp"
	"errors"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/command"
)

// checkProfile is the check of reasons that the guard of a profile gives.
const checkProfile = "profile"

// An Operation is one thing that a tool wants done, and the guard of the
// profile that says whether it may. Without a guard it may not.
type Operation struct {
	Guard *grant.Guard
	Do    grant.Operation
	State grant.State
}

// operation asks the guard, and then the policies of the settings about what
// the guard has let pass, in the spelling that it judged. A profile narrows
// what settings allow and never widens it.
func (g *Gate) operation(j *Judgement, o Operation) {
	v, err := grant.Vetted{}, error(&sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "judge", Field: "profile", Message: "there is no profile, so nothing is allowed", Hint: "ask for a grant"})
	if o.Guard != nil {
		v, err = o.Guard.Check(o.Do, o.State)
	}
	if err != nil {
		j.refused = err
		j.add(0, fromGuard(err))
		return
	}
	j.Vetted = v
	g.names(j, v, o.Guard.Profile().Mappings.Root)
}

// Allows reports why settings do not allow what an operation has led to, whose
// guard has let it pass: a page, or a file of one. root is the folder inside that
// the workspace is at. What they would ask about is not allowed.
func (g *Gate) Allows(v grant.Vetted, root string) error {
	j := Judgement{Decision: command.Decision{Verdict: policy.Allow}}
	g.names(&j, v, root)
	return j.Err("operate")
}

// names asks what the settings say about the path or the host of an operation.
func (g *Gate) names(j *Judgement, v grant.Vetted, root string) {
	file, ofWorkspace := strings.CutPrefix(v.URL, "workspace:")
	switch {
	case v.Kind == grant.OpFsWrite, v.Kind == grant.OpBrowserDownload:
		g.file(j, sandbox.OpWrite, v.Path)
	case v.Domain == grant.DomainFS, v.Kind == grant.OpBrowserUpload:
		g.file(j, sandbox.OpRead, v.Path)
	case v.Kind == grant.OpBrowserNav && ofWorkspace:
		g.file(j, sandbox.OpRead, root+"/"+file)
	case v.Port != 0:
		if d := g.hosts.Judge(v.Host, v.Port); d.Verdict != policy.Allow {
			j.add(len(j.Reasons), policy.Reason{Check: "host", Verdict: d.Verdict, Severity: policy.High, Message: d.Message, Hint: d.Hint, Rule: d.Rule, Code: sandbox.CodeCapabilityBlocked})
		}
	}
}

// unquoted has reasons against a program quote none of its arguments: what
// refuses an operation is put on record, which has digests of them alone. The
// rule says what was wrong.
func unquoted(reasons []policy.Reason) {
	for i := range reasons {
		reasons[i].Message, reasons[i].Span = "the program may not be run with these arguments", policy.Span{}
	}
}

// file asks what the settings say about a path.
func (g *Gate) file(j *Judgement, op sandbox.Operation, path string) {
	d := g.paths.Judge(op, path)
	if d.Verdict != policy.Allow {
		j.add(len(j.Reasons), policy.Reason{Check: "path", Verdict: d.Verdict, Severity: d.Severity, Message: d.Message, Hint: d.Hint, Rule: d.Rule, Code: sandbox.CodeCapabilityBlocked})
	}
}

// add puts a reason in its place and makes the verdict as strict as it is.
func (j *Judgement) add(at int, r policy.Reason) {
	j.Verdict = policy.Strictest(j.Verdict, r.Verdict)
	j.Reasons = append(j.Reasons, policy.Reason{})
	copy(j.Reasons[at+1:], j.Reasons[at:])
	j.Reasons[at] = r
}

// profiled is the place behind the reason of the guard, which comes first:
// nothing else matters to who was not granted a thing.
func (j *Judgement) profiled() int {
	if j.refused != nil {
		return 1
	}
	return 0
}

// fromGuard is the refusal of a guard as a reason.
func fromGuard(err error) policy.Reason {
	r := policy.Reason{Check: checkProfile, Verdict: policy.Deny, Severity: policy.High, Message: err.Error(), Code: sandbox.CodeOf(err)}
	var e *sandbox.Error
	if errors.As(err, &e) {
		r.Message, r.Hint, r.Rule, r.Code = e.Message, e.Hint, e.Field, cmp.Or(e.Code, sandbox.CodeInternal)
	}
	return r
}
