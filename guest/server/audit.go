//go:build linux

package server

import (
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// An audit is the limits of one command, and which of them it has reached.
// A nil one is that of a command without limits. Its methods are safe for
// concurrent use.
type audit struct {
	limits []wire.Limit // as the client asked for them
	bounds meterBounds  // what has to be looked at

	mu    sync.Mutex
	hit   *wire.LimitHit // of what was looked at
	files int64          // the most open files of one process that were seen
}

// newAudit takes the limits that the kernel does not enforce out of a request.
// It returns a nil audit if the request has no limit whose violation can be
// reported.
func newAudit(limits []wire.Limit) (rest []wire.Limit, a *audit) {
	a = &audit{limits: limits}
	reported := false
	for _, l := range limits {
		n := int64(min(l.Value, 1<<62))
		switch l.Kind {
		case wire.LimitTreeCPU:
			a.bounds.CPU = time.Duration(min(n, int64(maxCPU/time.Second))) * time.Second
		case wire.LimitTreeMemory:
			a.bounds.Memory = n
		case wire.LimitTreeProcesses:
			a.bounds.Processes = n
		case wire.LimitOpenFiles:
			a.bounds.Files = n
			rest = append(rest, l)
		default:
			rest = append(rest, l)
			reported = reported || l.Kind == wire.LimitFileSize
		}
	}
	if !reported && a.bounds == (meterBounds{}) {
		return rest, nil
	}
	return rest, a
}

// maxCPU is more processor time than any command will have.
const maxCPU = 100 * 365 * 24 * time.Hour

// look holds u against the bounds and reports whether the command is to be
// ended. It is, once.
func (a *audit) look(u meterUse) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.files = max(a.files, u.Files)
	if a.hit == nil {
		a.hit = exceeded(a.bounds, u)
		return a.hit != nil
	}
	return false
}

// reach takes a limit that was reached, and reports whether it is the first.
func (a *audit) reach(h *wire.LimitHit) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hit != nil {
		return false
	}
	a.hit = h
	return true
}

// exceeded returns the bound that u is beyond, or nil. Time that has come to
// its bound is used up.
func exceeded(b meterBounds, u meterUse) *wire.LimitHit {
	switch {
	case b.Processes > 0 && u.Processes > b.Processes:
		return hitOf(wire.LimitTreeProcesses, u.Processes, b.Processes)
	case b.Memory > 0 && u.Memory > b.Memory:
		return hitOf(wire.LimitTreeMemory, u.Memory, b.Memory)
	case b.CPU > 0 && u.CPU >= b.CPU:
		return hitOf(wire.LimitTreeCPU, int64(u.CPU/time.Second), int64(b.CPU/time.Second))
	}
	return nil
}

func hitOf(kind wire.LimitKind, current, bound int64) *wire.LimitHit {
	return &wire.LimitHit{Kind: kind, Current: uint64(max(current, bound)), Bound: uint64(bound)}
}

// ended returns e with the limit that was reached, by what was seen and by how
// the program has ended. From a shell come the statuses 128+n of a program
// that a signal has ended.
func (a *audit) ended(e wire.Exit) wire.Exit {
	if a == nil {
		return e
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	e.Limit = a.hit
	if failed := e.Code != 0 || e.Signal != 0; e.Limit != nil || !failed {
		return e
	}
	by := func(sig syscall.Signal) bool {
		return e.Signal == uint8(sig) || e.Signal == 0 && e.Code == 128+uint8(sig)
	}
	fileSize := slices.IndexFunc(a.limits, func(l wire.Limit) bool { return l.Kind == wire.LimitFileSize })
	b, used := a.bounds, time.Duration(min(e.User, uint64(maxCPU))+min(e.System, uint64(maxCPU)))
	switch {
	case b.CPU > 0 && (by(unix.SIGXCPU) || used >= b.CPU):
		e.Limit = hitOf(wire.LimitTreeCPU, int64(used/time.Second), int64(b.CPU/time.Second))
	case fileSize >= 0 && by(unix.SIGXFSZ):
		n := a.limits[fileSize].Value
		e.Limit = &wire.LimitHit{Kind: wire.LimitFileSize, Current: n, Bound: n}
	case b.Memory > 0 && e.MaxRSS > uint64(b.Memory): // it came and went between two looks
		e.Limit = hitOf(wire.LimitTreeMemory, int64(min(e.MaxRSS, 1<<62)), b.Memory)
	case b.Files > 0 && a.files >= b.Files:
		e.Limit = hitOf(wire.LimitOpenFiles, a.files, b.Files)
	}
	return e
}
