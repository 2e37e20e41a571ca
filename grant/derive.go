package grant

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A Wish describes a grant to be derived from another. Fields that are left out
// are as in the parent.
type Wish struct {
	ID          string // of the new grant; required
	Call        string // that it serves; required
	DecisionKey string // fingerprint of the decision to derive it; required
	Agent       string // the agent that gets it

	Capabilities []Capability // nil is all of the parent's
	Budget       *Budget      // nil is all of the parent's
	Expires      time.Time    // zero is with the parent
}

// Derive returns a grant with the same or fewer permissions, for another call
// of the same tool. It never extends them: a wish for a capability, an amount
// or a time that the parent does not have fails with SANDBOX.PERMISSION_DENY,
// as does a wish under a parent that is not valid at now; Derive never reduces
// a wish silently. Tenant, subject, session, tool and consent are the parent's.
// The field Parent of the new grant names the grant whose budget it draws from
// and with which it is revoked; the keepers of budgets and revocations enforce
// both by that id.
func (g Grant) Derive(w Wish, now time.Time) (Grant, error) {
	if err := g.check(now); err != nil {
		return Grant{}, err
	}
	child := g
	child.ID, child.Parent, child.Call, child.DecisionKey, child.Issued = w.ID, g.ID, w.Call, w.DecisionKey, now
	child.Consent = cloned(g.Consent)
	if w.Agent != "" {
		child.Agent = w.Agent
	}
	if w.ID == g.ID {
		return Grant{}, invalid("wish.id", "it is the parent's own", "make a new one")
	}
	if w.DecisionKey == g.DecisionKey {
		return Grant{}, denied("wish.decisionKey", g.ID, "the decision was used for the parent", "have it decided: a decision is good for one call")
	}
	if w.Call == g.Call {
		return Grant{}, invalid("wish.call", "the call has a grant, the parent", "name the call that is to have this one")
	}
	if err := child.narrow(&g, w); err != nil {
		return Grant{}, err
	}
	if err := child.check(now); err != nil {
		return Grant{}, ofWish(err)
	}
	return child, nil
}

// ofWish returns the field of the wish that caused an error of the new grant:
// the parts inherited from the parent were already valid.
func ofWish(err error) error {
	var e *sandbox.Error
	if !errors.As(err, &e) {
		return err
	}
	rest, ok := strings.CutPrefix(e.Field, "grant.")
	if !ok {
		return err
	}
	if rest == "decisionKeyFingerprint" {
		rest = "decisionKey" // as [Wish] calls it
	}
	out := *e
	out.Field = "wish." + rest
	return &out
}

// narrow gives the child the capabilities, amounts and time of the wish.
func (g *Grant) narrow(parent *Grant, w Wish) error {
	has, err := boxes("grant.capabilities", parent.Capabilities)
	if err != nil {
		return err
	}
	g.Capabilities = spelled(has)
	if w.Capabilities != nil {
		if g.Capabilities, err = fewer(has, w.Capabilities); err != nil {
			return err
		}
	}
	if w.Budget != nil {
		if err := w.Budget.within(&parent.Budget); err != nil {
			return err
		}
		g.Budget = *w.Budget
	}
	if !w.Expires.IsZero() {
		if w.Expires.After(parent.Expires) {
			return denied("wish.expires", parent.ID, "it would be good for longer than the parent", "ask for no more than the parent has")
		}
		g.Expires = w.Expires
	}
	return nil
}

// fewer returns the capabilities in normal form when boxes allow them all.
func fewer(has []*box, wish []Capability) ([]Capability, error) {
	want, err := boxes("wish.capabilities", wish)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(want, func(b *box) bool { return !within(has, b) }); i >= 0 {
		c := want[i].capability(nil)
		what := string(c.Kind) + " " + c.Path + c.Host + c.Tool + c.Class
		return nil, denied("wish.capabilities", what, "the parent does not allow all of "+quoted(what), "ask for no more than the parent has")
	}
	return spelled(want), nil
}

// within reports the first amount that is more than the other's.
func (b *Budget) within(most *Budget) error {
	if err := b.check("wish.budget"); err != nil {
		return err
	}
	bounds := most.amounts()
	for i, a := range b.amounts() {
		bound := *bounds[i].value
		if bound != Unlimited && (*a.value == Unlimited || *a.value > bound) {
			return denied("wish.budget."+a.name, "", "it is more than the parent has", "ask for no more than the parent has")
		}
	}
	return nil
}
