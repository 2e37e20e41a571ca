package manager

import (
	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
)

// The names of spans.
const (
	spanJudge    = "sandbox.judge"
	spanApproval = "sandbox.approval"
	spanEnsure   = "sandbox.ensure"
	spanCreate   = "sandbox.create"
	spanOpen     = "sandbox.open"
	spanExec     = "sandbox.exec"
	spanFile     = "sandbox.file"
)

// traceJudged ends the span of what the gate decided.
func (p *pipeline) traceJudged(span *sandbox.Span, err error) {
	if span == nil {
		return
	}
	switch {
	case p.ruling != nil:
		span.String("sandbox.verdict", string(p.ruling.judged.Verdict))
	case denies(err):
		span.String("sandbox.verdict", string(policy.Deny))
	}
	span.String("sandbox.tool", p.req.Tool)
	span.EndWith(err)
}

// denies reports whether err is a decision against a call, not a failure.
func denies(err error) bool {
	switch sandbox.CodeOf(err) {
	case sandbox.CodeDenyTool, sandbox.CodeCapabilityBlocked, sandbox.CodePermissionDeny:
		return true
	}
	return false
}

// traceEnsured ends the span of the sandbox that was made ready.
func (p *pipeline) traceEnsured(err error) {
	span := p.making
	if l := p.sandbox; l != nil && err == nil {
		span.String("sandbox.name", l.name())
		if l.provider != nil {
			span.String("sandbox.provider", l.provider.Name())
		}
		span.Bool("sandbox.created", l.created)
		if l.claimed {
			span.Bool("sandbox.claimed", true)
		}
		span.String("container.image.name", l.spec.Image)
	}
	span.EndWith(err)
}

// traceSandbox names the sandbox of a step, and for whom it is.
func traceSandbox(span *sandbox.Span, l *acquired) {
	o := l.spec.Owner
	span.String("sandbox.name", l.name())
	span.String("sandbox.tenant", o.Tenant)
	span.String("sandbox.agent", o.Agent)
	span.String("sandbox.session", o.Session)
}

// traceExecuted ends the span of a command. One that fails is no failure of the
// step: its status is an attribute.
func traceExecuted(span *sandbox.Span, l *acquired, out Outcome, err error) {
	if span == nil {
		return
	}
	traceSandbox(span, l)
	switch {
	case err != nil:
	case out.TimedOut:
		span.Fail(&sandbox.Error{Code: sandbox.CodeTimeout})
	default:
		span.Int("process.exit.code", int64(out.Exit.Code))
	}
	if out.TimedOut {
		span.Bool("sandbox.timed_out", true)
	}
	if out.Blocked {
		span.Bool("sandbox.blocked", true)
	}
	span.EndWith(err)
}

// traceAnswered ends the span of a question that waited for an answer.
func traceAnswered(span *sandbox.Span, a Answer) {
	if span == nil {
		return
	}
	span.String("sandbox.approval.kind", string(a.Request.Kind))
	span.String("sandbox.approval.answer", string(a.Permission))
	span.End()
}

// named gives the span of an operation on files the name of its sandbox.
func (f *fileWatch) named(span *sandbox.Span) { traceSandbox(span, f.l) }
