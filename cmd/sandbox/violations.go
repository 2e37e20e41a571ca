package main

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/violation/store"
)

// Violations implements cli.Backend. Neither settings nor an engine are
// needed.
func (backend) Violations(o cli.Options) (cli.ViolationStore, func(), error) {
	state, err := openState(o.StateDir)
	if err != nil {
		return nil, nil, err
	}
	s, err := store.Open(state.Violations(), store.Options{})
	if err != nil {
		return nil, nil, err
	}
	return s, func() {
		if err := s.Close(); err != nil {
			o.Log.WithError(err).Warn("violations that were counted are not recorded")
		}
	}, nil
}

// A recorder opens the records of violations when the first one is kept, so
// that a command which does nothing wrong does not wait for that.
type recorder struct {
	open func() (*store.Store, error) // the same answer every time
	used atomic.Bool
}

var _ store.Recorder = (*recorder)(nil)

func newRecorder(dir string) *recorder {
	return &recorder{open: sync.OnceValues(func() (*store.Store, error) { return store.Open(dir, store.Options{}) })}
}

// Append implements [store.Recorder].
func (r *recorder) Append(ctx context.Context, rs ...store.Record) error {
	r.used.Store(true)
	s, err := r.open()
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
		return nil // told when it was used
	}
	return s.Close()
}
