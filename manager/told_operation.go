package manager

import (
	"context"
	"net/url"
	"path"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/evidence/proof"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/operation"
)

// beginning is what is on record of an order from the start.
func (o *order) beginning() proof.Begin {
	g, op := &o.req.Grant, &o.req.Do
	b := proof.Begin{
		ID: o.id, Time: o.start, Tenant: g.Tenant, Subject: g.Subject, Agent: o.who.Agent, Session: o.who.Session, Tool: g.Tool, Call: g.Call, Grant: g.ID,
		Kind: op.Kind, Capability: o.vetted.Capability, Inputs: inputs(*op),
		ManifestVersion: o.req.Manifest.Version, RequestID: o.req.RequestID, TraceParent: o.req.TraceParent,
		Request: proof.Request{Path: op.Path, Method: op.Method, Program: op.Tool, Args: len(op.Args), Bytes: max(int64(len(op.Data)), op.Bytes)},
	}
	if o.guard != nil {
		p := o.guard.Profile()
		b.ProfileHash, b.PolicyVersion = p.Hash, p.PolicyVersion
	}
	if o.vetted.Capability == "" { // refused: the spelling is the caller's
		if u, err := url.Parse(op.URL); err == nil && op.URL != "" {
			b.Request.Scheme, b.Request.Host = u.Scheme, u.Hostname()
			b.Request.Port, _ = strconv.Atoi(u.Port())
		}
		return b
	}
	b.Request.Path, b.Request.Method = o.vetted.Path, o.vetted.Method
	if u, err := url.Parse(o.vetted.URL); err == nil && o.vetted.URL != "" {
		b.Request.Scheme, b.Request.Host, b.Request.Port = u.Scheme, o.vetted.Host.String(), int(o.vetted.Port)
	}
	if needsWall(o.vetted.Domain) {
		b.Sandbox = o.admission.ruling.sandbox
	}
	return b
}

// ending is what is on record of the end of an order.
func (o *order) ending(done metered, err error) proof.End {
	return proof.End{
		Time: o.m.now(), Status: statusOf(err, done.begun), Code: grant.Audit(err).Code, Rule: grant.Audit(err).Rule,
		Detail: grant.Audit(err).Message, Resource: grant.Audit(err).Resource,
		Outputs: done.Output.Digest, Effects: done.effects, More: done.more, Used: done.Used, Duration: done.Duration,
	}
}

// statusOf is how an operation ended. What was refused before anything was
// done is denied, whoever refused it; what could not be done is an error.
func statusOf(err error, begun bool) proof.Status {
	if err == nil {
		return proof.OK
	}
	switch sandbox.CodeOf(err) {
	case sandbox.CodePermissionDeny, sandbox.CodeCapabilityBlocked, sandbox.CodeDenyTool, sandbox.CodeBudgetExceeded, sandbox.CodeValidation:
		if !begun {
			return proof.Denied
		}
	}
	return proof.Failed
}

// measured is an order as whoever shows metrics hears of it.
func (o *order) measured(done metered, err error) operation.Ended {
	e := operation.Ended{
		Tenant: o.req.Grant.Tenant, Tool: o.req.Grant.Tool, Domain: o.vetted.Domain, Effects: o.vetted.Effects, Denied: statusOf(err, done.begun) == proof.Denied,
		Code: done.Code, Retryable: done.Retryable, Used: done.Used, Duration: done.Duration,
	}
	if o.guard != nil {
		e.Safety = o.guard.Profile().Safety
	}
	return e
}

// witnessed carries fn out, between a begin and an end on record where the
// settings want that for calls without a grant.
func (m *Manager) witnessed(ctx context.Context, a *admission, fn func(*testimony) error) error {
	w, err := m.witness(a)
	if err != nil {
		return err
	}
	if w == nil {
		return fn(nil)
	}
	entry, err := w.Begin(ctx, m.commandBeginning(a), a.res.RequireEvidence)
	if err != nil {
		return err
	}
	start, t := m.now(), &testimony{}
	err = fn(t)
	end := t.end(err)
	end.Time = m.now()
	end.Duration = end.Time.Sub(start)
	if lost := entry.End(ctx, end); lost != nil && err == nil && a.res.RequireEvidence {
		return lost
	}
	return err
}

// witness returns who puts commands of a on record, nil where nobody has to.
func (m *Manager) witness(a *admission) (Witness, error) {
	if !a.res.RecordsCommands() {
		return nil, nil
	}
	if m.control == nil {
		if !a.res.RequireEvidence {
			return nil, nil
		}
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "record", Field: "requireEvidence", Message: "nothing may run that is not on record, and this program keeps none", Hint: "give the manager a Control"}
	}
	c, err := m.control()
	if err != nil {
		if a.res.RequireEvidence {
			return nil, err
		}
		m.log.WithError(err).Error("what is run is not on record")
		return nil, nil
	}
	return c.Witness, nil
}

// refusedCommand puts on record that a call without a grant was refused.
func (m *Manager) refusedCommand(ctx context.Context, a *admission, refusal error) {
	w, err := m.witness(a)
	if w == nil || err != nil {
		return
	}
	end := (&testimony{}).end(refusal)
	end.Time = m.now()
	if err := w.Refused(ctx, m.commandBeginning(a), end, a.res.RequireEvidence); err != nil {
		m.log.WithError(err).Warn("a refusal is not on record")
	}
}

// commandBeginning is what is on record of a call without a grant.
func (m *Manager) commandBeginning(a *admission) proof.Begin {
	args := a.req.Command.Args
	b := proof.Begin{
		Time: m.now(), Tenant: a.res.Tenant, Agent: a.res.Agent, Session: a.res.Session, Tool: a.req.Tool,
		Kind: proof.Command, Capability: "files", Request: proof.Request{Args: max(len(args)-1, 0)},
		Inputs: inputs(grant.Operation{Args: args}),
	}
	if a.req.line != "" {
		b.Inputs, b.Capability = inputs(grant.Operation{Args: []string{a.req.line}}), "command:line"
	} else if len(args) > 0 {
		b.Request.Program = path.Base(args[0])
		b.Capability = "command:" + b.Request.Program
	}
	if a.ruling != nil {
		b.Sandbox = a.ruling.sandbox
	}
	return b
}
