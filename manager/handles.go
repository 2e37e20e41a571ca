package manager

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/registry"
)

// A pinger is a sandbox handle that can tell whether the sandbox behind it
// still stands and answers.
type pinger interface {
	Ping(ctx context.Context) error
}

// A connected sandbox is a handle that knows without asking whether its
// connection to the guest is open. While it is, the sandbox exists: the guest is
// its first process, and another container cannot have the same name.
type connected interface {
	Connected() bool
}

// pingPatience is how long an open handle may take to answer before the
// sandbox is looked at anew: it may be frozen, or gone.
const pingPatience = 250 * time.Millisecond

// findPatience is that of a caller that only looks at the sandbox.
const findPatience = 25 * time.Millisecond

// handles keeps one open handle for each sandbox used lately, so that the
// next command finds its way without asking the engine: a guest that
// answers is a container that runs, and its labels cannot have changed.
//
// A handle that does not answer is forgotten, and closed when its last user
// is done with it: closing it ends the commands of all its users.
type handles struct {
	frozen func(*handle) bool // the sandbox behind it is; see Manager.frozen

	mu   sync.Mutex
	open map[string]*handle // by sandbox name
	all  map[*handle]bool   // with those that only those use who have them
}

type handle struct {
	sandbox.Sandbox
	name     string
	provider string         // that opened it
	hash     string         // of what it was opened for, when that is what the sandbox is, else of the sandbox
	limits   sandbox.Limits // of its commands, which the hash leaves out

	granted []sandbox.Grant // what was permitted, which the hash leaves out too
	private bool            // permitted to one command alone

	terms          terms // of its egress sessions
	egressSessions egressSessions

	scripts atomic.Pointer[fsbridge.Bridge] // its files over scripts, once its utilities were looked for

	used atomic.Pointer[time.Time] // the last use that is on record; nil is unknown

	users int  // guarded by handles.mu, like what follows
	kept  bool // for the next command
}

// alike reports whether h was opened for the same as o, so that what runs in one
// of them is bounded and permitted as it would be in the other.
func (h *handle) alike(o *handle) bool {
	return h.name == o.name && h.hash == o.hash && h.limits == o.limits && !h.private && !o.private &&
		slices.Equal(h.granted, o.granted) && h.terms.same(o.terms)
}

// get returns the handle of name for one more user.
func (h *handles) get(name string) (*handle, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	got, ok := h.open[name]
	if ok {
		got.users++
	}
	return got, ok
}

