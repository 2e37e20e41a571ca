// Package replay judges recorded decisions again by today's policy: it finds
// what was allowed and would be refused, and what was refused and would be
// allowed. It is pure: it runs and writes nothing, and queries only the policy
// that the caller supplies.
//
// A record has digests in place of arguments and contents, so some decisions
// cannot be judged again in full. Such a result says why it is not certain. A
// refusal by the grant, the manifest, a consent, the budget or a revocation
// does not depend on the policy and stays a refusal.
package replay

import (
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/policy"
)

// Today answers questions by the policy in force now, for one tenant, agent and
// session. The questions contain recorded values that have not been validated
// since: they may be anything.
type Today interface {
	// Version is that of config.GrantPolicy. Records with the same one were
	// judged by the same policy.
	Version() string

	Tool(name string) Answer
	File(kind grant.Kind, path string) Answer // fs.read, fs.write or fs.list
	Request(r Request) Answer                 // of an operation under a grant
	Browser(action string) Answer             // as grant.Capability has them
	Program(name string) Answer               // under a grant, without arguments
	Command(name string) Answer               // the program of one without a grant, without arguments
	Space(bytes int64) Answer                 // temporary
	Size(bytes int64) Answer                  // written or sent at once
	Placement(p Placement) Answer             // of a command, through the egress proxy
}

// An Answer is what the policy says to one question.
type Answer struct {
	Verdict policy.Verdict
	Rule    string // that decided
	Message string
	Unsure  string // why the record lacks something that the verdict depends on; empty if it lacks nothing
}

// Request is an address that an operation requested.
type Request struct {
	Method string
	Scheme string
	Host   string
	Port   int
}

// An Operation is the recorded begin and end of one operation. End is nil when
// there is none.
type Operation struct {
	Begin evidence.Begin
	End   *evidence.End
}

// A Judged is one of the two judgements that are compared.
type Judged struct {
	Verdict policy.Verdict `json:"verdict"`
	Rule    string         `json:"rule,omitempty"`
	Code    sandbox.Code   `json:"errorCode,omitempty"`
	Message string         `json:"message,omitempty"`
	Version string         `json:"policyVersionHash,omitempty"` // empty where it is not recorded
}

// A Result compares one recorded decision with what it would be today.
type Result struct {
	Type    string    `json:"type"` // operation or egress
	ID      string    `json:"id,omitempty"`
	Time    time.Time `json:"time"`
	Tenant  string    `json:"tenant"`
	Agent   string    `json:"agent"`
	Session string    `json:"session"`
	Tool    string    `json:"tool,omitempty"`
	Call    string    `json:"call,omitempty"`
	Kind    string    `json:"kind"` // of the operation, or the protocol
	What    string    `json:"what"`

	Recorded Judged `json:"recorded"`
	Today    Judged `json:"today"`
	Differs  bool   `json:"differs"`
	Certain  bool   `json:"certain"` // whether the record contains all that today's verdict depends on
	Why      string `json:"why"`
}

// The types of Result.
const (
	TypeOperation = "operation"
	TypeEgress    = "egress"
)

// Judge judges one recorded operation by today's policy.
func Judge(o Operation, t Today) Result {
	r := resultOf(o)
	r.Today.Version = t.Version()
	switch why := r.stays(); {
	case o.Begin.PolicyVersion != "" && o.Begin.PolicyVersion == t.Version():
		r.same("the policy is the one that it was judged by")
	case why != "":
		r.same(why)
	case r.Recorded.Verdict == policy.Deny && strings.HasPrefix(r.Recorded.Rule, "profile.limits"):
		r.same("the limit may be the manifest's, which is not in the record")
		r.Certain = false
	case r.byArguments(o.Begin.Request):
		r.same("it was refused for its arguments, of which there is a digest only")
		r.Certain = false
	default:
		r.compare(questions(o, t))
		r.elsewhere()
	}
	return r
}

// Unknown is the result for a record for which today's policy cannot be
// determined because of err.
func Unknown(o Operation, err error) Result {
	r := resultOf(o)
	r.unknown(err)
	return r
}

func (r *Result) unknown(err error) {
	r.Why = "there is no policy for it today: " + err.Error()
}

func resultOf(o Operation) Result {
	b := o.Begin
	r := Result{
		Type: TypeOperation, ID: b.ID, Time: b.Time, Tenant: b.Tenant, Agent: b.Agent, Session: b.Session, Tool: b.Tool, Call: b.Call,
		Kind: string(b.Kind), What: What(b), Recorded: Judged{Verdict: policy.Allow, Version: b.PolicyVersion},
	}
	if o.End != nil {
		r.Recorded.Rule, r.Recorded.Code = o.End.Rule, o.End.Code
		if o.End.Status == evidence.Denied {
			r.Recorded.Verdict = policy.Deny
		}
	}
	return r
}

// same marks the verdict as certainly unchanged.
func (r *Result) same(why string) {
	r.Today.Verdict, r.Today.Rule, r.Today.Code = r.Recorded.Verdict, r.Recorded.Rule, r.Recorded.Code
	r.Certain, r.Why = true, why
}

// compare sets what the answers come to: the strictest of them.
func (r *Result) compare(answers []Answer) {
	r.Today.Verdict, r.Certain = policy.Allow, true
	refused := false // for sure
	for _, a := range answers {
		v := a.Verdict
		if v != policy.Allow && v != policy.Ask {
			v = policy.Deny // an unknown verdict is not a permission
		}
		if policy.Strictest(r.Today.Verdict, v) != r.Today.Verdict {
			r.Today.Verdict, r.Today.Rule, r.Today.Message = v, a.Rule, a.Message
		}
		refused = refused || v == policy.Deny && a.Unsure == ""
		if a.Unsure != "" && r.Certain {
			r.Certain, r.Why = false, a.Unsure
		}
	}
	r.Differs = r.Today.Verdict != r.Recorded.Verdict
	switch {
	case refused: // whatever else there is to it
		r.Certain, r.Why = true, "the policy refuses it"
	case r.Today.Verdict == policy.Deny:
	case len(answers) == 0:
		r.Certain, r.Why = false, "the record does not say what was asked for"
	case r.Today.Verdict == policy.Ask && r.Certain:
		r.Why = "an approval would be asked for"
	case r.Recorded.Verdict == policy.Deny && r.Type == TypeOperation:
		r.Certain, r.Why = false, "the policy lets it pass; whether arguments, consent and budget do was not looked at behind the refusal"
	case r.Certain:
		r.Why = "the policy lets it pass"
	}
}
