package violation

import (
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/policy"
)

// Meta says where a violation happened and in what.
type Meta struct {
	Time    time.Time // zero: when it is appended
	Tenant  string
	Agent   string
	Session string
	Sandbox string // its name, or empty
	Program string // that was to run; empty takes the first word of the offending part
	Command string // the whole command line as it was judged, or empty
	// CommandDigest stands for Command where only its digest is kept anyway:
	// the SHA-256 as hex digits. It counts when Command is empty.
	CommandDigest string
}

func (m Meta) record(t Type) Record {
	return Record{
		Time: m.Time, Tenant: m.Tenant, Agent: m.Agent, Session: m.Session, Sandbox: m.Sandbox,
		Type: t, Severity: severityOf(t), Verdict: policy.Deny, Program: m.Program, Count: 1,
	}
}

// FromSandbox returns the record of what a sandbox has stopped. Of the command
// line it keeps only the digest: the resource says what was stopped.
func FromSandbox(v sandbox.Violation, m Meta) Record {
	r := m.record(WallPath)
	switch v.Kind {
	case sandbox.ResourceNetwork:
		r.Type = providerNetwork
	case sandbox.ResourceSyscall:
		r.Type = providerSyscall
	}
	switch {
	case v.Evidence == sandbox.EvidenceWeak:
		r.Severity = policy.Low
	case v.Builtin:
		r.Severity = policy.High
	default:
		r.Severity = policy.Medium
	}
	if !v.Time.IsZero() {
		r.Time = v.Time
	}
	if v.Program != "" {
		r.Program = v.Program
	}
	r.Kind, r.Op, r.Resource, r.Rule = v.Kind, v.Operation, v.Resource, v.Rule
	r.Message = "denied by the sandbox"
	if v.Evidence != "" {
		r.Message += ", evidence " + string(v.Evidence)
	}
	r.keep("", m.Command)
	return r
}

// FromNetwork returns the record of what the egress proxy of a sandbox has
// refused. The message says why, in one sentence.
func FromNetwork(v sandbox.Violation, message string, m Meta) Record {
	r := m.record(NetworkViolation)
	if v.Builtin {
		r.Severity = policy.High
	}
	if !v.Time.IsZero() {
		r.Time = v.Time
	}
	r.Kind, r.Op, r.Resource, r.Rule, r.Message = sandbox.ResourceNetwork, sandbox.OpConnect, v.Resource, v.Rule, message
	if r.keep("", m.Command); m.Command == "" {
		r.CommandDigest = m.CommandDigest
	}
	return r
}

// FromReason returns the record of one reason of a policy, with the part of
// m.Command that it is about. Values of assignments in that part are left out.
func FromReason(reason policy.Reason, m Meta) Record {
	r := m.record(byCheck(reason.Check))
	if reason.Severity >= policy.Low && reason.Severity <= policy.Critical {
		r.Severity = reason.Severity
	}
	r.Verdict, r.Rule, r.Message = reason.Verdict, reason.Rule, reason.Message
	r.Kind, r.Op = sandbox.ResourceCommand, sandbox.OpExecute
	if r.Type == ToolDenied {
		r.Kind = sandbox.ResourceTool
	}
	part := m.Command
	if reason.Span.End > reason.Span.Start {
		part = reason.Span.Of(m.Command)
	}
	if r.keep(part, m.Command); m.Command == "" {
		r.CommandDigest = m.CommandDigest
	}
	return r
}

// FromLimit returns the record of a limit that was reached. The limit is the
// path of its setting ("limits.memory"), the message says how far.
func FromLimit(limit, message string, m Meta) Record {
	r := m.record(LimitExceeded)
	r.Kind, r.Op, r.Resource, r.Rule, r.Message = sandbox.ResourceLimit, sandbox.OpExecute, limit, limit, message
	r.keep("", m.Command)
	return r
}

// keep notes the offending part of a command, and the digest of the whole
// when that is more.
func (r *Record) keep(part, whole string) {
	kept := mask(part, maxCommand+1)
	if r.Command = journal.Text(kept, maxCommand); r.Program == "" {
		r.Program = programOf(kept)
	}
	if r.Command != whole {
		r.CommandDigest = journal.Digest(whole)
	}
}

// programOf returns the first word of a part of a command that is not an
// assignment.
func programOf(part string) string {
	for word := range strings.FieldsSeq(part) {
		if !isAssignment(word) {
			return word
		}
	}
	return ""
}
