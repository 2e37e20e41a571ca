package sdk

import (
	"context"
	"crypto/ed25519"
	"errors"
	"iter"
	"net/url"
	"strconv"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Bounds of what a daemon may tell of its records, far beyond what they hold.
const (
	maxViolations = 1 << 20
	maxEvidence   = 1 << 24
	maxAtOnce     = 1000 // that a daemon takes as a limit
)

// Violations are those that a daemon has on record, with the methods of
// *store.Store that the command line uses.
type managerViolations struct{ d *Manager }

// Violations returns what was tried and stopped.
func (d *Manager) Violations() managerViolations { return managerViolations{d} }

// Query implements what [store.Store.Query] says. Whose records there are the
// daemon decides: those of who asks.
func (v managerViolations) Query(ctx context.Context, f violation.Filter) iter.Seq2[violation.Record, error] {
	all := v.d.c.For(f.Tenant, "", "").EachViolation(ctx, violationQuery(f, f.Limit))
	return managerReported(all, "list violations", f.Limit, maxViolations, violationOf)
}

// Count implements what [store.Store.Count] says.
func (v managerViolations) Count(ctx context.Context, f violation.Filter) (map[violation.Type]int64, error) {
	f.Limit = 0
	out := map[violation.Type]int64{}
	for r, err := range v.Query(ctx, f) {
		var damage *journal.Damage
		if errors.As(err, &damage) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[r.Type] += r.Count
	}
	return out, nil
}

// Clear forgets what is meant. Who wanted it the daemon knows better than by.
func (v managerViolations) Clear(ctx context.Context, f violation.Filter, _ string) (int64, error) {
	c, err := v.d.c.For(f.Tenant, "", "").ClearViolations(ctx, violationQuery(f, 0))
	return c.Removed, err
}

func violationQuery(f violation.Filter, limit int) url.Values {
	q := query(f.AllTenants, f.Agent, f.Session, f.Sandbox, f.Since, f.Until, limit)
	for _, t := range f.Types {
		q.Add("type", string(t))
	}
	if f.MinSeverity != 0 {
		q.Set("severity", f.MinSeverity.String())
	}
	return q
}

// query has the parameters that all records share.
func query(all bool, agent, session, box string, since, until time.Time, limit int) url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"agent": agent, "session": session, "sandbox": box} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"since": since, "until": until} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if all {
		q.Set("all", "true")
	}
	if limit > 0 && limit <= maxAtOnce {
		q.Set("limit", strconv.Itoa(limit))
	}
	return q
}

// reported passes on what a daemon tells, at most limit records unless that is 0,
// and never more than most things.
func managerReported[T, R any](all iter.Seq2[T, error], op string, limit, most int, read func(T) (R, error)) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var none R
		n, records := 0, 0
		for one, err := range all {
			if n++; n > most {
				yield(none, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Message: "the daemon tells of more than records can hold"})
				return
			}
			var damage *Damage
			if errors.As(err, &damage) {
				if !yield(none, &journal.Damage{Kind: damage.Kind, Detail: "the daemon cannot read it"}) {
					return
				}
				continue
			}
			r := none
			if err == nil {
				r, err = read(one)
			}
			if !yield(r, err) || err != nil {
				return
			}
			if records++; records == limit {
				return
			}
		}
	}
}

func violationOf(r api.ViolationRecord) (violation.Record, error) {
	out := violation.Record{
		Time: r.Time, Tenant: r.Tenant, Agent: r.Agent, Session: r.Session, Sandbox: r.Sandbox, Type: violation.Type(r.Type),
		Verdict: policy.Verdict(r.Verdict), Kind: r.Kind, Op: sandbox.Operation(r.Operation), Resource: r.Resource,
		Rule: r.Rule, Message: r.Message, Program: r.Program, Command: r.Command, CommandDigest: r.CommandDigest, Count: r.Count,
	}
	if err := out.Severity.UnmarshalText([]byte(r.Severity)); err != nil {
		return out, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "list violations", Message: "the daemon tells of a severity that there is not"}
	}
	return out, nil
}

