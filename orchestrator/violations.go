package orchestrator

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox/audit/violation"
)

// A recorder opens the records of violations when the first one is kept, so
// that a command which does nothing wrong does not wait for that.
type recorder struct {
	open func() (*violation.Store, error) // the same answer every time
	used atomic.Bool
}

var _ violation.Recorder = (*recorder)(nil)

func newRecorder(dir string, written func([]violation.Record)) *recorder {
	return &recorder{open: sync.OnceValues(func() (*violation.Store, error) { return violation.Open(dir, violation.Options{Written: written}) })}
}

func (r *recorder) store() (*violation.Store, error) {
	r.used.Store(true)
	return r.open()
}

// Append implements [store.Recorder].
func (r *recorder) Append(ctx context.Context, rs ...violation.Record) error {
	s, err := r.store()
	if err != nil {
		return err
	}
	return s.Append(ctx, rs...)
}

// Close writes what was counted and not written yet.
func (r *recorder) Close() error {
	if !r.used.Load() {
		return nil
	}
	s, err := r.open()
	if err != nil {
		return nil // the first use reported the error
	}
	return s.Close()
}
