package replay

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/command"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// A judge answers for one session.
type judge struct {
	res    config.Resolved
	in     config.Inside
	gate   *gate.Gate
	policy grant.Policy
	files  *grant.Guard // for all but requests and programs, made for the first question

	requests map[Request]Answer
	programs map[string]Answer
}

// Version implements [replay.Today].
func (j *judge) Version() string { return j.policy.Version }

// Tool implements [replay.Today].
func (j *judge) Tool(name string) Answer {
	d := j.gate.Tools().Judge(name)
	return Answer{Verdict: d.Verdict, Rule: d.Rule, Message: d.Reason}
}

// File implements [replay.Today].
func (j *judge) File(kind grant.Kind, path string) Answer {
	of := map[grant.Kind]struct {
		op grant.OpKind
		do sandbox.Operation
	}{
		grant.FSRead: {grant.OpFsRead, sandbox.OpRead}, grant.FSList: {grant.OpFsList, sandbox.OpRead}, grant.FSWrite: {grant.OpFsWrite, sandbox.OpWrite},
	}
	q, ok := of[kind]
	if !ok {
		return refusal("kind", "there is no such operation on files")
	}
	if a := j.guarded(grant.Operation{Kind: q.op, Path: path}); a.Verdict != policy.Allow {
		return a
	}
	d := j.gate.Paths().Judge(q.do, path)
	return Answer{Verdict: j.effective(d.Verdict), Rule: d.Rule, Message: d.Message}
}

// Browser implements [replay.Today].
func (j *judge) Browser(action string) Answer {
	for _, c := range j.policy.Capabilities {
		if c.Kind != grant.Browser {
			continue
		}
		for _, a := range c.Actions {
			if a == action {
				return Answer{Verdict: policy.Allow}
			}
		}
		return refusal("policy.capabilities", "the policy does not allow this action of a browser")
	}
	return refusal("policy.capabilities", "the policy allows no browser")
}

// Program implements [replay.Today].
func (j *judge) Program(name string) Answer {
	if a, ok := j.programs[name]; ok {
		return a
	}
	a := j.program(name)
	if len(j.programs) >= maxAnswers {
		clear(j.programs)
	}
	j.programs[name] = a
	return a
}

// Command implements [replay.Today]. No profile stands before the gate.
func (j *judge) Command(name string) Answer {
	judged := j.gate.Judge(gate.Call{Args: []string{name}})
	a := Answer{Verdict: j.effective(judged.Verdict)}
	if r, ok := judged.Decisive(); ok {
		a.Rule, a.Message = cmp.Or(r.Rule, r.Check), r.Message
	}
	return a
}

func (j *judge) program(name string) Answer {
	m := manifest(grant.Capability{Kind: grant.Process, Tool: name})
	p, err := config.GrantPolicy(j.res, j.in, m)
	if err != nil {
		return refused(err)
	}
	if a := ask(m, p, grant.Operation{Kind: grant.OpProcExec, Tool: name}); a.Verdict != policy.Allow {
		// The gate explains a denial by a command rule in its own words.
		if d, ok := j.gate.Judge(gate.Call{Args: []string{name}}).Decisive(); ok && d.Verdict == policy.Deny {
			return refusal(cmp.Or(d.Rule, d.Check), d.Message)
		}
		return a
	}
	return j.Command(name)
}

// Space implements [replay.Today].
func (j *judge) Space(bytes int64) Answer {
	for _, c := range j.policy.Capabilities {
		if c.Kind == grant.Temp && (c.Bytes == 0 || bytes <= c.Bytes) {
			return Answer{Verdict: policy.Allow}
		}
	}
	return refusal("policy.capabilities", "the temporary folder is smaller")
}

// Size implements [replay.Today].
func (j *judge) Size(bytes int64) Answer {
	most := j.policy.Limits.MaxBytesOut
	switch {
	case most > 0 && bytes > most:
		return refusal("profile.limits.maxBytesOut", "at most "+strconv.FormatInt(most, 10)+" bytes may be written or sent at once")
	case most == 0 && bytes > grant.Defaults().MaxBytesOut:
		return Answer{Verdict: policy.Allow, Unsure: "the limit of size is the manifest's, which is not in the record"}
	}
	return Answer{Verdict: policy.Allow}
}

// effective returns the verdict that takes effect inside a sandbox.
func (j *judge) effective(v policy.Verdict) policy.Verdict {
	v, _ = j.gate.Effective(gate.Judgement{Decision: command.Decision{Verdict: v}}, j.res.Sandboxed)
	return v
}

// guarded asks the guard about files and other operations that have no question
// of their own.
func (j *judge) guarded(op grant.Operation) Answer {
	if j.files == nil {
		m := manifest(grant.Capability{Kind: grant.FSRead, Path: "/"}, grant.Capability{Kind: grant.FSList, Path: "/"}, grant.Capability{Kind: grant.FSWrite, Path: "/"})
		g, err := guard(m, j.policy)
		if err != nil {
			return refused(err)
		}
		j.files = g
	}
	return answer(j.files.Validate(op, grant.State{Now: noon()}))
}

// noon is a time at which the grants of this package are valid. They are used
// at no other time.
func noon() time.Time { return time.Unix(0, 0).UTC().Add(12 * time.Hour) }

// manifest is that of a tool with no bounds of its own.
func manifest(caps ...grant.Capability) grant.Manifest {
	return grant.Manifest{
		Tool: "replay", Version: "1.0.0", Capabilities: caps, Safety: grant.SafetyLow,
		Limits: grant.Limits{MaxDepth: 1 << 20},
	}
}

// guard is that of a grant for all that the manifest declares, with consent.
func guard(m grant.Manifest, p grant.Policy) (*grant.Guard, error) {
	profile, err := grant.Build(grant.Grant{
		ID: "replay", Tenant: "replay", Subject: "replay", Tool: m.Tool, Call: "replay", DecisionKey: "replay",
		Capabilities: m.Capabilities, Issued: noon(), Expires: noon().Add(time.Hour),
		Consent: &grant.Consent{By: "replay", At: noon(), Expires: noon().Add(time.Hour)},
	}, m, p, noon())
	if err != nil {
		return nil, err
	}
	return grant.Compile(profile)
}

// ask asks the guard of such a grant about one operation.
func ask(m grant.Manifest, p grant.Policy, op grant.Operation) Answer {
	g, err := guard(m, p)
	if err != nil {
		return refused(err)
	}
	return answer(g.Validate(op, grant.State{Now: noon()}))
}

func answer(err error) Answer {
	if err != nil {
		return refused(err)
	}
	return Answer{Verdict: policy.Allow}
}

// refused is the answer when the judge refused, or could not judge.
func refused(err error) Answer {
	var e *sandbox.Error
	if errors.As(err, &e) {
		return refusal(e.Field, e.Message)
	}
	return refusal("", err.Error())
}

func refusal(rule, message string) Answer {
	return Answer{Verdict: policy.Deny, Rule: rule, Message: message}
}
