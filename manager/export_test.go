package manager

import "github.com/bulkhead-dev/sandbox/config"

// Reload puts other settings in force, as a program that lives long does when
// its settings file has changed.
func (m *Manager) Reload(s *config.Settings) { m.settings.Store(s) }

// CloseWays ends the ways out of every sandbox, and lets later commands have
// new ones.
func (m *Manager) CloseWays() {
	for _, h := range m.handles.open {
		h.ways.close()
		h.ways.closed = false
	}
}
