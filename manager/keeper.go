package manager

import (
	"errors"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/registry"
)

// A keeper is a provider that keeps the state of its sandboxes where other programs
// reach it, with its locks.
type keeper struct {
	provider.StateKeeper
	locks keylock.Locker
}

// keepAll finds the providers that keep their state themselves, and has the records
// of their sandboxes kept there.
func (m *Manager) keepAll(set *provider.Set) error {
	m.kept = map[string]keeper{}
	for _, name := range set.Names() {
		p, err := set.Get(name)
		if err != nil {
			return err
		}
		k, ok := p.(provider.StateKeeper)
		if !ok {
			continue
		}
		docs, locks := k.State(m.leases, m.lost)
		m.records.Keep(name, docs)
		m.kept[name] = keeper{k, locks}
	}
	return nil
}

// lost ends what is open of a sandbox whose locks were lost.
func (m *Manager) lost(name string) {
	m.log.WithField("sandbox", name).Warn("the lease of the sandbox is lost: what is open of it ends")
	m.handles.cut(name)
}

// locksOf returns the locks of the sandboxes of a provider.
func (m *Manager) locksOf(provider string) keylock.Locker {
	if k, ok := m.kept[provider]; ok {
		return k.locks
	}
	return m.leases
}

// instanceOf returns the instance of the sandboxes of a provider.
func (m *Manager) instanceOf(provider string) string {
	if k, ok := m.kept[provider]; ok {
		return k.Instance()
	}
	return m.state.Instance()
}

// ours reports whether an instance is that of the sandboxes of a provider.
func (m *Manager) ours(provider, instance string) bool { return instance == m.instanceOf(provider) }

// unanswered returns the providers whose state does not answer, by the error of a list
// of records; ok is false for other errors.
func unanswered(err error) (of map[string]error, ok bool) {
	if err == nil {
		return nil, true
	}
	u, ok := errors.AsType[*registry.Unanswered](err)
	if !ok {
		return nil, false
	}
	return u.Providers, true
}

// settingsProvider returns the name of the provider that settings and flags name for
// who, or "" where they name none.
func settingsProvider(settings *config.Settings, who config.Who, flags *config.SandboxSettings) string {
	if name := providerNamed(flags); name != "" {
		return name
	}
	res, err := config.Resolve(settings, who, nil)
	if err != nil {
		return ""
	}
	return res.Provider
}

// flagged are flags that name a provider.
func flagged(provider string) *config.SandboxSettings {
	return &config.SandboxSettings{Provider: &provider}
}
