package admission

import (
	"context"
	"errors"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// Names of accounts: the prefix of a token's, and that of the account above
// those of all tokens of a tenant, or of no tenant.
const (
	tokenAccount  = "token:"
	tokensAccount = "tokens:"
)

// unpaid refuses a token with a budget where there are no accounts, because its
// budget could not be enforced.
func (a *Admission) unpaid(c auth.Caller) error {
	if a.ledger != nil || len(c.Budgeted()) == 0 {
		return nil
	}
	return auth.Uncharged()
}

// Payer implements [manager.Accounting]: usage is charged to the budgets of the
// caller's token and of its ancestors, all or none.
func (a *Admission) Payer(ctx context.Context) (manager.Payer, error) {
	c := callerOf(ctx)
	tokens := c.Budgeted()
	if len(tokens) == 0 {
		return manager.Payer{}, nil
	}
	if err := a.unpaid(c); err != nil {
		return manager.Payer{}, err
	}
	own := tokenAccount + c.Token.ID
	account, err := a.ledger.Account(ctx, limitsOf(tokens)...)
	if err != nil {
		return manager.Payer{}, discreet(own, err)
	}
	bound := budget.NoBound()
	for _, t := range tokens {
		bound = budget.Min(bound, *t.Budget)
	}
	return manager.Payer{Source: purse{account, own}, Bound: bound}, nil
}

// limitsOf returns the chain of accounts of tokens, each of which was derived
// from the next one. The last account is common to all tokens of a tenant and
// has no bound: it makes them share one lock.
func limitsOf(tokens []token.Token) []ledger.Limit {
	var chain []ledger.Limit
	for _, t := range tokens {
		chain = append(chain, ledger.Limit{ID: tokenAccount + t.ID, Bound: *t.Budget, Expires: t.Expires})
	}
	top := tokens[len(tokens)-1]
	return append(chain, ledger.Limit{ID: tokensAccount + top.Tenant, Bound: budget.NoBound()})
}

// Forget removes the accounts of tokens that no longer exist. gone reports
// whether it is certain that there is no token of that id.
func (a *Admission) Forget(ctx context.Context, gone func(id string) bool) error {
	if a.ledger == nil {
		return nil
	}
	_, err := a.ledger.Remove(ctx, func(e ledger.Entry) bool {
		id, ok := strings.CutPrefix(e.ID, tokenAccount)
		return ok && gone(id)
	})
	return err
}

// A purse draws from the accounts of a caller. Of the accounts above its own the
// caller learns only that they have too little.
type purse struct {
	inner budget.Source
	own   string // account
}

// Reserve implements [budget.Source].
func (p purse) Reserve(ctx context.Context, want budget.Amount) (budget.Reservation, error) {
	r, err := p.inner.Reserve(ctx, want)
	if err != nil {
		return nil, discreet(p.own, err)
	}
	return drawn{r, p.own}, nil
}

type drawn struct {
	budget.Reservation
	own string
}

// More implements [budget.Reservation].
func (d drawn) More(ctx context.Context, least, want budget.Amount) (budget.Amount, error) {
	got, err := d.Reservation.More(ctx, least, want)
	return got, discreet(d.own, err)
}

// discreet returns an error without what it contains of accounts other than own.
func discreet(own string, err error) error {
	var e *sandbox.Error
	if err == nil || !errors.As(err, &e) || e.Resource == own {
		return err
	}
	bare := &sandbox.Error{Code: e.Code, Op: e.Op, Field: e.Field, Retryable: e.Retryable, Message: "the budget of the token cannot be drawn from now"}
	if e.Code == sandbox.CodeBudgetExceeded {
		bare.Message = "the budget of a token that this one was made from does not have enough " + strings.TrimPrefix(e.Field, "budget.")
		bare.Hint = "ask the operator for another token"
	}
	if e.Code == sandbox.CodePermissionDeny || e.Code == sandbox.CodeNotFound {
		bare.Code, bare.Message = sandbox.CodePermissionDeny, "the token is not good any more"
	}
	return bare
}
