package local

import (
	"context"
	"net"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// Dial implements [sandbox.Dialer]: it connects to an address inside the
// instance, in its network and file system and not in the host's.
func (h *handle) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	s, err := h.use(ctx, mustStand, time.Time{})
	if err != nil {
		return nil, err
	}
	c, err := s.Client.Dial(ctx, network, addr)
	if err != nil {
		s.release()
		return nil, err
	}
	return &conn{Conn: c, seat: s.keep()}, nil
}

// Listen implements [sandbox.Listener]: programs inside the instance connect to
// what it returns.
func (h *handle) Listen(ctx context.Context, network, addr string) (net.Listener, error) {
	s, err := h.use(ctx, mustStand, time.Time{})
	if err != nil {
		return nil, err
	}
	l, err := s.Client.Listen(ctx, network, addr)
	if err != nil {
		s.release()
		return nil, err
	}
	return &listener{Listener: l, seat: s.keep()}, nil
}

// Usage implements [sandbox.Sandbox]. Memory is what the control group of
// the instance counts; where it has none, the sum over the processes, pages that
// several share counted for each; disk and network are not counted.
func (h *handle) Usage(ctx context.Context) (sandbox.Usage, error) {
	if err := h.ready(mustStand); err != nil {
		return sandbox.Usage{}, err
	}
	if err := ended(ctx, "usage"); err != nil {
		return sandbox.Usage{}, err
	}
	h.mu.Lock()
	w := h.seat.instance.noted
	h.mu.Unlock()
	return usageOf([]launch.Record{w}, h.spec.Resources.PIDs)
}

// usageOf sums up instances.
func usageOf(instances []launch.Record, pids int64) (sandbox.Usage, error) {
	u := sandbox.Usage{PIDsLimit: pids}
	for _, w := range instances {
		c, err := launch.CostOf(w.Process.PID)
		if err != nil {
			return u, sandbox.Errorf(sandbox.CodeUnavailable, "usage", "the sandbox has ended: %w", err)
		}
		u.CPU += c.CPU
		u.Memory += c.Memory
		u.PIDs += c.Threads
		if g, ok := w.Use(); ok {
			u.CPU += g.CPU - c.CPU
			u.Memory += g.Memory - c.Memory
			u.MemoryLimit += g.MemoryLimit
		}
		u.DiskRead += c.DiskRead
		u.DiskWritten += c.DiskWritten
	}
	return u, nil
}

var (
	_ sandbox.Dialer   = (*handle)(nil)
	_ sandbox.Listener = (*handle)(nil)
)

// Ports implements [sandbox.PortLister].
func (h *handle) Ports(ctx context.Context) ([]sandbox.ListeningPort, error) {
	s, err := h.use(ctx, mustStand, time.Time{})
	if err != nil {
		return nil, err
	}
	defer s.release()
	return s.Client.Ports(ctx)
}
