package manager

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
)

// calls are the tool calls whose operations this program carries out. A call
// is known by its grant, from its first operation until the grant ends.
type calls struct {
	m     *Manager
	mu    sync.Mutex
	of    map[string]*call
	swept time.Time
	most  int // that are kept though nothing of them runs; 0 takes maxCalls

	forgot time.Time      // when what is about expired grants was forgotten last
	work   sync.WaitGroup // of that
	over   bool           // with the Manager
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
		n, err := o.m.calls.newCall(ctx, o, text)
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
	s.sweep(o.m.now(), o.c.Revocations.Forgotten)
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

// errClosed refuses an operation that would begin after the Manager was closed,
// because nothing would end it any more.
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
	all := cmp.Or(s.most, maxCalls)
	if len(s.of) < all {
		return
	}
	most := all / 8
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

// sweep forgets calls of which nothing runs and whose grant has certainly
// expired: one that has ended would go on when the clock was set back. What they
// hold is let go of when the grant ends, see holdings.
func (s *calls) sweep(now time.Time, forgotten func() (time.Time, error)) {
	if now.Sub(s.swept) < sweepCalls {
		return
	}
	s.swept = now
	passed, err := forgotten()
	if err != nil {
		return // nothing runs then
	}
	for key, c := range s.of {
		c.mu.Lock()
		idle := c.running == 0 && passed.After(c.grant.Expires)
		c.mu.Unlock()
		if idle {
			delete(s.of, key)
		}
	}
}