// put makes n known, with one user. It keeps n for other users unless there is
// one like it already, n is private, or n cannot report whether it still
// answers. put forgets a kept handle that was opened for something else: no
// call would check again whether that one answers, so it would block the name
// for good.
func (h *handles) put(n *handle) *handle {
	n.users = 1
	h.revoke(n)
	if _, ok := n.Sandbox.(pinger); !ok || n.private {
		return n
	}
	h.mu.Lock()
	last, taken := h.open[n.name]
	h.mu.Unlock()
	if taken && !last.alike(n) {
		h.forget(last)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, taken := h.open[n.name]; taken {
		return n
	}
	if h.open == nil {
		h.open = map[string]*handle{}
	}
	n.kept = true
	h.open[n.name] = n
	return n
}

// revoke makes n known. It narrows the egress sessions of handles to the same
// sandbox that lose hosts by the settings in force, so that connections which are
// no longer allowed end at once and all others go on. Where the settings remove
// something else, such as a secret, it closes the sessions, also when commands
// still use them.
func (h *handles) revoke(n *handle) {
	var revoked []*handle
	h.mu.Lock()
	for other := range h.all {
		if other.name == n.name && other.terms.revoked(n.terms) {
			revoked = append(revoked, other)
		}
	}
	if h.all == nil {
		h.all = map[*handle]bool{}
	}
	h.all[n] = true
	h.mu.Unlock()
	for _, other := range revoked {
		if !opens(n.terms.rules) || !other.terms.hostsAlone(n.terms) || !other.egressSessions.narrow(n.terms.rules) {
			other.egressSessions.close()
		}
	}
}

// connected reports whether a kept handle of the provider to the sandbox name
// has an open connection.
func (h *handles) connected(provider, name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.open[name]
	if n == nil || n.provider != provider {
		return false
	}
	c, ok := n.Sandbox.(connected)
	return ok && c.Connected()
}

// share counts one more user of n, which has one.
func (h *handles) share(n *handle) {
	h.mu.Lock()
	n.users++
	h.mu.Unlock()
}

// release ends one use of n.
func (h *handles) release(n *handle) {
	h.mu.Lock()
	n.users--
	last := n.users == 0 && !n.kept
	h.mu.Unlock()
	if last {
		h.end(n)
	}
}

// forget stops handing out n. Its present users keep it.
func (h *handles) forget(n *handle) {
	h.mu.Lock()
	if h.open[n.name] == n {
		delete(h.open, n.name)
	}
	unused := n.kept && n.users == 0
	n.kept = false
	h.mu.Unlock()
	if unused {
		h.end(n)
	}
}

// cut closes every handle of name at once, with what runs in them.
func (h *handles) cut(name string) {
	h.drop(name)
	h.mu.Lock()
	var used []*handle
	for n := range h.all {
		if n.name == name {
			used = append(used, n)
		}
	}
	h.mu.Unlock()
	for _, n := range used {
		go func() { // closing may wait for connections
			n.egressSessions.close()
			if c, ok := n.Sandbox.(cutter); ok {
				c.Cut()
			}
			h.end(n)
		}()
	}
}

// drop forgets the handle of name.
func (h *handles) drop(name string) {
	h.mu.Lock()
	n := h.open[name]
	h.mu.Unlock()
	if n != nil {
		h.forget(n)
	}
}

// Close ends the calls of all grants, with what they hold, and lets go of every
// sandbox that no command runs in, of all at one time. Sandboxes themselves
// stay; what a frozen one was to end it ends when it is thawed.
func (m *Manager) Close() error {
	m.pool.end()
	err := m.calls.endCalls()
	defer m.checkpoints.close()
	m.handles.mu.Lock()
	var names []string
	for name := range m.handles.open {
		names = append(names, name)
	}
	m.handles.mu.Unlock()
	var closing sync.WaitGroup
	for _, name := range names {
		closing.Go(func() { m.handles.drop(name) })
	}
	for _, name := range m.pool.names() {
		closing.Go(func() { m.pool.drop(name) })
	}
	closing.Wait()
	m.watch.Close()
	return err
}

// warm returns the wanted sandbox when a handle to it is open, it is as
// wanted, and it answers. It takes no engine call and no turn: the shared
// lease alone keeps the sandbox from being removed.
func (b *builder) warm(ctx context.Context, w *want) *acquired {
	h, ok := b.m.handles.get(w.spec.Name)
	if !ok {
		return nil
	}
	l := &acquired{Sandbox: h.Sandbox, provider: w.provider, spec: w.spec, scratch: w.scratch(), egress: w.egress, egressSessions: &h.egressSessions, handle: h, letGo: func() { b.m.handles.release(h) }}
	var err error
	if l.held, err = b.m.locksOf(w.provider.Name()).Shared(ctx, h.name); err != nil {
		l.letGo()
		return nil
	}
	if h.hash != w.hash || h.limits != w.spec.Limits || w.private || !slices.Equal(h.granted, w.granted) || !h.terms.same(w.terms()) || !b.ready(ctx, w, h) {
		l.close()
		return nil
	}
	if why, _, err := fits(ctx, l.Sandbox); err != nil || why != "" {
		l.close() // what becomes of it is decided in its turn
		return nil
	}
	return l
}

// ready notes the use of the sandbox behind h and reports whether it answers.
// It thaws a sandbox that is noted as frozen. The caller has its lease, so no
// other call freezes it any more.
func (b *builder) ready(ctx context.Context, w *want, h *handle) bool {
	frozen, last, err := b.m.records.Of(w.provider.Name()).Use(w.spec.Kind, h.name, b.m.now())
	if err == nil && frozen {
		err = b.m.freezer.thaw(ctx, w.provider, w.spec.Kind, h.name)
	} else if err == nil {
		h.used.Store(&last)
	}
	return err == nil && b.answers(ctx, h)
}

// runs returns what the provider said of the recorded sandbox when the kept handle
// to it was opened, where its guest answers: it runs then, and what else was said
// does not change. Otherwise the provider has to be asked.
func (b *builder) runs(ctx context.Context, rec registry.Record) (info sandbox.Info, running bool) {
	if rec.Frozen {
		return info, false
	}
	h, ok := b.m.handles.get(rec.Name)
	if !ok {
		return info, false
	}
	defer b.m.handles.release(h)
	info = h.Info()
	if c, ok := h.Sandbox.(connected); !ok || !c.Connected() || h.provider != rec.Provider || info.Kind != rec.Kind || !h.answers(ctx, findPatience) {
		return info, false
	}
	info.Status = sandbox.StatusRunning
	return info, true
}

// answers reports whether the sandbox behind h does. One that does not is
// not used again through h.
func (b *builder) answers(ctx context.Context, h *handle) bool {
	answers := h.answers(ctx, pingPatience)
	if !answers && ctx.Err() == nil {
		b.m.handles.forget(h)
	}
	return answers
}

// answers reports whether the sandbox behind h does, within so long.
func (h *handle) answers(ctx context.Context, within time.Duration) bool {
	p, ok := h.Sandbox.(pinger)
	if !ok {
		return false
	}
	ctx, done := context.WithTimeout(ctx, within)
	defer done()
	return p.Ping(ctx) == nil
}