// Evidence is what a daemon has on record, with the methods of *evidence.Store
// that the command line uses.
type managerEvidence struct{ d *Manager }

// Evidence returns what was done.
func (d *Manager) Evidence() managerEvidence { return managerEvidence{d} }

// Query implements what [evidence.Store.Query] says. Whose records there are the
// daemon decides: those of who asks.
func (e managerEvidence) Query(ctx context.Context, f evidence.Filter) iter.Seq2[evidence.Record, error] {
	q := query(f.AllTenants, f.Agent, f.Session, f.Sandbox, f.Since, f.Until, f.Limit)
	for name, value := range map[string]string{"type": string(f.Type), "command": f.Command} {
		if value != "" {
			q.Set(name, value)
		}
	}
	all := e.d.c.For(f.Tenant, "", "").EachEvidence(ctx, q)
	return managerReported(all, "list evidence", f.Limit, maxEvidence, func(r api.EvidenceRecord) (evidence.Record, error) {
		return evidence.Record{
			Time: r.Time, Tenant: r.Tenant, Agent: r.Agent, Session: r.Session, Sandbox: r.Sandbox,
			Command: r.Command, Type: evidence.Type(r.Type), Data: r.Data, Omitted: r.Omitted,
		}, nil
	})
}

// Verified has the daemon check its records. That it tells the truth of them
// is believed; who does not believe it keeps a signed line, and reads the
// records on the daemon's machine.
func (e managerEvidence) Verified(ctx context.Context, c evidence.Check) (evidence.Verified, error) {
	v := Verification{All: c.AllTenants}
	for _, k := range c.Keys {
		v.Keys = append(v.Keys, evidence.Public(k))
	}
	if c.Signed != nil {
		v.Signed = strconv.FormatUint(c.Signed.Seq, 10) + ":" + c.Signed.Hash
	}
	r, err := e.d.c.For(c.Tenant, "", "").VerifyEvidence(ctx, v)
	if err != nil {
		return evidence.Verified{}, err
	}
	out := evidence.Verified{Keys: []ed25519.PublicKey{}, Chains: []evidence.Chain{}}
	for _, k := range r.Keys {
		key, err := evidence.ParsePublic(k.Public)
		if err != nil {
			return out, verifyError("a key that is none")
		}
		out.Keys = append(out.Keys, key)
	}
	for _, chain := range r.Chains {
		one := chainOf(chain)
		if chain.OK != one.OK() {
			return out, verifyError("records as whole and as damaged at once")
		}
		out.Chains = append(out.Chains, one)
	}
	if r.OK != out.OK() {
		return out, verifyError("records as whole and as damaged at once")
	}
	return out, nil
}

func verifyError(what string) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "verify evidence", Message: "the daemon tells of " + what}
}

func chainOf(c api.EvidenceChain) evidence.Chain {
	out := evidence.Chain{
		Tenant: c.Tenant, Folder: c.Folder, Old: c.Old,
		Report: journal.Report{
			Files: c.Files, Records: c.Records, First: journal.Place(c.First), Last: journal.Place(c.Last), Dropped: c.Dropped,
			Clearings: []journal.Clearing{}, Damage: []journal.Damage{}, Omitted: c.Omitted,
		},
		Checkpoints: c.Checkpoints, Unsigned: c.Unsigned, Keys: append([]string{}, c.Keys...), Torn: c.Torn,
	}
	if s := c.Signed; s != nil {
		out.Signed = &evidence.Place{Place: journal.Place{File: s.File, Seq: s.Seq, Hash: s.Hash}, Records: s.Records, Key: s.Key}
	}
	for _, d := range c.Damage {
		out.Damage = append(out.Damage, damageOf(d))
	}
	if b := c.Broken; b != nil {
		out.Broken = &evidence.Broken{Damage: damageOf(b.EvidenceFault), ID: b.ID, Type: evidence.Type(b.Type)}
	}
	return out
}

func damageOf(d api.EvidenceFault) journal.Damage {
	return journal.Damage{Kind: d.Kind, File: d.File, Line: d.Line, Offset: d.Offset, Seq: d.Seq, Detail: d.Detail}
}
