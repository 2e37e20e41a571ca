package evidence

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/bulkhead-dev/sandbox/audit/journal"
)

// A Filter says which records are meant. Its zero value means all of the
// tenant without a name: whose records these are is never left open by
// accident.
type Filter struct {
	Tenant     string // exactly this one
	AllTenants bool   // Tenant does not count

	Agent   string // empty means all, here and below
	Session string
	Sandbox string
	Command string
	Type    Type      // empty means all but the checkpoints, which are about records
	Since   time.Time // at this time or later; zero means no bound
	Until   time.Time // before this time; zero means no bound

	Limit int // the newest; 0 has no bound
}

// Match reports whether r is meant by f. Limit does not count. A record that
// stands for others is meant when one of them may be: it names no command, and
// no agent and session when they had several.
func (f Filter) Match(r Record) bool {
	sum := r.Omitted > 0
	return (f.AllTenants || r.Tenant == journal.Name(f.Tenant)) &&
		matches(f.Agent, r.Agent, sum) && matches(f.Session, r.Session, sum) && matches(f.Command, r.Command, sum) &&
		matches(f.Sandbox, r.Sandbox, false) && matches(string(f.Type), string(r.Type), false) &&
		(f.Type != "" || r.Type != TypeCheckpoint) &&
		(f.Since.IsZero() || !r.Time.Before(f.Since)) &&
		(f.Until.IsZero() || r.Time.Before(f.Until))
}

// matches reports whether a wanted name is the one that a record has. One that
// stands for others may leave it out.
func matches(want, have string, sum bool) bool {
	return want == "" || have == journal.Name(want) || sum && have == ""
}

// Query returns the records that the filter matches, the last one appended
// first. It merges several chains by the times at which records were appended.
// It yields a damaged place as an error of type *[journal.Damage] and
// continues; any other error ends the iteration. Memory use does not grow with
// the chains.
func (s *Store) Query(ctx context.Context, f Filter) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		err := s.Flush(ctx)
		var from []*journal.Journal
		if err == nil {
			from, err = s.sources(f)
		}
		switch {
		case err != nil:
			yield(Record{}, err)
		case len(from) == 1:
			journal.Newest(ctx, from[0], f.Limit, decode, f.Match)(yield)
		default:
			merge(ctx, from, f)(yield)
		}
	}
}

// sources returns the journals in which something may be meant.
func (s *Store) sources(f Filter) ([]*journal.Journal, error) {
	have, err := s.list()
	if err != nil {
		return nil, err
	}
	var from []*journal.Journal
	for _, folder := range have.chains {
		if !f.AllTenants && folder != folderOf(journal.Name(f.Tenant)) {
			continue
		}
		j, err := s.journal(folder)
		if err != nil {
			return nil, err
		}
		from = append(from, j)
	}
	if have.old {
		j, err := s.journal(".")
		if err != nil {
			return nil, err
		}
		from = append(from, j)
	}
	return from, nil
}

// decode reads a record of the journal.
func decode(raw journal.Record) (Record, error) {
	var r Record
	if err := json.Unmarshal(raw.Data, &r); err != nil {
		return Record{}, &journal.Damage{Kind: journal.DamageStranger, File: "journal", Detail: fmt.Sprintf("record %d is no evidence: %v", raw.Seq, err)}
	}
	return r, nil
}

// omission returns why the records that r stands for were not kept.
func (r Record) omission() (Omission, bool) {
	var o Omission
	err := json.Unmarshal(r.Data, &o)
	return o, err == nil && r.Omitted > 0
}
