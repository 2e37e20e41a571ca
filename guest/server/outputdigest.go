//go:build linux

package server

import (
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// An outputDigest reports to the client what the processes of one command, or line,
// have tried. Its methods are safe for concurrent use, and do nothing for nil.
type outputDigest struct {
	send func(wire.Attempt)

	mu       sync.Mutex
	reported map[string]bool // by path
	pending  int             // sightings that are followed
	over     bool            // nothing is reported any more
	idle     chan struct{}   // closed when none is followed any more, once over
}

// newOutputDigest returns the output digest of a stream; nil where attempts are not
// observed, and for the process of a shell, whose lines have streams.
func (c *conn) newOutputDigest(stream uint32) *outputDigest {
	if c.srv.callNotifier == nil || stream == 0 {
		return nil
	}
	return &outputDigest{reported: map[string]bool{}, idle: make(chan struct{}), send: func(m wire.Attempt) {
		// A failed write is the connection's end, which its reader sees too.
		_ = c.w.Write(wire.Frame{Type: wire.TypeAttempt, Stream: stream, Payload: m.Encode()})
	}}
}

// begin says that there is something to follow, and returns nil if it is of
// no interest any more. For each begin there is an end.
func (w *outputDigest) begin() *outputDigest {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || len(w.reported) == wire.MaxAttempts {
		return nil
	}
	w.pending++
	return w
}

func (w *outputDigest) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending--; w.pending == 0 && w.over {
		close(w.idle)
	}
}

// tell tells an attempt, if it is the first one at its path. It is called
// between begin and end.
func (w *outputDigest) tell(m wire.Attempt) {
	w.mu.Lock()
	fresh := !w.reported[m.Path] && len(w.reported) < wire.MaxAttempts
	if fresh {
		w.reported[m.Path] = true
	}
	w.mu.Unlock()
	if fresh {
		w.send(m)
	}
}

// close waits, for a bounded time, until everything that was seen so far has
// been reported. Later attempts are not reported.
func (w *outputDigest) close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	busy := w.pending > 0 && !w.over
	w.over = true
	w.mu.Unlock()
	if !busy {
		return
	}
	limit := time.NewTimer(settleWithin)
	defer limit.Stop()
	select {
	case <-w.idle:
	case <-limit.C:
	}
}

// testify reports from now on to w what the processes of m try, and asks f
// about the processes that they make, as long as the shim is that of m.
func (m *command) testify(w *outputDigest, f *forks) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pid != 0 {
		m.shim.outputDigest.Store(w)
		f.below(m.shim.pid)
		m.shim.forks.Store(f)
	}
}

// unasked has each process of m make others as it likes, as long as the shim
// is that of m.
func (m *command) unasked() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pid != 0 {
		m.shim.forks.Store(nil)
	}
}
