package manager

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
	"github.com/bulkhead-dev/sandbox/grant/store"
)

// newCall makes the call of an order, and notes where its grant comes from.
// Nothing is written down, here or on disk, of grants that are none.
func (s *calls) newCall(ctx context.Context, o *order, text string) (*call, error) {
	var line []grant.Grant // of our own: the caller may change his
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		return nil, sandbox.Errorf(sandbox.CodeInternal, "operate", "a grant cannot be read back: %w", err)
	}
	if err := grant.CheckLine(line[0], line[1:], s.m.now()); err != nil {
		return nil, err
	}
	if err := narrower(line); err != nil {
		return nil, err
	}
	if _, err := o.chain(line); err != nil {
		return nil, err
	}
	if err := s.agree(line); err != nil {
		return nil, err
	}
	for i, child := range line[:len(line)-1] {
		if err := store.Note(o.c.Revocations, child, line[i+1]); err != nil {
			return nil, err
		}
	}
	c := &call{grant: line[0], text: text, line: line}
	c.life, c.stop = context.WithCancelCause(context.Background())
	if err := c.pay(ctx, o); err != nil {
		return nil, err
	}
	used, err := c.account.Chain(ctx)
	if err != nil {
		return nil, err
	}
	c.files = used[0].Used.Files
	return c, nil
}

// agree refuses a line in which a grant is another one than was used by its id.
func (s *calls) agree(line []grant.Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, g := range line[1:] {
		text, err := textOf(line[i+1:])
		if err != nil {
			return err
		}
		if c := s.of[g.Tenant+"\x00"+g.ID]; c != nil && c.text != text {
			return errOtherGrant(g.ID)
		}
	}
	return nil
}

// pay sees to it that the call draws from the accounts of its grants by the
// bounds that the settings of the order have.
func (c *call) pay(ctx context.Context, o *order) error {
	c.mu.Lock()
	same := c.settings == o.steps.settings && c.account != nil
	c.mu.Unlock()
	if same {
		return nil
	}
	chain, err := o.chain(c.line)
	if err != nil {
		return err
	}
	account, err := o.c.Accounts.Account(ctx, chain...)
	if err != nil {
		return err
	}
	bound := budget.NoBound()
	for _, l := range chain {
		bound = budget.Min(bound, l.Bound)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settings, c.account, c.bound = o.steps.settings, account, bound
	return nil
}

// affords refuses an operation of a call that has been refused for its budget
// and would be again: it is not begun then, because what is begun is kept on
// record one by one, and asking costs nothing.
func (c *call) affords(ctx context.Context, beside Payer) error {
	c.mu.Lock()
	spent, account := c.spent, c.account
	c.mu.Unlock()
	if !spent {
		return nil
	}
	chain, err := account.Chain(ctx)
	if err == nil {
		_, err = budget.Draw(chain, firstDraw())
	}
	if err != nil || beside.Source == nil {
		return err
	}
	r, err := beside.Reserve(ctx, firstDraw())
	if err != nil {
		return err
	}
	return r.Settle(ctx, budget.Amount{})
}

// short notes that an operation was refused for its budget.
func (c *call) short(err error) {
	if sandbox.CodeOf(err) == sandbox.CodeBudgetExceeded {
		c.mu.Lock()
		c.spent = true
		c.mu.Unlock()
	}
}

// firstDraw is what each operation takes before it is carried out; the meter
// adds a moment to it.
func firstDraw() budget.Amount {
	return budget.Add(budget.One(budget.Calls, 1), budget.One(budget.WallMs, 1))
}

// payer returns what operations of the call draw from, and the strictest of its
// bounds.
func (c *call) payer() (*ledger.Account, budget.Amount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.account, c.bound
}

// chain is what the grants of a line draw from. One that names no agent or no
// session is used as the default ones, and draws from those.
func (o *order) chain(line []grant.Grant) ([]ledger.Limit, error) {
	line = slices.Clone(line)
	for i := range line {
		who := whoOf(line[i])
		line[i].Agent, line[i].Session = who.Agent, who.Session
	}
	b, err := bounds(o.steps.res, line, func(agent string) (config.Resolved, error) {
		settings := o.steps.settings
		if settings != nil && settings.Request != nil && agent != o.who.Agent {
			own := *settings
			own.Request, settings = nil, &own // which is of this agent's sandbox alone
		}
		return config.Resolve(settings, config.Who{Tenant: o.who.Tenant, Agent: agent, Session: o.who.Session}, nil)
	})
	if err != nil {
		return nil, err
	}
	return ledger.Chain(line, b, o.m.now())
}

// narrower refuses a line in which a grant has capabilities that its parent has
// not, because such a grant was not derived from that parent.
func narrower(line []grant.Grant) error {
	for i, child := range line[:len(line)-1] {
		parent := line[i+1]
		met, err := grant.Meet(child.Capabilities, parent.Capabilities)
		if err != nil {
			return err
		}
		own, err := grant.Normal(child.Capabilities)
		if err != nil {
			return err
		}
		_, within := budget.Within(child.Budget, parent.Budget)
		same := reflect.DeepEqual(met, own) || len(met) == 0 && len(own) == 0
		same = same && child.Limits == parent.Limits && reflect.DeepEqual(child.Lists, parent.Lists)
		same = same && child.Tool == parent.Tool && child.Subject == parent.Subject && child.Session == parent.Session && child.Tenant == parent.Tenant
		if !same || !within || child.Expires.After(parent.Expires) || !sameConsent(child.Consent, parent.Consent) {
			return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "operate", Field: "grant.parent", Resource: child.ID,
				Message: "the grant has more than the one it says it was derived from", Hint: "have it derived from that one"}
		}
	}
	return nil
}

// sameConsent reports whether a child has the consent of its parent, or none.
func sameConsent(child, parent *grant.Consent) bool {
	return child == nil || parent != nil && child.By == parent.By && child.At.Equal(parent.At) && child.Expires.Equal(parent.Expires)
}
