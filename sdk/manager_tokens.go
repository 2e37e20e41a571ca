package sdk

import (
	"context"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// Tokens are those of a daemon, as far as they are the caller's to see: its own
// and those that were made from it, and all for admins.
type managerTokens struct{ d *Manager }

// Tokens returns the bearer tokens.
func (d *Manager) Tokens() managerTokens { return managerTokens{d} }

// Create makes a token from its parent, or from the one that the daemon is asked
// with. It is good for as long as Expires is away, in whole seconds, and without
// for as long as the daemon has it.
func (t managerTokens) Create(ctx context.Context, c token.Claims) (secret string, made token.Token, err error) {
	r := api.CreateToken{Role: string(c.Role), Tenant: c.Tenant, Agent: c.Agent, Session: c.Session, Quota: c.Quota, Note: c.Note, Parent: c.Parent, Endless: c.Endless}
	if !c.Expires.IsZero() {
		r.TTLSeconds = max(1, int64((time.Until(c.Expires)+time.Second-1)/time.Second))
	}
	n, err := t.d.c.CreateToken(ctx, r)
	if err != nil {
		return "", token.Token{}, err
	}
	if !plain(n.Secret) {
		return "", token.Token{}, noToken("create token")
	}
	l, err := listed("create token", n.Token)
	return n.Secret, l.Token, err
}

// Get tells of a token that is good.
func (t managerTokens) Get(ctx context.Context, id string) (token.Token, error) {
	one, err := t.d.c.Token(ctx, id)
	if err != nil {
		return token.Token{}, err
	}
	l, err := listed("get token", one)
	if err == nil && l.Refused != "" {
		err = &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "get token", Resource: id, Message: "the token is not good any more", Hint: "see sandbox token list"}
	}
	return l.Token, err
}

// List returns the tokens, the newest first.
func (t managerTokens) List(ctx context.Context) (token.Listing, error) {
	all, err := t.d.c.Tokens(ctx)
	out := token.Listing{Tokens: []token.Listed{}, Damaged: all.Damaged}
	for _, one := range all.Items {
		l, err := listed("list tokens", one)
		if err != nil {
			return token.Listing{}, err
		}
		out.Tokens = append(out.Tokens, l)
	}
	return out, err
}

// Revoke takes a token back, and names all that fell with it.
func (t managerTokens) Revoke(ctx context.Context, id string) ([]string, error) {
	r, err := t.d.c.RevokeToken(ctx, id)
	for _, id := range r.Revoked {
		if !plain(id) {
			return nil, noToken("revoke token")
		}
	}
	return r.Revoked, err
}

func listed(op string, t api.Token) (token.Listed, error) {
	out := token.Listed{Refused: t.Refused, Token: token.Token{
		ID: t.ID, Created: t.Created, Claims: token.Claims{
			Role: token.Role(t.Role), Tenant: t.Tenant, Agent: t.Agent, Session: t.Session, Expires: t.Expires,
			Parent: t.Parent, Quota: t.Quota, Budget: t.Budget, Note: t.Note,
		},
	}}
	if !plain(t.ID) || t.Parent != "" && !plain(t.Parent) {
		return token.Listed{}, noToken(op)
	}
	return out, nil
}

func noToken(op string) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Message: "what the daemon tells of is no token"}
}

// plain reports whether s can be a secret or an id: these are shown as they are,
// also on a terminal.
func plain(s string) bool {
	const signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return s != "" && len(s) <= 256 && strings.Trim(s, signs) == ""
}
