package wire

import (
	"io"
	"sync"
	"time"
)

// Writes are the writes to the outputs of one command. The zero value is ready.
// Its methods are safe for concurrent use.
type Writes struct {
	mu      sync.Mutex
	under   int           // writes that are under way
	stopped bool          // none begins any more
	none    chan struct{} // closed when none is under way; nil until Stop waits for it
}

// Write writes b to w. After Stop it writes nothing and returns
// [io.ErrClosedPipe].
func (w *Writes) Write(to io.Writer, b []byte) error {
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return io.ErrClosedPipe
	}
	w.under++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.under--; w.under == 0 && w.none != nil {
			close(w.none)
		}
	}()
	_, err := to.Write(b)
	return err
}

// Stop lets no write begin, and returns when none is under way, at most after
// the time within. Whoever gave up waiting for a command reads the buffers of
// its outputs afterwards: without Stop a late write would change them meanwhile.
// A writer that blocks for longer than within is still in its call when Stop
// returns, because a call of Write cannot be interrupted.
func (w *Writes) Stop(within time.Duration) {
	w.mu.Lock()
	w.stopped = true
	if w.under > 0 && w.none == nil {
		w.none = make(chan struct{})
	}
	none := w.none
	w.mu.Unlock()
	if none == nil {
		return
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-none:
	case <-timer.C:
	}
}
