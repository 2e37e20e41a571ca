package fake

import (
	"context"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A use is what the processes of a tree have used, as far as programs say so:
// nothing of the fake costs anything by itself. Guarded by Engine.mu.
type use struct {
	cpu    time.Duration
	memory int64
	files  int64 // the most that one process had open
	hit    *sandbox.LimitHit
}

// exceedLocked ends the tree because of a limit. The first one counts.
func (t *tree) exceedLocked(limit string, current, bound int64, unit string) {
	if t.use.hit == nil {
		t.use.hit = &sandbox.LimitHit{Limit: limit, Current: current, Bound: bound, Unit: unit}
	}
	t.killLocked()
}

// limitHit returns the limit that was reached by a command that has ended so.
func (t *tree) limitHit(exit sandbox.Exit) *sandbox.LimitHit {
	e := t.handle.e
	e.mu.Lock()
	defer e.mu.Unlock()
	bound := t.limits
	switch failed := exit.Code != 0; {
	case t.use.hit != nil || !failed:
		return t.use.hit
	case bound.FileSize > 0 && exit.Code == 128+25: // XFSZ, perhaps as a shell tells it
		return &sandbox.LimitHit{Limit: sandbox.LimitFileSize, Current: bound.FileSize, Bound: bound.FileSize, Unit: sandbox.UnitBytes}
	case bound.OpenFiles > 0 && t.use.files >= bound.OpenFiles:
		return &sandbox.LimitHit{Limit: sandbox.LimitOpenFiles, Current: t.use.files, Bound: bound.OpenFiles, Unit: sandbox.UnitFiles}
	}
	return nil
}

// renew forgets what the lines of a shell before this one have used. Memory is
// there yet.
func (t *tree) renew() {
	e := t.handle.e
	e.mu.Lock()
	defer e.mu.Unlock()
	t.use = use{memory: t.use.memory}
}

// Work has the process use processor time. It takes none of ours.
func (p *Proc) Work(d time.Duration) {
	e, t := p.engine(), p.tree
	e.mu.Lock()
	t.use.cpu += d
	if bound := t.limits.CPUSeconds; bound > 0 && t.use.cpu >= time.Duration(bound)*time.Second {
		t.exceedLocked(sandbox.LimitCPUSeconds, int64(t.use.cpu/time.Second), bound, sandbox.UnitSeconds)
	}
	e.mu.Unlock()
	p.checkpoint()
}

// Grow has the process take so many bytes of memory, until its command ends.
func (p *Proc) Grow(bytes int64) {
	e, t := p.engine(), p.tree
	e.mu.Lock()
	t.use.memory += bytes
	if bound := t.limits.Memory; bound > 0 && t.use.memory > bound {
		t.exceedLocked(sandbox.LimitMemory, t.use.memory, bound, sandbox.UnitBytes)
	}
	e.mu.Unlock()
	p.checkpoint()
}

// Hold has the process open so many files more, beside its three streams. As
// many as its limit allows are opened; beyond that the error is EMFILE.
func (p *Proc) Hold(files int64) error {
	p.checkpoint()
	const streams = 3
	e, t := p.engine(), p.tree
	e.mu.Lock()
	defer e.mu.Unlock()
	p.files += files
	if bound := t.limits.OpenFiles; bound > 0 && p.files+streams > bound {
		p.files, t.use.files = bound-streams, bound
		return syscall.EMFILE
	}
	t.use.files = max(t.use.files, p.files+streams)
	return nil
}

// countLocked ends the tree when it has too many processes.
func (t *tree) countLocked() {
	if bound := t.limits.Processes; bound > 0 && int64(len(t.procs)) > bound {
		t.exceedLocked(sandbox.LimitProcesses, int64(len(t.procs)), bound, sandbox.UnitProcesses)
	}
}

// Write writes to a file of at most the size that the limits allow, as write(2)
// does: what fits is written, and when nothing does the process gets XFSZ.
func (f *fileEnd) Write(b []byte) (int, error) {
	f.p.checkpoint()
	bound := f.p.Limits().FileSize
	at, regular := f.file.Next()
	if bound == 0 || !regular || at+int64(len(b)) <= bound {
		return f.file.Write(b)
	}
	n, err := f.file.Write(b[:max(0, bound-at)])
	if err == nil {
		f.p.Raise("XFSZ")
		err = syscall.EFBIG
	}
	return n, err
}

// madeUpUsage is what every line of the fake costs.
func madeUpUsage() sandbox.Rusage { return sandbox.Rusage{MaxRSS: 1 << 20} }

// used is what a command has used by its programs' own account.
func (c *command) used() sandbox.Rusage {
	e := c.handle.e
	e.mu.Lock()
	defer e.mu.Unlock()
	u := madeUpUsage()
	u.User = c.use.cpu
	return u
}

// Used implements [sandbox.Metered].
func (c *command) Used(context.Context) (sandbox.Rusage, error) { return c.used(), nil }
