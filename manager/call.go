package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/budget"
	"github.com/bulkhead-dev/sandbox/budget/ledger"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/operation"
)

// calls are the tool calls whose operations this program carries out. A call
// is known by its grant, from its first operation until the grant ends.
type calls struct {
	mu    sync.Mutex
	of    map[string]*call
	swept time.Time

	forgot time.Time      // when what is about expired grants was forgotten last
	work   sync.WaitGroup // of that
	over   bool           // with the Manager
}

// A call is what operations of one tool call share.
type call struct {
	grant grant.Grant
	text  string          // of the grant and those that it was derived from
	line  []grant.Grant   // the same, of our own
	life  context.Context // of all operations; ends when the call is let go of
	stop  context.CancelCauseFunc

	ending   sync.Mutex // taken before mu, while held is let go of
	mu       sync.Mutex
	settings *config.Settings // that account was opened by
	account  *ledger.Account
	bound    budget.Amount // the strictest of its accounts
	terms    *grant.Terms  // that guard was made of
	guard    *grant.Guard
	running  int
	writing  int // of those that run, each with one file to come
	files    int64
	over     bool  // nothing may be begun any more
	why      error // it is over, where that is not EndCall
	held     holdings
}

// sweepCalls is how often calls whose grant has expired are looked for.
const sweepCalls = time.Minute

// enter returns the call of an order, with one more operation that runs.
func (s *calls) enter(ctx context.Context, o *order) (*call, error) {
	g := &o.req.Grant
	if most := ledger.MaxDepth; len(o.req.Line) >= most {
		return nil, sandbox.Errorf(sandbox.CodeValidation, "operate", "a grant and those it was derived from are less than %d", most+1)
	}
	text, err := textOf(append([]grant.Grant{*g}, o.req.Line...))
	if err != nil {
		return nil, err
	}
	key := g.Tenant + "\x00" + g.ID
	c, err := s.known(key, text, o)
	if err != nil {
		return nil, err
	}
	if c == nil {
		n, err := o.m.newCall(ctx, o, text)
		if err != nil {
			return nil, err
		}
		if c, err = s.keep(key, n, o); err != nil {
			return nil, err
		}
	}
	if err := c.pay(ctx, o); err != nil {
		c.leave(o.writes())
		return nil, err
	}
	return c, nil
}

func errOtherGrant(id string) error {
	return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "operate", Field: "grant.id", Resource: id,
		Message: "another grant was used by this id", Hint: "a grant does not change: ask for a new one, or derive one"}
}

// known returns the call of a key, with one more operation that runs; nil where
// there is none yet.
func (s *calls) known(key, text string, o *order) (*call, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(o.m.now())
	if s.over {
		return nil, errClosed()
	}
	if s.of[key] == nil {
		return nil, nil
	}
	return s.of[key].join(text, o)
}

// keep keeps a call, unless another one was faster, and returns the one that is
// kept, with one more operation that runs.
func (s *calls) keep(key string, c *call, o *order) (*call, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, errClosed()
	}
	if s.of == nil {
		s.of = map[string]*call{}
	}
	if s.of[key] == nil {
		s.thin()
		s.of[key] = c
	}
	return s.of[key].join(c.text, o)
}

// join returns the call with one more operation that runs, of the same grant.
func (c *call) join(text string, o *order) (*call, error) {
	if c.text != text {
		return nil, errOtherGrant(c.grant.ID)
	}
	if err := c.begin(o.writes()); err != nil {
		return nil, err
	}
	return c, nil
}

// errClosed refuses what would begin after the end of the Manager: nobody would
// end it any more.
func errClosed() error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "operate", Message: "the manager is closed"}
}

// maxCalls is how many calls are kept though nothing of them runs, so that
// grants without number do not fill the memory.
const maxCalls = 4096

// thin forgets some of too many calls of which nothing runs, that hold nothing
// and have not ended. What they have used is in their accounts, so that one
// that comes back goes on; that its grant is the same is not looked at then.
func (s *calls) thin() {
	if len(s.of) < maxCalls {
		return
	}
	most := maxCalls / 8
	for key, c := range s.of {
		if most == 0 {
			return
		}
		c.mu.Lock()
		idle := c.running == 0 && !c.over && c.held.browser == nil && !c.held.allotted
		c.mu.Unlock()
		if idle {
			delete(s.of, key)
			most--
		}
	}
}

// open refuses what would begin after the end of the Manager: nobody would end
// it any more.
func (s *calls) open() error {
	if s.over {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "operate", Message: "the manager is closed"}
	}
	return nil
}

// sweep forgets calls whose grant has expired and of which nothing runs. What
// they hold is let go of when the grant ends, see holdings.
func (s *calls) sweep(now time.Time) {
	if now.Sub(s.swept) < sweepCalls {
		return
	}
	s.swept = now
	for key, c := range s.of {
		c.mu.Lock()
		idle := c.running == 0 && now.After(c.grant.Expires)
		c.mu.Unlock()
		if idle {
			delete(s.of, key)
		}
	}
}

// textOf is a value as text, to compare it and to have one of our own.
func textOf(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", &sandbox.Error{Code: sandbox.CodeValidation, Op: "operate", Field: "grant", Message: "it cannot be written as JSON", Err: err}
	}
	return string(b), nil
}

// begin takes one operation more among those that run.
func (c *call) begin(writes bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return errCallEnded(c)
	}
	c.running++
	if writes {
		c.writing++
	}
	return nil
}

// leave is the end of begin.
func (c *call) leave(writes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if writes {
		c.writing--
	}
}

// because notes why the grant has come to its end, where it has.
func (c *call) because(why error) {
	var e *sandbox.Error
	if errors.As(why, &e) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.why = why
	}
}

// ended is why nothing may be begun any more; nil while it may.
func (c *call) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.why != nil:
		return c.why
	case c.over:
		return errCallEnded(c)
	}
	return nil
}

// state is what the guard has to know of the call; whoever asks is one of
// those that run.
func (c *call) state(now time.Time, writes bool) grant.State {
	c.mu.Lock()
	s := grant.State{Now: now, Running: c.running - 1, Files: c.files + int64(c.writing)}
	b, spaces := c.held.browser, c.held.spaces
	c.mu.Unlock()
	if b != nil {
		s.Depth = b.Pages()
	}
	if spaces != nil {
		s.Spaces = spaces.Folders()
	}
	if writes {
		s.Files--
	}
	return s
}

// writes reports whether the operation makes a file.
func (o *order) writes() bool {
	return o.req.Do.Kind == grant.OpFsWrite || o.req.Do.Kind == grant.OpBrowserDownload
}

// count notes what an operation has used.
func (c *call) count(used budget.Amount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files += used.Files
}

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
	if err != nil {
		return nil, err
	}
	built(time.Since(began))
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
	if p.of == nil || p.settings != o.admission.settings || len(p.of) >= maxPrepared {
		p.settings, p.of = o.admission.settings, map[preparedFor]preparation{}
	}
	key := preparedFor{o.who.Agent, o.req.Manifest.Tool, o.admission.res.Sandboxed}
	if have, ok := p.of[key]; ok && have.manifest == text {
		return have.terms, nil
	}
	rules, err := config.GrantPolicy(o.admission.res, o.m.host.Inside(o.admission.res), o.req.Manifest)
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

// whoOf is on whose behalf operations of a grant are.
func whoOf(g grant.Grant) config.Who {
	return config.Who{Tenant: g.Tenant, Agent: cmp.Or(g.Agent, config.DefaultAgent), Session: cmp.Or(g.Session, config.DefaultSession)}
}
