package client

import (
	"context"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// An arrival is a descriptor that the guest hands over.
type arrival struct {
	came chan struct{} // closed when the descriptor is there, or never will be

	mu      sync.Mutex
	fd      int  // what came and was not taken up, or -1
	dropped bool // what comes is closed
}

func newArrival() arrival { return arrival{came: make(chan struct{}), fd: -1} }

// take is that of a taker, of one descriptor of the right kind.
func (a *arrival) take(m wire.Message, right bool) error {
	defer close(a.came)
	if !right || len(m.FDs) != 1 {
		m.Discard()
		return wire.Violation("descriptors that were not asked for")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dropped {
		m.Discard()
		return nil
	}
	a.fd = m.FDs[0]
	return nil
}

// none is that of a taker.
func (a *arrival) none() { close(a.came) }

// wait returns the descriptor, which is the caller's, or -1. The guest has sent it
// before its answer, so that it waits only for our own reader.
func (a *arrival) wait(ctx context.Context, op string) (fd int, err error) {
	timer := time.NewTimer(sideWithin)
	defer timer.Stop()
	select {
	case <-a.came:
	case <-timer.C:
	case <-ctx.Done():
		a.drop()
		return -1, contextError(ctx, op)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	fd = a.fd
	a.fd, a.dropped = -1, true
	return fd, nil
}

// drop closes the descriptor, whether it is here or is still to come.
func (a *arrival) drop() {
	a.mu.Lock()
	fd := a.fd
	a.fd, a.dropped = -1, true
	a.mu.Unlock()
	if fd >= 0 {
		wire.Message{FDs: []int{fd}}.Discard()
	}
}
