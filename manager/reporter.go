package manager

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/policy"
)

// A reporter reports what rules have stopped to the recorder of violations.
type reporter struct{ m *Manager }

// tellWithin bounds how long a record may take.
const tellWithin = 2 * time.Second

// tellRefused records why the gate refused a call: the reasons that decided,
// not those which would only have been asked about.
func (rp *reporter) tellRefused(ctx context.Context, r *ruling) {
	meta := violation.Meta{
		Time: rp.m.now(), Tenant: r.owner.Tenant, Agent: r.req.Who.Agent, Session: r.req.Who.Session, Sandbox: r.sandbox,
		Command: r.judged.Text,
	}
	if r.granted {
		meta.Command, meta.CommandDigest = "", journal.Digest(r.judged.Text)
	}
	var records []violation.Record
	for _, reason := range r.judged.Reasons {
		if reason.Verdict == r.judged.Verdict && reason.Verdict != policy.Allow {
			meta.Program = r.program(reason.Span)
			records = append(records, violation.FromReason(reason, meta))
		}
	}
	rp.tell(ctx, r.sandbox, records)
}

// program is what the part of the text at span runs, where that is known.
func (r *ruling) program(span policy.Span) string {
	if r.granted {
		return r.req.program()
	}
	for _, c := range r.judged.Commands {
		if span.End > span.Start && c.Span.Start <= span.Start && span.End <= c.Span.End && len(c.Words) > 0 {
			return c.Words[0]
		}
	}
	return r.req.program()
}

// tellEscape records that a call which asked to run without a sandbox may not.
func (rp *reporter) tellEscape(ctx context.Context, r *ruling, g Gate) {
	r.judged.Verdict = policy.Deny
	r.judged.Reasons = []policy.Reason{{
		Check: "place", Verdict: policy.Deny, Severity: policy.High, Rule: g.Field, Message: g.Reason,
		Span: policy.Span{End: len(r.judged.Text)},
	}}
	rp.tellRefused(ctx, r)
}

// tellStopped records what a sandbox stopped of a command, and the limit that the
// command has reached.
func (x *executor) tellStopped(ctx context.Context, l *acquired, req Request, out Outcome) {
	if len(out.Violations) == 0 && out.Exit.Limit == nil {
		return
	}
	meta := violation.Meta{
		Time: x.m.now(), Tenant: l.spec.Owner.Tenant, Agent: req.Who.Agent, Session: req.Who.Session, Sandbox: l.name(),
		Program: req.program(), Command: cmp.Or(req.line, strings.Join(req.Command.Args, " ")),
	}
	var records []violation.Record
	for _, v := range out.Violations {
		if v.Kind == sandbox.ResourceNetwork && v.Evidence == sandbox.EvidenceCertain {
			continue // the proxy's recorder has recorded it
		}
		records = append(records, violation.FromSandbox(v, meta))
	}
	if h := out.Exit.Limit; h != nil {
		records = append(records, violation.FromLimit(h.Limit, h.String(), meta))
	}
	x.m.reporter.tell(ctx, l.name(), records)
}

// tell hands records over. A failure is logged: what was stopped stays
// stopped.
func (rp *reporter) tell(ctx context.Context, sandbox string, records []violation.Record) {
	if rp.m.recorder == nil || len(records) == 0 {
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), tellWithin)
	defer done()
	if err := rp.m.recorder.Append(ctx, records...); err != nil {
		rp.m.log.WithError(err).WithField("sandbox", sandbox).Warn("cannot record what was stopped")
	}
}

// program is what the request starts; empty where a line tells that.
func (r *Request) program() string {
	if r.line != "" || len(r.Command.Args) == 0 {
		return ""
	}
	return r.Command.Args[0]
}

// asked returns the command as the approver sees it: of a line, it leaves out
// what starts the shell that runs it.
func (r *Request) asked() []string {
	if r.line != "" {
		return []string{"sh", "-c", r.line}
	}
	return slices.Clone(r.Command.Args)
}
