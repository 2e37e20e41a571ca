package violation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/policy"
)

// A Filter says which records are meant. Its zero value means all of the
// tenant without a name: whose records these are is never left open by
// accident.
type Filter struct {
	Tenant     string // exactly this one
	AllTenants bool   // Tenant does not count

	Types       []Type          // any of these; none means all
	MinSeverity policy.Severity // 0 means all
	Agent       string          // empty means all, here and below
	Session     string
	Sandbox     string
	Since       time.Time // at this time or later; zero means no bound
	Until       time.Time // before this time; zero means no bound

	Limit int // of [Store.Query], the newest; 0 has no bound
}

// Match reports whether r is meant by f. Limit does not count.
func (f Filter) Match(r Record) bool {
	return (f.AllTenants || r.Tenant == journal.Name(f.Tenant)) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, r.Type)) &&
		r.Severity >= f.MinSeverity &&
		(f.Agent == "" || r.Agent == journal.Name(f.Agent)) &&
		(f.Session == "" || r.Session == journal.Name(f.Session)) &&
		(f.Sandbox == "" || r.Sandbox == journal.Name(f.Sandbox)) &&
		(f.Since.IsZero() || !r.Time.Before(f.Since)) &&
		(f.Until.IsZero() || r.Time.Before(f.Until))
}

// String returns the filter as text, for the note that Clear leaves in the
// journal.
func (f Filter) String() string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, fmt.Sprintf("%s %q", name, journal.Text(value, 48)))
		}
	}
	switch {
	case f.AllTenants:
		parts = append(parts, "all tenants")
	case f.Tenant == "":
		parts = append(parts, "the tenant without a name")
	default:
		parts = append(parts, fmt.Sprintf("tenant %q", journal.Text(f.Tenant, 64)))
	}
	for _, t := range f.Types {
		parts = append(parts, "type "+journal.Text(string(t), 24))
	}
	if f.MinSeverity > 0 {
		parts = append(parts, "severity "+f.MinSeverity.String())
	}
	add("agent", f.Agent)
	add("session", f.Session)
	add("sandbox", f.Sandbox)
	if !f.Since.IsZero() {
		parts = append(parts, "since "+f.Since.UTC().Format(time.RFC3339))
	}
	if !f.Until.IsZero() {
		parts = append(parts, "until "+f.Until.UTC().Format(time.RFC3339))
	}
	return strings.Join(parts, ", ")
}

// Query returns the records that the filter matches, the last one appended
// first; counted ones are placed where the count was written. It yields a
// damaged place of the journal as an error of type *[journal.Damage] and
// continues; any other error ends the iteration. Memory use does not grow with
// the journal.
func (s *Store) Query(ctx context.Context, f Filter) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if err := s.settle(ctx); err != nil {
			yield(Record{}, err)
			return
		}
		journal.Newest(ctx, s.journal, f.Limit, decode, f.Match)(yield)
	}
}

// decode reads a record of the journal.
func decode(raw journal.Record) (Record, error) {
	var r Record
	if err := json.Unmarshal(raw.Data, &r); err != nil {
		return Record{}, &journal.Damage{Kind: journal.DamageStranger, File: "journal", Detail: fmt.Sprintf("record %d is no violation: %v", raw.Seq, err)}
	}
	return r, nil
}

// Count returns how often what is meant has happened, by type. Damage does not
// end it and is not counted; limits do not count either.
func (s *Store) Count(ctx context.Context, f Filter) (map[Type]int64, error) {
	f.Limit = 0
	out := map[Type]int64{}
	for r, err := range s.Query(ctx, f) {
		var d *journal.Damage
		if err != nil && !errors.As(err, &d) {
			return nil, err
		}
		if err == nil {
			out[r.Type] += r.Count
		}
	}
	return out, nil
}

// Clear removes the records that the filter matches, regardless of Limit, and
// returns the number of records removed. The argument by names who requested
// it; the journal keeps it with the filter, the time and the number, see
// [journal.Journal.Clear]. Lines that are not records of this package stay.
func (s *Store) Clear(ctx context.Context, f Filter, by string) (int64, error) {
	if err := s.settle(ctx); err != nil {
		return 0, err
	}
	n, err := s.journal.Clear(ctx, journal.Text(by, 256), journal.Text(f.String(), 512), func(raw journal.Record) bool {
		r, err := decode(raw)
		return err == nil && f.Match(r)
	})
	s.forget()
	return n, err
}

// Verify says whether the records are as they were written.
func (s *Store) Verify(ctx context.Context) (journal.Report, error) { return s.journal.Verify(ctx) }

// ParseType returns the type of that name.
func ParseType(name string) (Type, error) {
	if t := Type(name); t.Known() {
		return t, nil
	}
	return "", sandbox.Errorf(sandbox.CodeValidation, "read type", "%q is not a type of violation", name)
}
