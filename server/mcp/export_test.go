package mcp

// Open returns the number of sessions.
func (h *Handler) Open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open)
}
