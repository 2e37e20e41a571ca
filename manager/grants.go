package manager

import (
	"maps"
	"slices"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/registry"
)

// grants are the permissions given for sessions. They belong to one sandbox
// of one tenant, outlast its sandboxes and its being made anew, and end with the
// Manager.
type grants struct {
	mu sync.Mutex
	of map[grantKey][]sandbox.Grant

	// questions are those about commands that were answered with yes.
	questions map[grantKey]map[question]bool

	// hosts are those that may be reached, as host:port.
	hosts map[grantKey]map[string]bool

	// written are the paths that some grant has ever let code write. What was
	// exchanged there stays so when the grant has ended.
	written map[string]bool
}

// A grantKey is what a sandbox is known by, whatever its name and sandbox.
type grantKey struct {
	tenant string
	scope  sandbox.Scope
	key    string
}

func keyOf(o sandbox.Owner) grantKey { return grantKey{o.Tenant, o.Scope, o.ScopeKey} }

// list returns what was granted to the sandbox of o.
func (g *grants) list(o sandbox.Owner) []sandbox.Grant {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.of[keyOf(o)])
}

// add grants n to the sandbox of o.
func (g *grants) add(o sandbox.Owner, n sandbox.Grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of == nil {
		g.of = map[grantKey][]sandbox.Grant{}
	}
	g.of[keyOf(o)] = with(g.of[keyOf(o)], n)
}

// given notes that n was granted, to whomever and for however long.
func (g *grants) given(n sandbox.Grant) {
	if n.Operation != sandbox.OpWrite {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.written == nil {
		g.written = map[string]bool{}
	}
	g.written[n.Path] = true
}

// exposed returns the paths that grants have let code write, sorted.
func (g *grants) exposed() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.written))
}

// drop takes back what was granted to the sandbox of o.
func (g *grants) drop(o sandbox.Owner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.of, keyOf(o))
	delete(g.questions, keyOf(o))
	delete(g.hosts, keyOf(o))
}

// reach permits a host to the sandbox of o, as long as there is room:
// otherwise it is asked about again.
func (g *grants) reach(o sandbox.Owner, target string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hosts == nil {
		g.hosts = map[grantKey]map[string]bool{}
	}
	of := g.hosts[keyOf(o)]
	if of == nil {
		of = map[string]bool{}
		g.hosts[keyOf(o)] = of
	}
	if len(of) < maxQuestions {
		of[target] = true
	}
}

// reaches reports whether the host was permitted to the sandbox of o.
func (g *grants) reaches(o sandbox.Owner, target string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hosts[keyOf(o)][target]
}

// maxQuestions bounds the commands, and the hosts, that are permitted for one
// session.
const maxQuestions = 1000

// permitCommand permits a command to the sandbox of o, as long as there is
// room: otherwise it is asked about again.
func (g *grants) permitCommand(o sandbox.Owner, q question) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.questions == nil {
		g.questions = map[grantKey]map[question]bool{}
	}
	of := g.questions[keyOf(o)]
	if of == nil {
		of = map[question]bool{}
		g.questions[keyOf(o)] = of
	}
	if len(of) < maxQuestions {
		of[q] = true
	}
}

// permits reports whether just this was permitted to the sandbox of o.
func (g *grants) permits(o sandbox.Owner, q question) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.questions[keyOf(o)][q]
}

// with returns a new list that has n once.
func with(list []sandbox.Grant, n ...sandbox.Grant) []sandbox.Grant {
	out := slices.Clone(list)
	for _, g := range n {
		if !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	return out
}

// permit sets what is permitted beyond the rules.
func (w *want) permit(list []sandbox.Grant) { w.granted, w.spec.Grants = list, list }

// late returns w with the paths left out that rules open beyond those that the
// sandbox was made with: they need no new sandbox and become grants for the next
// sandbox. have is the hash of the sandbox that exists, or empty.
func (w *want) late(have string, rec *registry.Record) *want {
	if have == "" || rec == nil || rec.Spec == nil || have == w.hash {
		return w
	}
	opened, files := config.LateGrants(rec.Spec.Filesystem, w.spec.Filesystem)
	if !files {
		return w
	}
	out := *w
	out.spec.Filesystem.AllowRead = rec.Spec.Filesystem.AllowRead
	out.spec.Filesystem.AllowWrite = rec.Spec.Filesystem.AllowWrite
	out.spec.Grants = with(w.spec.Grants, opened...)
	hash, err := confighash.Sum(out.spec)
	if err != nil || hash != have {
		return w
	}
	out.hash = hash
	return &out
}
