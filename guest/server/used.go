//go:build linux

package server

import (
	"sync"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// A spent is the processor time, in nanoseconds, of what a shim had reaped
// at some moment.
type spent struct{ user, system uint64 }

// until returns what was reaped from then to the report r.
func (s spent) until(r shimReport) (user, system uint64) {
	return r.User - min(r.User, s.user), r.System - min(r.System, s.system)
}

// exitOf translates what wait4 said of a program whose shim had reaped others
// before. It costs what everything cost that was reaped since.
func exitOf(r shimReport, before spent) wire.Exit {
	status := syscall.WaitStatus(r.Status)
	e := wire.Exit{MaxRSS: r.MaxRSS}
	e.User, e.System = before.until(r)
	if status.Signaled() {
		e.Signal = uint8(status.Signal())
	} else {
		e.Code = uint8(status.ExitStatus())
	}
	return e
}

// An asks is the questions of a client what a command has used so far. Only the
// latest one waits, because its answer answers those before it too. The zero
// value is none.
type asks struct {
	out sync.Mutex // held while an answer is sent

	mu      sync.Mutex
	number  uint32 // of the latest question
	waits   bool   // it has no answer yet
	sending bool   // an answer is on its way
	closed  bool   // the last answer of the command comes next

	// Of the goroutine that looks.
	tree   *meterTree
	user   time.Duration // as it was reported last, like those below
	system time.Duration
	maxRSS int64
}

// put notes a question and reports whether the auditor has to look because of
// it.
func (a *asks) put(number uint32) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.number, a.waits = number, !a.closed
	return a.waits
}

// take takes the question that waits, if an answer to it may be sent now.
func (a *asks) take() (number uint32, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.waits || a.sending || a.closed {
		return 0, false
	}
	a.waits, a.sending = false, true
	return a.number, true
}

// send sends the answer to a question that was taken, unless the command has
// come to its end, and reports whether the next one waits.
func (a *asks) send(answer func()) bool {
	a.out.Lock()
	defer a.out.Unlock()
	a.mu.Lock()
	closed := a.closed
	a.mu.Unlock()
	if !closed {
		answer() // may wait for the client; other commands need not
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sending = false
	return a.waits
}

// close returns when no answer can follow any more.
func (a *asks) close() {
	a.mu.Lock()
	a.closed, a.waits = true, false
	a.mu.Unlock()
	a.out.Lock()
	defer a.out.Unlock()
}

// note takes in what was seen. Neither time goes back: of a tree that changes
// while it is read a part can be missed once. Their sum is exact; of it the
// kernel's part is known in hundredths of a second.
func (a *asks) note(u meterUse) {
	more := max(0, u.CPU-a.user-a.system)
	system := min(max(0, u.System-a.system), more)
	a.system += system
	a.user += more - system
	a.maxRSS = max(a.maxRSS, u.Largest)
}

// use takes the question what the command has used.
func (m *command) use(f wire.Frame) error {
	q, err := wire.DecodeUse(f.Payload)
	if err != nil {
		return err
	}
	m.mu.Lock()
	runs := m.shim != nil
	m.mu.Unlock()
	if !runs {
		return wire.Violation("a command was asked what it has used before it ran")
	}
	if m.asks.put(q.Number) {
		m.conn.srv.auditor.ask(m)
	}
	return nil
}

// tellUse answers by the table. It is called by the auditor alone, and does not
// wait for the client.
func (m *command) tellUse(table *meterTable) {
	m.mu.Lock()
	proc, before := m.shim, m.spent
	m.mu.Unlock()
	a := &m.asks
	if a.tree == nil {
		a.tree = newTree(proc.pid, meterBounds{}, meterOptions{
			Exact: true, User: time.Duration(before.user), System: time.Duration(before.system),
		})
	}
	u := a.tree.Look(table)
	if m.isGone() { // its shim may be another's by now; its end says what it was
		return
	}
	a.note(u)
	number, ok := a.take()
	if !ok {
		return
	}
	used := wire.Used{Number: number, User: uint64(a.user), System: uint64(a.system), MaxRSS: uint64(a.maxRSS)}
	go func() {
		if a.send(func() { m.answer(wire.TypeUsed, used.Encode()) }) {
			m.conn.srv.auditor.ask(m)
		}
	}()
}
