package recorder

import (
	"context"
	"iter"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
)

// A Sink takes records of begins and ends. The recorder delivers them in order,
// one Write at a time, from a goroutine that no caller waits for unless the
// Sink is a [Keeper]. It delivers records that the Sink refuses with an error
// again, with the next record; it does not do so after a panic.
type Sink interface {
	Name() string // for the log and the counters
	// Write takes all of the records or none. A Write that goes on after ctx
	// has ended keeps only this Sink waiting.
	Write(ctx context.Context, rs ...evidence.Record) error
}

// A Keeper is a Sink that keeps records beyond the end of the program. An
// operation begins when each Keeper has its begin, and where evidence is
// required not without that. A Keeper gets records of one tenant at a time, and
// those of several tenants at the same time.
type Keeper interface {
	Sink
	// Query is that of [evidence.Store].
	Query(ctx context.Context, f evidence.Filter) iter.Seq2[evidence.Record, error]
}

// A File is a Keeper over a folder of records.
type File struct {
	name  string
	store *evidence.Store
}

var _ Keeper = (*File)(nil)

// NewFile returns a File. The caller keeps ownership of the store and closes it
// after the Recorder.
func NewFile(name string, store *evidence.Store) *File { return &File{name, store} }

// Name implements Sink.
func (f *File) Name() string { return f.name }

// Write implements Sink.
func (f *File) Write(ctx context.Context, rs ...evidence.Record) error {
	return f.store.Append(ctx, rs...)
}

// Query implements Keeper.
func (f *File) Query(ctx context.Context, filter evidence.Filter) iter.Seq2[evidence.Record, error] {
	return f.store.Query(ctx, filter)
}

// Head is that of [evidence.Store].
func (f *File) Head(ctx context.Context, tenant string) (*evidence.Head, error) {
	return f.store.Head(ctx, tenant)
}

// A Memory is a Sink that keeps the newest records. It contains a record as
// soon as the call that wrote it returns. It is safe for concurrent use.
type Memory struct {
	name string

	mu      sync.Mutex
	ring    []evidence.Record // len is its bound once it is full
	next    int               // where the next one goes when it is
	bound   int
	dropped int64
}

// DefaultMemory is how many records a Memory keeps by default.
const DefaultMemory = 1024

// NewMemory returns a Memory of at most so many records; 0 takes DefaultMemory.
func NewMemory(name string, records int) (*Memory, error) {
	if records < 0 {
		return nil, sandbox.Errorf(sandbox.CodeValidation, "open evidence in memory", "%d records are less than none", records)
	}
	if records == 0 {
		records = DefaultMemory
	}
	return &Memory{name: name, bound: records}, nil
}

// Name implements Sink.
func (m *Memory) Name() string { return m.name }

// Write implements Sink. It does not fail.
func (m *Memory) Write(_ context.Context, rs ...evidence.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range rs {
		if len(m.ring) < m.bound {
			m.ring = append(m.ring, r)
			continue
		}
		m.ring[m.next] = r
		m.next = (m.next + 1) % m.bound
		m.dropped++
	}
	return nil
}

// Records returns the records kept, the oldest first. The caller must not
// change the data.
func (m *Memory) Records() []evidence.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append(append(make([]evidence.Record, 0, len(m.ring)), m.ring[m.next:]...), m.ring[:m.next]...)
}

// Dropped returns the number of older records that are no longer kept.
func (m *Memory) Dropped() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dropped
}

// A Callback is a Sink that calls a function of the program.
type Callback struct {
	name string
	call func(context.Context, evidence.Record)
}

// NewCallback returns a Callback. The function is called in order and one call
// at a time, and must not change the data of a record. While a call runs, up to
// [Options].Queue records wait for it; further ones are dropped, and a record
// reports them as soon as the call returns, see [evidence.OmittedLost]. A
// record whose call panics counts as dropped.
func NewCallback(name string, call func(context.Context, evidence.Record)) *Callback {
	return &Callback{name, call}
}

// Name implements Sink.
func (c *Callback) Name() string { return c.name }

// Write implements Sink.
func (c *Callback) Write(ctx context.Context, rs ...evidence.Record) error {
	for _, r := range rs {
		c.call(ctx, r)
	}
	return nil
}
