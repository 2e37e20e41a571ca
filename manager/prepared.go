package manager

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/operation"
)

// guarded returns the guard of the call for the terms, which it makes when
// they have changed.
func (c *call) guarded(t *grant.Terms, now time.Time, built func(time.Duration)) (*grant.Guard, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.guard != nil && c.terms == t {
		return c.guard, nil
	}
	began := time.Now()
	p, err := t.Build(c.grant, now)
	built(time.Since(began))
	if err != nil {
		return nil, err
	}
	g, err := grant.Compile(p)
	if err != nil {
		return nil, err
	}
	c.terms, c.guard = t, g
	return g, nil
}

// profile returns the guard of the order: of its grant, its manifest and the
// settings as they are now.
func (o *order) profile() (*grant.Guard, error) {
	t, err := o.m.prepared.get(o)
	if err != nil {
		return nil, err
	}
	return o.call.guarded(t, o.m.now(), func(d time.Duration) {
		o.observe(func(w operation.Observer) { w.Built(d) })
	})
}

// maxPrepared bounds the terms that are kept.
const maxPrepared = 256

// prepared keeps what manifests and settings come to.
type prepared struct {
	mu       sync.Mutex
	settings *config.Settings
	of       map[preparedFor]preparation
}

// A preparedFor is what settings say different things for.
type preparedFor struct {
	agent, tool string
	sandboxed   bool // mode can leave sessions of one agent outside
}

type preparation struct {
	manifest string // as text
	terms    *grant.Terms
}

// get returns the terms of an order.
func (p *prepared) get(o *order) (*grant.Terms, error) {
	text, err := textOf(o.req.Manifest)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil || p.settings != o.steps.settings || len(p.of) >= maxPrepared {
		p.settings, p.of = o.steps.settings, map[preparedFor]preparation{}
	}
	key := preparedFor{o.who.Agent, o.req.Manifest.Tool, o.steps.res.Sandboxed}
	if have, ok := p.of[key]; ok && have.manifest == text {
		return have.terms, nil
	}
	rules, err := config.GrantPolicy(o.steps.res, o.m.host.Inside(o.steps.res), o.req.Manifest)
	if err != nil {
		return nil, err
	}
	var own grant.Manifest // the caller may change his
	if err := json.Unmarshal([]byte(text), &own); err != nil {
		return nil, sandbox.Errorf(sandbox.CodeInternal, "operate", "a manifest cannot be read back: %w", err)
	}
	t, err := grant.Prepare(own, rules)
	if err != nil {
		return nil, err
	}
	p.of[key] = preparation{text, t}
	return t, nil
}
