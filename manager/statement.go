package manager

import (
	"context"
	"path"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
)

// A statement is a call without a grant whose begin is on record. A nil one
// stands for a call that need not be recorded.
type statement struct {
	m     *Manager
	a     *admission
	entry Entry
	start time.Time
	seen  *outputDigest
}

// witnessed calls fn. It records a begin before and an end after it where the
// settings require that for calls without a grant.
func (m *Manager) witnessed(ctx context.Context, a *admission, fn func(*outputDigest) error) error {
	if !a.res.RecordsCommands() {
		return fn(nil)
	}
	s, err := m.declare(ctx, a, m.commandBeginning(a))
	if err != nil {
		return err
	}
	if s == nil {
		return fn(nil)
	}
	return s.end(ctx, fn(s.seen))
}

// declare puts the begin of a call without a grant on record, where the settings
// want that.
func (m *Manager) declare(ctx context.Context, a *admission, b evidence.Begin) (*statement, error) {
	w, err := m.witness(a)
	if w == nil || err != nil {
		return nil, err
	}
	entry, err := w.Begin(ctx, caused(ctx, b), a.res.RequireEvidence)
	if err != nil {
		return nil, err
	}
	return &statement{m: m, a: a, entry: entry, start: m.now(), seen: &outputDigest{}}, nil
}

// end puts the end on record and returns the error of the call, which is that
// of the record where it has to be kept and could not.
func (s *statement) end(ctx context.Context, err error) error {
	if s == nil {
		return err
	}
	end := s.seen.end(err)
	end.Time = s.m.now()
	end.Duration = end.Time.Sub(s.start)
	if lost := s.entry.End(ctx, end); lost != nil && err == nil && s.a.res.RequireEvidence {
		return lost
	}
	return err
}

// witness returns the recorder of the commands of a, nil where they are not
// recorded.
func (m *Manager) witness(a *admission) (Recorder, error) {
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
	return c.Recorder, nil
}

// refusedCommand puts on record that a call without a grant was refused.
func (m *Manager) refusedCommand(ctx context.Context, a *admission, refusal error) {
	w, err := m.witness(a)
	if w == nil || err != nil {
		return
	}
	end := (&outputDigest{}).end(refusal)
	end.Time = m.now()
	end.Detail, end.Resource = "refused before it was begun", "" // which quote the command
	if err := w.Refused(ctx, caused(ctx, m.commandBeginning(a)), end, a.res.RequireEvidence); err != nil {
		m.log.WithError(err).Warn("a refusal is not on record")
	}
}

// commandBeginning is what is on record of a call without a grant.
func (m *Manager) commandBeginning(a *admission) evidence.Begin {
	args := a.req.Command.Args
	b := evidence.Begin{
		Time: m.now(), Tenant: a.res.Tenant, Agent: a.res.Agent, Session: a.res.Session, Tool: a.req.Tool,
		Kind: evidence.Command, Capability: "files", Request: evidence.Request{Args: max(len(args)-1, 0)},
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
	b.PolicyVersion = m.policyVersion(a)
	return b
}

// policyVersion returns the version of the settings of a call without a grant.
// It is empty where it is unknown, in which case nothing will be run either.
func (m *Manager) policyVersion(a *admission) string {
	if a.settings == nil && a.res.Agent == "" {
		return ""
	}
	rules, err := config.GrantPolicy(a.res, m.host.Inside(a.res), grant.Manifest{Tool: "command", Version: "1.0.0", Safety: grant.SafetyLow})
	if err != nil {
		return ""
	}
	return rules.Version
}
