package local

import (
	"context"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/within"
)

// Start implements [sandbox.Sandbox].
func (h *handle) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	s, err := h.use(ctx)
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

// A process is a command that keeps its wall up while it runs.
type process struct {
	sandbox.Process
	seat *seat
	once sync.Once
}

// follow gives the seat back when the command has ended.
func (p *process) follow() {
	_, _ = p.Process.Wait()
	p.once.Do(p.seat.release)
}

// OpenShell implements [sandbox.Sandbox].
func (h *handle) OpenShell(ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
	s, err := h.use(ctx)
	if err != nil {
		return nil, err
	}
	o, limits := within.Shell(o, h.spec)
	sh, err := s.Client.OpenShell(ctx, o, limits)
	if err != nil {
		s.release()
		return nil, err
	}
	return &shell{Shell: sh, seat: s}, nil
}

// A shell is one that keeps its wall up until it is closed.
type shell struct {
	sandbox.Shell
	seat *seat
	once sync.Once
}

// Close implements [sandbox.Shell].
func (s *shell) Close() error {
	defer s.once.Do(s.seat.release)
	return s.Shell.Close()
}

var (
	_ sandbox.Process = (*process)(nil)
	_ sandbox.Shell   = (*shell)(nil)
)
