package command

import (
	"fmt"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
)

// A Strictness says how severe a finding has to be to count.
type Strictness string

// The strictnesses, from mild to strict.
const (
	Permissive Strictness = "permissive"
	Normal     Strictness = "normal"
	Restricted Strictness = "restricted"
	Strict     Strictness = "strict"
)

func (s Strictness) validate() error {
	switch s {
	case Permissive, Normal, Restricted, Strict:
		return nil
	}
	return &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "read command rules", Field: "commands.strictness",
		Message: fmt.Sprintf("%q is no strictness", string(s)),
		Hint:    "use permissive, normal, restricted or strict",
	}
}

// verdict maps the severity of a finding to what it asks for. A severity that
// is none of the four is denied.
func (s Strictness) verdict(v policy.Severity) policy.Verdict {
	const allow, ask, deny = policy.Allow, policy.Ask, policy.Deny
	if v < policy.Low || v > policy.Critical {
		return deny
	}
	row := [4]policy.Verdict{ask, deny, deny, deny}
	switch s {
	case Permissive, Normal:
		row = [4]policy.Verdict{allow, allow, ask, deny}
	case Restricted:
		row = [4]policy.Verdict{allow, ask, ask, deny}
	}
	return row[v-policy.Low]
}

// judge returns what a finding asks for, its mark counted.
func (s Strictness) judge(f finding) policy.Verdict {
	v := s.verdict(f.severity)
	switch {
	case f.mark == deny:
		return policy.Deny
	case f.mark == unknown, f.mark == never && s != Permissive:
		return policy.Strictest(v, policy.Ask)
	}
	return v
}
