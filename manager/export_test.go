package manager

import (
	"context"
	"maps"
	"slices"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// KeepCalls bounds the calls that are kept though nothing of them runs.
func KeepCalls(m *Manager, most int) { m.calls.most = most }

// Calls counts the calls of which something is kept.
func Calls(m *Manager) int {
	m.calls.mu.Lock()
	defer m.calls.mu.Unlock()
	return len(m.calls.of)
}

// Running counts the operations of a call that run.
func Running(m *Manager, tenant, id string) int {
	m.calls.mu.Lock()
	c := m.calls.of[tenant+"\x00"+id]
	m.calls.mu.Unlock()
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

// Inputs is the digest of what was asked.
func Inputs(op grant.Operation) evidence.Digest { return inputs(op) }

// Reload puts other settings in force, as a program that lives long does when
// its settings file has changed.
func (m *Manager) Reload(s *config.Settings) { m.settings.Store(s) }

// CloseEgress ends the egress sessions of every sandbox, and lets later commands have
// new ones.
func (m *Manager) CloseEgress() {
	for _, h := range m.handles.every() {
		h.egressSessions.close()
		h.egressSessions.mu.Lock()
		h.egressSessions.closed = false
		h.egressSessions.mu.Unlock()
	}
}

// CloseHandles closes every sandbox that is in use or open for the next one.
func (m *Manager) CloseHandles() {
	for _, h := range m.handles.every() {
		h.Sandbox.Close()
	}
}

// every returns all handles, also those that are no longer handed out: a handle
// that did not answer in time was forgotten, and its users have it still.
func (h *handles) every() []*handle {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.all))
}

// PoolFault has fn hear of every step on disk of claims and new slots before it
// is done.
func PoolFault(m *Manager, fn func(step string)) { m.pool.fault = fn }

// HoldLock takes the ensure lock of a name, as another program does.
func HoldLock(m *Manager, name string) (release func(), err error) {
	l, err := m.leases.TryEnsure(name)
	if err != nil {
		return nil, err
	}
	return func() { l.Release() }, nil
}

// CreationLock is the name of the lock under which the sandbox name is created.
func CreationLock(name string) string { return creationLock(name) }

// CreatedWith reports whether what the sandbox name was created with is kept.
func CreatedWith(m *Manager, name string) (bool, error) {
	_, ok, err := m.creations.read("", name)
	return ok, err
}

// Records are the records of m.
func Records(m *Manager) *registry.Store { return m.records }

// RemoveCache is the part of a sweep that removes c, as it was listed.
func RemoveCache(ctx context.Context, m *Manager, c Cache) (removed bool, err error) {
	store, err := workspace.Open(m.state.Caches())
	if err != nil {
		return false, err
	}
	return (&sweeper{m: m}).removeCache(ctx, store, c)
}
