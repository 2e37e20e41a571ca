package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
)

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
	waived   int   // operations that cost nothing
	spent    bool  // an operation was refused for its budget
	over     bool  // nothing may be begun any more
	why      error // it is over, where that is not EndCall
	held     holdings
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

// state returns what the guard has to know of the call. The caller is one of the
// running operations and does not count itself.
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

// maxWaived is how many operations of a call cost nothing because they were
// refused without anything done. Each is on record one by one, so that a call
// without end is one that pays.
const maxWaived = 256

// free reports whether one more operation of the call may cost nothing.
func (c *call) free() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waived++
	return c.waived <= maxWaived
}

// whoOf is on whose behalf operations of a grant are.
func whoOf(g grant.Grant) config.Who {
	return config.Who{Tenant: g.Tenant, Agent: cmp.Or(g.Agent, config.DefaultAgent), Session: cmp.Or(g.Session, config.DefaultSession)}
}

// validWho refuses names that a grant may not have, as fields of the grant.
func validWho(who config.Who) error {
	err := who.Validate()
	if e, ok := err.(*sandbox.Error); ok && e.Field != "" {
		named := *e
		named.Field = "grant." + e.Field
		return &named
	}
	return err
}
