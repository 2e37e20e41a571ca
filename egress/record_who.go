package egress

import (
	"slices"
	"sync"

	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/audit/violation"
)

// A recordWho attributes a sandbox or a command.
type recordWho struct {
	Tenant  string
	Agent   string
	Session string
	Program string // started program; empty for a sandbox
	Line    string // the whole command; only its digest is kept
	// Require makes decisions to allow wait until they are written. For a
	// command it is added to the setting of its sandbox: a program can omit
	// its proxy credentials, but not lift the requirement of the sandbox.
	Require bool
}

// who is the attribution recorded with an event.
type who struct {
	meta    violation.Meta // without the sandbox
	require bool
}

func (w recordWho) entered() *who {
	m := violation.Meta{Tenant: w.Tenant, Agent: w.Agent, Session: w.Session, Program: w.Program}
	if w.Line != "" { // computed once, because lines can be long and refusals many
		m.CommandDigest = journal.Digest(w.Line)
	}
	return &who{m, w.Require}
}

// A place is a sandbox, or one of its commands.
type place struct{ sandbox, command string }

// A registry maps places to their attribution. A later registration replaces
// an earlier one.
type registry struct {
	mu     sync.RWMutex
	places map[place][]*who
}

// Sandbox registers the sandbox of that name, until leave is called, which
// must not be before its Session is closed. Names are unique among the sandboxes
// of all tenants.
func (r *Recorder) Sandbox(name string, w recordWho) (leave func()) {
	return r.names.enter(place{sandbox: name}, w)
}

// Command registers a command of the sandbox, until leave is called. Its id is
// that of its [Caller].
func (r *Recorder) Command(sandbox, id string, w recordWho) (leave func()) {
	return r.names.enter(place{sandbox, id}, w)
}

func (g *registry) enter(p place, w recordWho) (leave func()) {
	own := w.entered()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.places == nil {
		g.places = map[place][]*who{}
	}
	g.places[p] = append(g.places[p], own)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		left := slices.DeleteFunc(slices.Clone(g.places[p]), func(w *who) bool { return w == own })
		if g.places[p] = left; len(left) == 0 {
			delete(g.places, p)
		}
	}
}

// find returns the attribution of an event, and whether the sandbox is
// registered. For a command that has ended it returns that of its sandbox.
func (g *registry) find(sandbox, command string) (who, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	out := who{meta: violation.Meta{Sandbox: sandbox}}
	fixture := g.places[place{sandbox: sandbox}]
	for _, w := range fixture {
		out.require = out.require || w.require
	}
	found := fixture
	if command != "" {
		if cs := g.places[place{sandbox, command}]; len(cs) > 0 {
			found = cs
		}
	}
	if len(found) == 0 {
		return out, false
	}
	w := found[len(found)-1]
	out.require = out.require || w.require
	out.meta = w.meta
	out.meta.Sandbox = sandbox
	return out, true
}
