package fake

import (
	"context"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A tree is the processes that end together: those of a command, or those of
// a shell from its start to its end.
type tree struct {
	handle *handle
	limits sandbox.Limits
	detach bool
	gone   chan struct{} // closed when no process is left

	// Guarded by Engine.mu.
	procs  map[*Proc]bool
	tty    *sandbox.TTY
	killed bool
	lost   bool // the sandbox ended under it
	seen   []sandbox.Violation
	use    use
}

func (h *handle) newTree(limits sandbox.Limits) *tree {
	return &tree{
		handle: h, limits: mergeLimits(h.spec.Limits, limits),
		gone: make(chan struct{}), procs: make(map[*Proc]bool),
	}
}

// enter registers the tree with its boot and makes its first process, which
// does not run yet.
func (t *tree) enter(op string, first *Proc) error {
	h := t.handle
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	switch {
	case h.ended():
		return fell(op, h.spec.Name)
	case h.shut():
		return closedHandle(op, h.spec.Name)
	case h.boot.paused:
		return failure(sandbox.CodeUnavailable, op, h.spec.Name, "the sandbox is paused")
	}
	h.boot.trees[t] = true
	t.addLocked(first)
	return nil
}

// addLocked enters a process in the tables. A process born into a tree that is
// being killed is born dead, so that forking cannot outrun the killer.
func (t *tree) addLocked(p *Proc) {
	e := t.handle.e
	e.nextPID++
	p.pid = e.nextPID
	t.procs[p] = true
	t.handle.boot.procs[p] = true
	t.countLocked()
	if t.killed {
		p.endLocked("KILL")
	}
}

// removeLocked takes a process that has ended from the tables. When none is
// left no other can come: only processes fork.
func (t *tree) removeLocked(p *Proc) {
	delete(t.procs, p)
	delete(t.handle.boot.procs, p)
	if len(t.procs) == 0 {
		delete(t.handle.boot.trees, t)
		close(t.gone)
	}
}

// killLocked ends every process, also those still to be born.
func (t *tree) killLocked() {
	t.killed = true
	for p := range t.procs {
		p.endLocked("KILL")
	}
}

func (t *tree) signal(name string) {
	e := t.handle.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if name == "KILL" {
		t.killLocked()
		return
	}
	for p := range t.procs {
		p.deliverLocked(name)
	}
}

// kill ends every process and returns when they are gone.
func (t *tree) kill() {
	t.signal("KILL")
	<-t.gone
}

// watch kills the tree when ctx ends, after TERM and grace, unless over is
// closed first.
func (t *tree) watch(ctx context.Context, grace time.Duration, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	select {
	case <-over: // at the same moment
		return
	default:
	}
	if grace > 0 {
		t.signal("TERM")
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-over:
			return
		case <-timer.C:
		}
	}
	t.signal("KILL")
}

// fellDown reports whether the sandbox ended under the tree.
func (t *tree) fellDown() bool {
	t.handle.e.mu.Lock()
	defer t.handle.e.mu.Unlock()
	return t.lost
}
