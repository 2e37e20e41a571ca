// This file holds the resource for bearer tokens: a caller makes tokens with at
// most its own rights, and lists and revokes them; the answer that creates a
// token is the only one with its secret.

package resource

import (
	"cmp"
	"net/http"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A tokensStore keeps tokens; *token.Store is one.
type tokensStore interface {
	Create(c token.Claims) (secret, id string, err error)
	Get(id string) (token.Token, error)
	List() (token.Listing, error)
	ListBelow(id string) (token.Listing, error)
	Find(id, top string) (token.Listed, error)
	Revoke(id string) (fallen []string, err error)
}

// A tokensResource has the routes.
type tokensResource struct {
	store tokensStore
	now   func() time.Time
	lists keylock.Turns // by tenant: each looks at the tokens of all
}

// NewTokens returns the resource.
func NewTokens(s tokensStore) *tokensResource { return &tokensResource{store: s, now: time.Now} }

// Routes implements [Resource].
func (x *tokensResource) Routes() []Route {
	return []Route{{
		ID: "listTokens", Method: http.MethodGet, Path: api.Prefix + "/tokens", Tag: "tokens", Role: token.Session,
		Summary: "List the tokens that were made from the caller's own", Doc: "The newest first, without secrets. Admins see all.",
		Response: api.TokenList{}, Errors: []int{503}, Do: x.list,
	}, {
		ID: "createToken", Method: http.MethodPost, Path: api.Prefix + "/tokens", Tag: "tokens", Role: token.Session,
		Summary: "Make a token with less than the caller's own, or as much", Doc: "The secret is in this answer and never again.",
		Request: api.CreateToken{}, Response: api.NewToken{}, Status: http.StatusCreated, Errors: []int{404, 503}, Do: x.create,
	}, {
		ID: "getToken", Method: http.MethodGet, Path: api.Prefix + "/tokens/{id}", Tag: "tokens", Role: token.Session,
		Summary: "Get a token", Doc: "Without its secret. It is the caller's own, or was made from that; admins get any.",
		Response: api.Token{}, Errors: []int{404, 503}, Do: x.get,
	}, {
		ID: "revokeToken", Method: http.MethodDelete, Path: api.Prefix + "/tokens/{id}", Tag: "tokens", Role: token.Session,
		Summary: "Revoke a token", Doc: "And with it all that were made from it. It is the caller's own, or was made from that.",
		Response: api.Revoked{}, Errors: []int{404, 503}, Do: x.revoke,
	}}
}

// mine lists the tokens that the caller may see and revoke: all for admins, and
// else its own and the tokens derived from it.
//
// It reads the files of all tenants' tokens, so of each tenant one caller does
// that at a time, and the others of that tenant wait; all admins count as one.
func (x *tokensResource) mine(c *Call) (token.Listing, error) {
	own := ownID(c)
	if own == "" && !c.Admin() {
		return token.Listing{}, nil
	}
	turn := "all tokens"
	if !c.Admin() {
		turn = "tokens of tenant " + c.Caller.Tenant
	}
	release, err := x.lists.Enter(c.Context(), turn)
	if err != nil {
		return token.Listing{}, err
	}
	defer release()
	if c.Admin() {
		return x.store.List()
	}
	return x.store.ListBelow(own)
}

// one returns the token with that id, if the caller may see it.
func (x *tokensResource) one(c *Call, id string) (token.Listed, error) {
	top := ownID(c)
	if c.Admin() {
		top = ""
	} else if top == "" {
		return token.Listed{}, Hide("token", id)
	}
	t, err := x.store.Find(id, top)
	switch sandbox.CodeOf(err) {
	case sandbox.CodeNotFound, sandbox.CodeValidation:
		return token.Listed{}, Hide("token", id)
	}
	return t, err
}

// ownID returns the id of the caller's token, or "".
func ownID(c *Call) string {
	if c.Caller.Token == nil {
		return ""
	}
	return c.Caller.Token.ID
}

func (x *tokensResource) list(c *Call) (any, error) {
	l, err := x.mine(c)
	if err != nil {
		return nil, err
	}
	out := api.TokenList{Items: []api.Token{}, Damaged: l.Damaged}
	for _, t := range l.Tokens {
		if t.ID != ownID(c) {
			out.Items = append(out.Items, tokenOf(t.Token, t.Refused))
		}
	}
	return out, nil
}

func (x *tokensResource) get(c *Call) (any, error) {
	t, err := x.one(c, c.Path("id"))
	if err != nil {
		return nil, err
	}
	return tokenOf(t.Token, t.Refused), nil
}

func tokenOf(t token.Token, refused string) api.Token {
	return api.Token{
		ID: t.ID, Role: string(t.Role), Tenant: t.Tenant, Agent: t.Agent, Session: t.Session, Parent: t.Parent,
		Created: t.Created.UTC(), Expires: t.Expires, Note: t.Note, Refused: refused, Quota: t.Quota, Budget: t.Budget,
	}
}

func (x *tokensResource) create(c *Call) (any, error) {
	in, err := Body[api.CreateToken](c)
	if err != nil {
		return nil, err
	}
	claims := token.Claims{Role: token.Role(in.Role), Tenant: in.Tenant, Agent: in.Agent, Session: in.Session, Quota: in.Quota, Note: in.Note, Endless: in.Endless}
	if claims.Role != token.Admin {
		claims.Tenant = cmp.Or(in.Tenant, c.Who.Tenant)
	}
	var above *grant.Budget
	agent := c.Caller.Agent // that the parent is bound to
	if t := c.Caller.Token; t != nil {
		claims.Parent, above = t.ID, t.Budget
	}
	if in.Parent != "" {
		parent, err := x.one(c, in.Parent)
		if err != nil {
			return nil, err
		}
		claims.Parent, above, agent = parent.ID, parent.Budget, parent.Agent
	}
	if agent == "" {
		claims.Agent = cmp.Or(in.Agent, agentOf(c, claims.Role))
	}
	claims.Budget = in.Budget.Under(above)
	if err := named(claims); err != nil {
		return nil, err
	}
	if in.TTLSeconds > 0 {
		claims.Expires = x.now().Add(time.Duration(in.TTLSeconds) * time.Second)
	}
	secret, id, err := x.store.Create(claims)
	if err != nil {
		return nil, err
	}
	t, err := x.store.Get(id)
	if err != nil {
		return nil, err
	}
	return api.NewToken{Secret: secret, Token: tokenOf(t, "")}, nil
}

// agentOf returns the agent to which a token is bound that names none: that of
// the request. A session belongs to one agent; a token for a whole tenant is for
// all of its agents where the request names none.
func agentOf(c *Call, role token.Role) string {
	named := c.Request.Header.Get(api.HeaderAgent) != ""
	if role == token.Session || role == token.Tenant && named {
		return c.Who.Agent
	}
	return ""
}

// named refuses names that are never valid: such a token would be of no use.
func named(c token.Claims) error {
	return config.Who{Tenant: c.Tenant, Agent: cmp.Or(c.Agent, config.DefaultAgent), Session: cmp.Or(c.Session, config.DefaultSession)}.Validate()
}

func (x *tokensResource) revoke(c *Call) (any, error) {
	t, err := x.one(c, c.Path("id"))
	if err != nil {
		return nil, err
	}
	fallen, err := x.store.Revoke(t.ID)
	if err != nil {
		return nil, err
	}
	return api.Revoked{Revoked: fallen}, nil
}
