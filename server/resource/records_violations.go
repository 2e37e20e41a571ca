package resource

import (
	"context"
	"errors"
	"iter"
	"net/http"

	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A violationStore reads the records of what was stopped; *violation.Store is one.
type violationStore interface {
	Query(ctx context.Context, f violation.Filter) iter.Seq2[violation.Record, error]
	Clear(ctx context.Context, f violation.Filter, by string) (int64, error)
}

// recordsViolations is the resource for the records of what was stopped.
type recordsViolations struct{ store violationStore }

// NewViolations returns the resource.
func NewViolations(s violationStore) *recordsViolations { return &recordsViolations{s} }

// Routes implements [Resource].
func (v *recordsViolations) Routes() []Route {
	filter := scopeParams(
		Param{Name: "type", Length: 64, Repeat: true, Doc: "Only of these types"},
		Param{Name: "severity", Enum: []string{"low", "medium", "high", "critical"}, Doc: "Only of this severity or a graver one"},
	)
	return []Route{{
		ID: "listViolations", Method: http.MethodGet, Path: api.Prefix + "/violations", Tag: "records", Role: token.Session,
		Summary: "List violations", Doc: "The newest first. Texts come from inside of sandboxes and may hold anything. " + streamDoc,
		Query: append([]Param{limitParam()}, filter...), Response: api.ViolationList{}, Errors: []int{503, 504},
		Stream: true, Events: recordEvents(api.ViolationRecord{}), Timeout: reading, Do: v.list,
	}, {
		ID: "clearViolations", Method: http.MethodDelete, Path: api.Prefix + "/violations", Tag: "records", Role: token.Tenant,
		Summary: "Remove violations", Doc: "Of the tenant, as far as the filters select. How many, when and by whom stays on record.",
		Query: filter, Response: api.Cleared{}, Errors: []int{503, 504}, Do: v.clear,
	}}
}

func (v *recordsViolations) filter(c *Call) (violation.Filter, int, error) {
	s, err := scopeOf(c)
	if err != nil {
		return violation.Filter{}, 0, err
	}
	f := violation.Filter{Tenant: s.tenant, AllTenants: s.all, Agent: s.agent, Session: s.session, Sandbox: s.sandbox, Since: s.since, Until: s.until}
	for _, name := range c.Texts("type") {
		t, err := violation.ParseType(name)
		if err != nil {
			return f, 0, Invalid("type", "there is no such type of violation")
		}
		f.Types = append(f.Types, t)
	}
	if text := c.Text("severity"); text != "" {
		var least policy.Severity
		if err := least.UnmarshalText([]byte(text)); err != nil {
			return f, 0, Invalid("severity", "there is no such severity")
		}
		f.MinSeverity = least
	}
	return f, s.limit, nil
}

func (v *recordsViolations) list(c *Call) (any, error) {
	f, limit, err := v.filter(c)
	if err != nil {
		return nil, err
	}
	f.Limit = oneMore(limit)
	all := v.store.Query(c.Context(), f)
	if c.Accepts(api.ContentEvents) {
		return streamList(c, all, limit, shownViolation)
	}
	out := api.ViolationList{Violations: []api.ViolationRecord{}}
	out.More, out.Damaged, err = gather(all, limit, func(r violation.Record) error {
		out.Violations = append(out.Violations, shownViolation(r))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func shownViolation(r violation.Record) api.ViolationRecord {
	return api.ViolationRecord{
		Time: r.Time.UTC(), Tenant: r.Tenant, Agent: r.Agent, Session: r.Session, Sandbox: r.Sandbox, Type: string(r.Type),
		Severity: r.Severity.String(), Verdict: string(r.Verdict), Kind: r.Kind, Operation: string(r.Op), Resource: r.Resource,
		Rule: r.Rule, Message: r.Message, Program: r.Program, Command: r.Command, CommandDigest: r.CommandDigest, Count: r.Count,
	}
}

func (v *recordsViolations) clear(c *Call) (any, error) {
	f, _, err := v.filter(c)
	if err != nil {
		return nil, err
	}
	n, err := v.store.Clear(c.Context(), f, c.Caller.ID()+" by DELETE /v1/violations")
	if err != nil {
		return nil, err
	}
	return api.Cleared{Removed: n}, nil
}

// gather passes the first limit records of all to each, and returns whether
// there are more and how many places are damaged.
func gather[T any](all iter.Seq2[T, error], limit int, each func(T) error) (more bool, damaged int, err error) {
	n := 0
	for r, err := range all {
		var damage *journal.Damage
		switch {
		case errors.As(err, &damage):
			damaged++
			continue
		case err != nil:
			return false, damaged, err
		case n == limit:
			return true, damaged, nil
		}
		n++
		if err := each(r); err != nil {
			return false, damaged, err
		}
	}
	return false, damaged, nil
}
