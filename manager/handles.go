package manager

import (
	"context"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A pinger is a sandbox handle that can tell whether the wall behind it
// still stands and answers.
type pinger interface {
	Ping(ctx context.Context) error
}

// pingPatience is how long an open handle may take to answer before the
// sandbox is looked at anew: it may be frozen, or gone.
const pingPatience = 250 * time.Millisecond

// handles keeps one open handle for each sandbox used lately, so that the
// next command finds its way without asking the engine: a guest that
// answers is a container that runs, and its labels cannot have changed.
type handles struct {
	mu   sync.Mutex
	open map[string]handle // by sandbox name
}

type handle struct {
	sandbox.Sandbox
	hash   string         // of the sandbox itself, from its label
	limits sandbox.Limits // of its commands, which the hash leaves out
}

func (h *handles) get(name string) (handle, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	got, ok := h.open[name]
	return got, ok
}

// put keeps new unless there is a handle for the name already, and reports
// whether it was kept.
func (h *handles) put(name string, n handle) bool {
	if _, ok := n.Sandbox.(pinger); !ok {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = map[string]handle{}
	}
	if _, taken := h.open[name]; taken {
		return false
	}
	h.open[name] = n
	return true
}

// drop closes and forgets the handle of name, unless it is another than
// the given one; nil stands for any.
func (h *handles) drop(name string, which sandbox.Sandbox) {
	h.mu.Lock()
	got, ok := h.open[name]
	if ok && (which == nil || got.Sandbox == which) {
		delete(h.open, name)
	} else {
		ok = false
	}
	h.mu.Unlock()
	if ok {
		got.Close()
	}
}

// Close lets go of every sandbox. Sandboxes themselves stay.
func (m *Manager) Close() error {
	m.handles.mu.Lock()
	open := m.handles.open
	m.handles.open = nil
	m.handles.mu.Unlock()
	for _, h := range open {
		h.Close()
	}
	return nil
}

// warm returns the wanted sandbox when a handle to it is open, it is as
// wanted, and it answers. It takes no engine call and no turn: the shared
// lease alone keeps the sandbox from being removed.
func (m *Manager) warm(ctx context.Context, w *want) *live {
	name := w.spec.Name
	h, ok := m.handles.get(name)
	if !ok || h.hash != w.hash || h.limits != w.spec.Limits {
		return nil
	}
	held, err := m.leases.Shared(ctx, name)
	if err != nil {
		return nil
	}
	ping, done := context.WithTimeout(ctx, pingPatience)
	defer done()
	if err := h.Sandbox.(pinger).Ping(ping); err != nil {
		held.Release()
		if ctx.Err() == nil {
			m.handles.drop(name, h.Sandbox)
		}
		return nil
	}
	if err := m.records.Touch(w.spec.Kind, name, m.now()); err != nil {
		held.Release()
		return nil
	}
	return &live{Sandbox: h.Sandbox, provider: w.provider, spec: w.spec, scratch: w.scratch(), held: held, shared: true}
}
