package running

import "github.com/bulkhead-dev/sandbox/config"

// Following is the number of clients that follow a command.
func (h *Supervisor) Following(who config.Who, ref string) int {
	c, err := h.find("test", who, ref)
	if err != nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return c.watch.following
}

// Sweep sweeps now.
func (h *Supervisor) Sweep() { h.sweep(h.o.Now()) }

// Held is the memory taken for output, and the number of sessions and tenants
// that are known.
func (h *Supervisor) Held() (bytes int64, sessions, tenants int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.memory, len(h.sessions), len(h.tenants)
}
