package local

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/within"
)

// Start implements [sandbox.Sandbox].
func (h *handle) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	s, err := h.use(ctx, mustStand)
	if err != nil {
		return nil, err
	}
	if c.Detach {
		s.wall.detached.Store(true)
	}
	p, err := s.Client.Start(ctx, within.Command(c, h.spec))
	if err != nil {
		s.release()
		return nil, err
	}
	out := &process{Process: p, seat: s}
	go out.follow()
	return out, nil
}

// Judge implements [sandbox.Judge] by the plan of the wall in which the next
// command would have run when this one was started last.
func (h *handle) Judge(op sandbox.Operation, path string) sandbox.Verdict {
	h.mu.Lock()
	w := h.seat.wall
	h.mu.Unlock()
	return w.plan.Judge(op, path)
}

// A process is a command that keeps its wall up while it runs, or a line of a
// shell, which does that for it.
type process struct {
	sandbox.Process
	seat   *seat
	reborn bool // it found a shell without the state of the one before
}

// Wait implements [sandbox.Process].
func (p *process) Wait() (sandbox.Exit, error) {
	exit, err := p.Process.Wait()
	if err == nil && p.reborn {
		exit.Restarted = true
	}
	return exit, err
}

// follow gives the seat back when the command has ended.
func (p *process) follow() {
	_, _ = p.Process.Wait()
	p.seat.release()
}

var (
	_ sandbox.Process = (*process)(nil)
	_ sandbox.Judge   = (*handle)(nil)
)
