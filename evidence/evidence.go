// Package evidence keeps what was done: every decision of the way out today,
// other operations as they come to be recorded.
//
// The records lie in a journal, chained by their hashes and bounded in size,
// for all processes that share a state folder; see package journal for what
// that withstands and what it does not. Nothing is lost in silence: where
// records of one sandbox come faster than is kept one by one, a record tells
// at once that others are only counted, and one behind it how many those were.
//
// Records hold what people and programs inside have named. Make their texts
// safe before showing them. Who writes a record leaves out what must not be
// kept: values of secrets, environments, contents.
package evidence

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/journal"
)

// The defaults of Options.
const (
	DefaultMaxFile  = 8 << 20   // bytes
	DefaultMaxTotal = 256 << 20 // bytes
	DefaultBurst    = 1024      // records
	DefaultRate     = 20        // records a second
)

// Options are the rare wishes of who opens a Store.
type Options struct {
	MaxFile  int64 // see [journal.Options]; 0 takes DefaultMaxFile
	MaxTotal int64 // see [journal.Options]; 0 takes DefaultMaxTotal or twice MaxFile
	Sync     bool  // see [journal.Options]
	// Burst and Rate bound what is kept one by one of one sandbox and one
	// [Share]: so many records at once, and so many a second for as long as
	// they come. The rate keeps a sandbox from pushing everybody's records out
	// of the files within minutes. 0 takes the defaults.
	Burst int
	Rate  int
	Now   func() time.Time // default time.Now
}

// A Store is a folder of records. It is safe for concurrent use by many
// goroutines and processes. Its errors are of type *[sandbox.Error].
type Store struct {
	journal *journal.Journal
	now     func() time.Time

	mu     sync.Mutex
	ledger ledger
}

// Open returns the records in the folder dir, which is made with mode 0700
// when it is missing.
func Open(dir string, o Options) (*Store, error) {
	if o.MaxFile == 0 {
		o.MaxFile = DefaultMaxFile
	}
	if o.MaxTotal == 0 {
		o.MaxTotal = max(DefaultMaxTotal, 2*o.MaxFile)
	}
	if o.Burst == 0 {
		o.Burst = DefaultBurst
	}
	if o.Rate == 0 {
		o.Rate = DefaultRate
	}
	if o.Burst < 0 || o.Rate < 0 {
		return nil, sandbox.Errorf(sandbox.CodeValidation, "open evidence", "%d records at once and %d in a second: less than none cannot be kept", o.Burst, o.Rate)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	j, err := journal.Open(dir, journal.Options{MaxFile: o.MaxFile, MaxTotal: o.MaxTotal, Sync: o.Sync, Now: o.Now})
	if err != nil {
		return nil, err
	}
	return &Store{journal: j, now: o.Now, ledger: ledger{burst: o.Burst, rate: o.Rate}}, nil
}

// Append keeps records, in this order. One that is not valid is refused, and
// all with it. Those of a sandbox that come too fast are counted instead; see
// [Share] and [Record].Omitted. After any other error none of the records is
// kept, unless together they are larger than a MiB or a quarter of a file: then
// the first may be. What was counted before stays counted.
func (s *Store) Append(ctx context.Context, rs ...Record) error {
	now := s.now()
	in := make([]Record, len(rs))
	for i, r := range rs {
		var err error
		if in[i], err = r.bounded(now); err != nil {
			return err
		}
	}
	s.mu.Lock()
	out, taken := s.ledger.take(now, in)
	s.mu.Unlock()
	err := s.write(ctx, out)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ledger.giveBack(taken)
	}
	return err
}

// Flush writes the counts that are kept back.
func (s *Store) Flush(ctx context.Context) error {
	s.mu.Lock()
	out := s.ledger.settle(s.now())
	s.mu.Unlock()
	if len(out) == 0 {
		return nil
	}
	err := s.write(ctx, out)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ledger.giveBack(out)
	}
	return err
}

// Close writes the counts that are kept back, within five seconds. The Store
// can still be used.
func (s *Store) Close() error {
	ctx, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	return s.Flush(ctx)
}

// write appends records to the journal.
func (s *Store) write(ctx context.Context, rs []Record) error {
	encoded := make([]json.RawMessage, len(rs))
	for i, r := range rs {
		var err error
		if encoded[i], err = json.Marshal(r); err != nil {
			return sandbox.Errorf(sandbox.CodeInternal, "record evidence", "cannot encode a record: %w", err)
		}
	}
	return s.journal.AppendMany(ctx, encoded)
}
