package manager

import (
	"context"
	"path"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// An auditEntry is a call without a grant whose begin is on record. A nil one
// stands for a call that need not be recorded.
type auditEntry struct {
	p     *pipeline
	entry Entry
	start time.Time
	seen  *outputDigest
}

// record puts the begin of the call on record where the settings require that
// for calls without a grant.
func (p *pipeline) record(ctx context.Context) (err error) {
	if p.res.RecordsCommands() {
		p.entry, err = p.begin(ctx, p.beginning())
	}
	return err
}

// begin puts the begin of something that the call does on record. It returns
// nil where the settings do not want that.
func (p *pipeline) begin(ctx context.Context, b evidence.Begin) (*auditEntry, error) {
	w, err := p.recorder()
	if w == nil || err != nil {
		return nil, err
	}
	entry, err := w.Begin(ctx, caused(ctx, b), p.res.RequireEvidence)
	if err != nil {
		return nil, err
	}
	return &auditEntry{p: p, entry: entry, start: p.m.now(), seen: &outputDigest{}}, nil
}

// end puts the end on record and returns the error of the call, which is that
// of the record where it has to be kept and could not.
func (s *auditEntry) end(ctx context.Context, err error) error {
	if s == nil {
		return err
	}
	end := s.seen.end(err)
	end.Time = s.p.m.now()
	end.Duration = end.Time.Sub(s.start)
	if s.p.ruling != nil {
		end.Approval = s.p.ruling.answer
	}
	if lost := s.entry.End(ctx, end); lost != nil && err == nil && s.p.res.RequireEvidence {
		return lost
	}
	return err
}

// recorder returns the recorder of the call, nil where calls are not recorded.
func (p *pipeline) recorder() (Recorder, error) {
	if !p.res.RecordsCommands() {
		return nil, nil
	}
	if p.m.control == nil {
		if !p.res.RequireEvidence {
			return nil, nil
		}
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "record", Field: "requireEvidence", Message: "nothing may run that is not on record, and this program keeps none", Hint: "give the manager a Control"}
	}
	c, err := p.m.control()
	if err != nil {
		if p.res.RequireEvidence {
			return nil, err
		}
		p.m.log.WithError(err).Error("what is run is not on record")
		return nil, nil
	}
	return c.Recorder, nil
}

// refused puts on record that a call without a grant was refused.
func (p *pipeline) refused(ctx context.Context, refusal error) {
	w, err := p.recorder()
	if w == nil || err != nil {
		return
	}
	end := (&outputDigest{}).end(refusal)
	end.Time = p.m.now()
	end.Detail, end.Resource = "refused before it was begun", "" // which quote the command
	if err := w.Refused(ctx, caused(ctx, p.beginning()), end, p.res.RequireEvidence); err != nil {
		p.m.log.WithError(err).Warn("a refusal is not on record")
	}
}

// beginning is what is on record of the begin of a call without a grant.
func (p *pipeline) beginning() evidence.Begin {
	args := p.req.Command.Args
	b := evidence.Begin{
		Time: p.m.now(), Tenant: p.res.Tenant, Agent: p.res.Agent, Session: p.res.Session, Tool: p.req.Tool,
		Kind: evidence.Command, Capability: "files", Request: evidence.Request{Args: max(len(args)-1, 0)},
		Inputs: inputs(grant.Operation{Args: args}),
	}
	if p.req.line != "" {
		b.Inputs, b.Capability = inputs(grant.Operation{Args: []string{p.req.line}}), "command:line"
	} else if len(args) > 0 {
		b.Request.Program = path.Base(args[0])
		b.Capability = "command:" + b.Request.Program
	}
	if p.ruling != nil {
		b.Sandbox = p.ruling.sandbox
	}
	b.PolicyVersion, b.Parent = p.policyVersion(), parentOf(p.from)
	return b
}

// parentOf returns what the evidence of a sandbox says that begins with rec, nil
// where it begins with nothing.
func parentOf(rec *checkpoint.Record) *evidence.Parent {
	if rec == nil {
		return nil
	}
	return &evidence.Parent{Checkpoint: rec.ID, Sandbox: rec.Sandbox, Session: rec.Session}
}

// recordParent puts on record what the sandbox that was made for the call begins
// with, where that was found when it was made, so that the record of the call does
// not say it.
func (p *pipeline) recordParent(ctx context.Context) error {
	l := p.sandbox
	if !l.created || l.want.from == nil || p.from != nil {
		return nil
	}
	b := p.beginning()
	b.Capability, b.Request, b.Inputs = "files", evidence.Request{}, inputs(grant.Operation{})
	b.Sandbox, b.Parent = l.name(), parentOf(l.want.from)
	s, err := p.begin(ctx, b)
	if err != nil {
		return err
	}
	return s.end(ctx, nil)
}

// policyVersion returns the version of the settings of a call without a grant.
// It is empty where it is unknown, in which case nothing will be run either.
func (p *pipeline) policyVersion() string {
	if p.settings == nil && p.res.Agent == "" {
		return ""
	}
	rules, err := config.GrantPolicy(p.res, p.m.host.Inside(p.res), grant.Manifest{Tool: "command", Version: "1.0.0", Safety: grant.SafetyLow})
	if err != nil {
		return ""
	}
	return rules.Version
}
