// This file stores attempts that were stopped, by policies before a command ran
// and by the sandbox while it ran, and answers queries about them.
//
// The records are in a journal, bounded in size, for all processes that share a
// state folder; see package journal for what it protects against. Floods are
// bounded before they reach the journal: equal records of a session within a
// minute become one with a count, and beyond [MaxAtOnce] different ones of a
// command, or [MaxInWindow] of a session in a minute, only their number is
// kept, by type. The counts of a process that is killed may be lost; the first
// record of each kind is not.
//
// A record contains the program and at most 256 bytes of the offending part of
// a command, without values of assignments, and never an environment. Its texts
// come from inside sandboxes: escape them before displaying them.

package violation

import (
	"context"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/journal"
)

// Options are the optional settings of a Store.
type Options struct {
	MaxFile  int64            // see [journal.Options]
	MaxTotal int64            // see [journal.Options]
	Sync     bool             // see [journal.Options]
	Now      func() time.Time // default time.Now

	// Written is called with the records that this Store has written, in the order
	// of their writing as far as one goroutine appends. It must return at once and
	// not change them. Nil is none.
	Written func([]Record)
}

// A Recorder stores violations. It is safe for concurrent use, and fast enough
// to be called after each command.
type Recorder interface {
	// Append keeps records, or returns an error of type *[sandbox.Error].
	Append(ctx context.Context, rs ...Record) error
}

// A Store is a folder of records. It is safe for concurrent use by many
// goroutines and processes. Its errors are of type *[sandbox.Error].
type Store struct {
	journal *journal.Journal
	now     func() time.Time
	written func([]Record)

	mu     sync.Mutex
	ledger ledger
}

var _ Recorder = (*Store)(nil)

// Open returns the records in the folder dir, which is made when it is
// missing.
func Open(dir string, o Options) (*Store, error) {
	j, err := journal.Open(dir, journal.Options{MaxFile: o.MaxFile, MaxTotal: o.MaxTotal, Sync: o.Sync, Now: o.Now})
	if err != nil {
		return nil, err
	}
	s := &Store{journal: j, now: o.Now, written: o.Written}
	if s.now == nil {
		s.now = time.Now
	}
	return s, nil
}

// Append stores records; those of one call should belong to one command. It
// shortens the texts. It refuses a record of an unknown type, together with the
// whole call. A record that is equal to one of the same session in the last
// minute is only counted; its count is written after the minute has passed, by
// the next append of another record, a query of this process, or Close.
func (s *Store) Append(ctx context.Context, rs ...Record) error {
	now := s.now()
	in := make([]Record, len(rs))
	for i, r := range rs {
		if !r.Type.Known() {
			return sandbox.Errorf(sandbox.CodeValidation, "record violation", "there is no type of violation called %q", r.Type)
		}
		in[i] = r.bounded(now)
	}
	in = collapse(in)
	s.mu.Lock()
	out := s.ledger.take(now, in)
	s.mu.Unlock()
	return s.writeOrKeep(ctx, out)
}

// closeWithin bounds Close: a process that holds the files may stall for
// seconds on a busy machine.
const closeWithin = 15 * time.Second

// Close writes the counts that were kept back. The Store can still be used.
func (s *Store) Close() error {
	ctx, done := context.WithTimeout(context.Background(), closeWithin)
	defer done()
	return s.settle(ctx)
}

// settle writes what was only counted.
func (s *Store) settle(ctx context.Context) error {
	s.mu.Lock()
	out := s.ledger.pending()
	s.mu.Unlock()
	return s.writeOrKeep(ctx, out)
}

// writeOrKeep writes records. When that fails it keeps them as pending, so that
// a temporarily full disk loses none of them.
func (s *Store) writeOrKeep(ctx context.Context, rs []Record) error {
	err := s.write(ctx, rs)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ledger.keep(rs)
	}
	return err
}

// forget begins new windows, so that what was cleared is written again.
func (s *Store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = ledger{}
}

// write appends records to the journal.
func (s *Store) write(ctx context.Context, rs []Record) error {
	encoded := make([]journal.Encoded, len(rs))
	for i, r := range rs {
		data, err := r.encode()
		if err == nil {
			encoded[i], err = journal.Encode(data)
		}
		if err != nil {
			return sandbox.Errorf(sandbox.CodeInternal, "record violation", "cannot encode a record: %w", err)
		}
	}
	if err := s.journal.AppendMany(ctx, encoded); err != nil {
		return err
	}
	if s.written != nil && len(rs) > 0 {
		s.written(rs)
	}
	return nil
}
