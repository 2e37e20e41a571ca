package running

// Sweep sweeps now.
func (h *House) Sweep() { h.sweep(h.o.Now()) }

// Held is the memory taken for output, and the number of sessions and tenants
// that are known.
func (h *House) Held() (bytes int64, sessions, tenants int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.memory, len(h.sessions), len(h.tenants)
}
