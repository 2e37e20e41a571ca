package client

import (
	"slices"
	"sync"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// An Attempt is what the guest has seen of a process that was about to change
// something which the sandbox does not let it change. It is the guest's word
// and the process's own doing: evidence, and to be checked against the rules.
type Attempt struct {
	Operation sandbox.Operation
	Path      string // absolute, as it is called inside, without links as far as it exists
	Program   string // as the process calls itself, any bytes
	PID       int    // of the thread, inside
	Time      time.Time
}

// An Observed is a process whose attempts are reported. The processes that
// Start returns and those of lines implement it; the guest reports attempts if
// it has the feature wire.FeatureObserve.
type Observed interface {
	// Attempts returns what was tried so far, in that order: at most
	// wire.MaxAttempts, each path once. Once Wait has returned that is all.
	Attempts() []Attempt
}

var _ Observed = (*process)(nil)

// attempts are those of one process. The zero value is none.
type attempts struct {
	mu   sync.Mutex
	list []Attempt
}

// Attempts implements Observed.
func (p *process) Attempts() []Attempt {
	p.attempts.mu.Lock()
	defer p.attempts.mu.Unlock()
	return slices.Clone(p.attempts.list)
}

// add adds an attempt that the guest has reported. Attempts beyond the bound
// are ignored.
func (a *attempts) add(m wire.Attempt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := func(have Attempt) bool { return have.Path == m.Path }
	if len(a.list) == wire.MaxAttempts || slices.ContainsFunc(a.list, known) {
		return
	}
	a.list = append(a.list, Attempt{
		Operation: sandbox.OpWrite, Path: m.Path, Program: m.Program, PID: int(m.PID), Time: time.Now(),
	})
}

// hint takes a hint for a stream, which may be nil. Unknown hints are skipped.
func hint(s stream, f wire.Frame) error {
	p, ok := s.(*process)
	if !ok || f.Type != wire.TypeAttempt {
		return nil
	}
	m, err := wire.DecodeAttempt(f.Payload)
	if err != nil {
		return err
	}
	p.attempts.add(m)
	return nil
}
