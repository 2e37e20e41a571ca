// Package evidence records decisions of the egress proxy, and operations with
// their begin and their end.
//
// Each tenant has a chain of records of its own: a journal, chained by hashes
// and bounded in size, for all processes that share a state folder; see package
// journal for what it protects against. A key of the state folder signs the
// chain at checkpoints: the first record of every file is one, and another
// follows after [Options].CheckpointEvery records. So a process that can write
// to the folder but does not have the key cannot change signed records
// undetected; only hashes protect the records after the last checkpoint. An
// attacker who also has the key, or who removes the end of a chain together
// with the journal's head, is detected only by comparing with a copy of the
// public key and of the last signed place that is kept in another place.
//
// Nothing is lost without a trace: when records of one sandbox arrive faster
// than they are kept one by one, a record says at once that further ones are
// only counted, and a later one says how many those were.
//
// A tenant's name is never part of a path. Records directly in the folder are
// older than chains: they are found and verified as they are, and nothing is
// added to them.
//
// Records contain texts that come from people and from programs inside
// sandboxes. Escape their texts before displaying them. The writer of a record
// leaves out what must not be kept: values of secrets, environments, contents.
package evidence

import (
	"context"
	"crypto/ed25519"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// The defaults of Options.
const (
	DefaultMaxFile  = 8 << 20   // bytes
	DefaultMaxTotal = 256 << 20 // bytes
	DefaultBurst    = 1024      // records
	DefaultRate     = 20        // records a second

	DefaultCheckpointEvery = 256     // records
	maxCheckpointEvery     = 1 << 20 // records
)

// A Sync says when records are brought onto the disk, so that they survive a
// loss of power. That a process ends, however it does, never costs a record
// that was taken.
type Sync string

// The ways to sync.
const (
	SyncOff        Sync = "off"        // never
	SyncCheckpoint Sync = "checkpoint" // with every checkpoint, and all before it
	SyncAlways     Sync = "always"     // with every append
)

// Options are the optional settings of a Store.
type Options struct {
	MaxFile  int64 // of one chain, see [journal.Options]; 0 takes DefaultMaxFile
	MaxTotal int64 // of one chain, see [journal.Options]; 0 takes DefaultMaxTotal or twice MaxFile
	Sync     Sync  // empty takes SyncCheckpoint

	// KeyFile contains the secret signing key, which is created before the
	// first record is written. If empty, it is the folder's path with ".key"
	// appended, which is its place in a state folder.
	KeyFile string
	// CheckpointEvery is after how many records of a chain a checkpoint comes;
	// where several processes write, the least of theirs counts. 0 takes
	// DefaultCheckpointEvery.
	CheckpointEvery int
	// TrustedKeys, if there are any, are the only ones whose signatures Verify
	// believes; else it believes the key in KeyFile.
	TrustedKeys []ed25519.PublicKey

	// Burst and Rate bound what is kept one by one of one sandbox and one
	// [Share]: so many records at once, and so many a second for as long as
	// they come. The rate keeps a sandbox from pushing its tenant's records
	// out of the files within minutes. 0 takes the defaults.
	Burst int
	Rate  int
	Now   func() time.Time // default time.Now

	// Written is called with the records of one tenant that this Store has written,
	// in the order of their writing as far as one goroutine appends. It must return
	// at once and not change them. Nil is none.
	Written func([]Record)
}

// complete fills in the defaults or says what cannot be.
func (o *Options) complete() error {
	const op = "open evidence"
	if o.MaxFile == 0 {
		o.MaxFile = DefaultMaxFile
	}
	if o.MaxTotal == 0 {
		o.MaxTotal = max(DefaultMaxTotal, 2*o.MaxFile)
	}
	if o.Sync == "" {
		o.Sync = SyncCheckpoint
	}
	if o.CheckpointEvery == 0 {
		o.CheckpointEvery = DefaultCheckpointEvery
	}
	if o.Burst == 0 {
		o.Burst = DefaultBurst
	}
	if o.Rate == 0 {
		o.Rate = DefaultRate
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	switch {
	case o.Burst < 0 || o.Rate < 0:
		return sandbox.Errorf(sandbox.CodeValidation, op, "%d records at once and %d in a second: less than none cannot be kept", o.Burst, o.Rate)
	case o.CheckpointEvery < 1 || o.CheckpointEvery > maxCheckpointEvery:
		return sandbox.Errorf(sandbox.CodeValidation, op, "a checkpoint comes after 1 to %d records, not after %d", maxCheckpointEvery, o.CheckpointEvery)
	case o.Sync != SyncOff && o.Sync != SyncCheckpoint && o.Sync != SyncAlways:
		return sandbox.Errorf(sandbox.CodeValidation, op, "%q is no way to sync: there are %s, %s and %s", o.Sync, SyncOff, SyncCheckpoint, SyncAlways)
	}
	for _, k := range o.TrustedKeys {
		if len(k) != ed25519.PublicKeySize {
			return sandbox.Errorf(sandbox.CodeValidation, op, "a trusted key has %d bytes instead of %d", len(k), ed25519.PublicKeySize)
		}
	}
	return nil
}

// A Store is a folder of chains. It is safe for concurrent use by many
// goroutines and processes. Its errors are of type *[sandbox.Error], or several
// of these joined.
type Store struct {
	o       Options
	dir     string
	keyFile string
	held    *journal.Held

	keyMu sync.Mutex
	key   ed25519.PrivateKey // nil until something was written

	chainsMu sync.Mutex
	chains   map[string]*chain // by tenant; those that were written to lately
	most     int               // of these

	mu     sync.Mutex
	ledger ledger
}

// Open returns the records in the folder dir, which is made with mode 0700
// when it is missing.
func Open(dir string, o Options) (*Store, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	path, err := statedir.MakePrivate(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{o: o, dir: path, keyFile: o.KeyFile, held: journal.NewHeld(), chains: map[string]*chain{}, most: maxUsed, ledger: ledger{burst: o.Burst, rate: o.Rate}}
	if s.keyFile == "" {
		s.keyFile = filepath.Clean(path) + ".key"
	}
	_, err = s.journal(".") // so that bounds that cannot be are refused now
	return s, err
}

// journal returns the journal in a folder below that of the evidence.
func (s *Store) journal(folder string) (*journal.Journal, error) {
	return journal.Open(filepath.Join(s.dir, folder), journal.Options{
		MaxFile: s.o.MaxFile, MaxTotal: s.o.MaxTotal, Sync: s.o.Sync == SyncAlways, SyncFull: s.o.Sync == SyncCheckpoint, Held: s.held, Now: s.o.Now,
	})
}

// Append stores records, those of one tenant in this order. It refuses an
// invalid record, together with the whole call. When records of a sandbox
// arrive too fast they are counted instead; see [Share] and [Record].Omitted.
// After any other error none of the records of at least one tenant is kept,
// unless these are more than 256 or larger than a MiB or an eighth of a file:
// then the first of them may be. Records that were counted before stay counted.
func (s *Store) Append(ctx context.Context, rs ...Record) error {
	now := s.o.Now()
	in := make([]Record, len(rs))
	for i, r := range rs {
		var err error
		if in[i], err = r.bounded(now); err != nil {
			return err
		}
	}
	s.mu.Lock()
	out, counts := s.ledger.take(now, in)
	s.mu.Unlock()
	return s.write(ctx, out, counts)
}

// Flush writes the counts that are kept back.
func (s *Store) Flush(ctx context.Context) error {
	s.mu.Lock()
	out := s.ledger.settle(s.o.Now())
	s.mu.Unlock()
	return s.write(ctx, out, out)
}

// closeWithin bounds Close: a process that holds the files may stall for
// seconds on a busy machine.
const closeWithin = 15 * time.Second

// Head returns the last line of the chain of a tenant, which it begins where there is
// none.
func (s *Store) Head(ctx context.Context, tenant string) (*Head, error) {
	c, err := s.chain(ctx, journal.Name(tenant))
	if err != nil {
		return nil, err
	}
	h := &Head{}
	err = c.journal.Append(ctx, journal.Made(func(t journal.Tail) (any, bool, error) {
		*h = Head{Seq: t.Seq, Hash: t.Hash}
		return nil, false, nil
	}))
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Close writes the counts that are kept back, and a checkpoint in each chain
// to which this Store has written since its last one, within 15 seconds, and
// the files that it keeps open for a second after an append. The Store can still
// be used.
func (s *Store) Close() error {
	defer s.held.Close()
	ctx, done := context.WithTimeout(context.Background(), closeWithin)
	defer done()
	err := s.Flush(ctx)
	for _, c := range s.used() {
		if c.open.Load() {
			err = errors.Join(err, c.finish(ctx))
		}
	}
	return err
}

// Checkpoint signs every chain of the folder that has records without a
// signature, also what processes that were killed have left.
func (s *Store) Checkpoint(ctx context.Context) error {
	err := s.Flush(ctx)
	have, listErr := s.list()
	err = errors.Join(err, listErr)
	for _, folder := range have.chains {
		tenant, ok, nameErr := s.readName(folder)
		if !ok { // without a name nothing was written yet, or Verify reports it
			err = errors.Join(err, nameErr)
			continue
		}
		c, openErr := s.chain(ctx, tenant)
		if openErr == nil {
			openErr = c.finish(ctx)
		}
		err = errors.Join(err, openErr)
	}
	return err
}

// write appends records to the chains of their tenants. One that fails does
// not keep those of others from being written; of the counts among the
// records, those that were not are counted again.
func (s *Store) write(ctx context.Context, rs, counts []Record) error {
	var tenants []string
	of, plain := map[string][]journal.Encoded{}, map[string][]Record{}
	for _, r := range rs {
		data, err := journal.Encode(r)
		if err != nil {
			return sandbox.Errorf(sandbox.CodeInternal, "record evidence", "cannot encode a record: %w", err)
		}
		if of[r.Tenant] == nil {
			tenants = append(tenants, r.Tenant)
		}
		of[r.Tenant] = append(of[r.Tenant], data)
		if s.o.Written != nil {
			plain[r.Tenant] = append(plain[r.Tenant], r)
		}
	}
	var errs []error
	for _, tenant := range tenants {
		c, err := s.chain(ctx, tenant)
		if err == nil {
			err = c.append(ctx, of[tenant])
		}
		if err != nil {
			errs = append(errs, err)
			s.giveBack(tenant, counts)
		} else if s.o.Written != nil {
			s.o.Written(plain[tenant])
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

func (s *Store) giveBack(tenant string, counts []Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range counts {
		if r.Tenant == tenant {
			s.ledger.giveBack([]Record{r})
		}
	}
}
