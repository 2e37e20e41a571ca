package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/tenant"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A TokenStore keeps bearer tokens: one of this machine, as *token.Store does,
// or a daemon's.
type TokenStore interface {
	Create(ctx context.Context, c token.Claims) (secret string, made token.Token, err error)
	Get(ctx context.Context, id string) (token.Token, error)
	List(ctx context.Context) (token.Listing, error)
	Revoke(ctx context.Context, id string) (fallen []string, err error)
}

// noExpiry is the word for a token that is good for ever.
const noExpiry = "never"

func (a *app) tokenCommand() *ucli.Command {
	return &ucli.Command{
		Name:        "token",
		Usage:       "make, show or take back the tokens with which programs speak to the server",
		UsageText:   "sandbox token (create | list | revoke) [flags]",
		Subcommands: []*ucli.Command{a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand()},
	}
}

func (a *app) tokenCreateCommand() *ucli.Command {
	w := &tokenWish{}
	return &ucli.Command{
		Name:      "create",
		Usage:     "make a token and print its secret, which cannot be shown again",
		UsageText: "sandbox token create --tenant TENANT [flags]",
		Description: "A token is for one tenant, or for one agent of it when --agent is given, or for one session of it with\n" +
			"--role session and --session; with --role admin it is for every tenant.\n" +
			"--parent makes one with less than the token with that id, or as much; it falls with it. Through a daemon the token\n" +
			"of --token-file is the parent unless another is named.\n" +
			"--quota bounds what is held with the token, in addition to what bounds the tenant: " + strings.Join(quotaNames(), ", ") + ".\n" +
			"--budget bounds what is used with the token in all, which a restart does not give back: " + strings.Join(budgetNames(), ", ") + ".",
		Flags: w.flags(),
		Action: func(c *ucli.Context) error {
			claims, err := w.claims(a, time.Now())
			if err == nil {
				err = noArguments(c)
			}
			if err != nil {
				return err
			}
			return a.withTokens(func(s TokenStore) error {
				if err := w.bound(c.Context, s, &claims); err != nil {
					return err
				}
				return a.createToken(c.Context, s, claims)
			})
		},
	}
}

func (a *app) tokenListCommand() *ucli.Command {
	return &ucli.Command{
		Name:        "list",
		Usage:       "show the tokens, the newest first, without their secrets",
		UsageText:   "sandbox token list [flags]",
		Description: "All of them, or those of one tenant with --tenant.",
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return a.withTokens(func(s TokenStore) error { return a.listTokens(c.Context, s) })
		},
	}
}

func (a *app) tokenRevokeCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "revoke",
		Usage:     "take tokens back, and with them all that were made from them",
		UsageText: "sandbox token revoke ID…",
		Description: "Ids are those of list; an id is no secret. A token is refused from then on, by servers that run too;\n" +
			"what was begun with it goes on.",
		Action: func(c *ucli.Context) error {
			ids := c.Args().Slice()
			if len(ids) == 0 {
				return usagef("token revoke", "name the id of at least one token, see sandbox token list")
			}
			return a.withTokens(func(s TokenStore) error { return a.revokeTokens(c.Context, s, ids) })
		},
	}
}

// A tokenWish is what the flags say about a token to be made.
type tokenWish struct {
	role, expires, parent, note text
	quotas, budgets             texts
}

func (w *tokenWish) flags() []ucli.Flag {
	w.role.check = oneOf(string(token.Admin), string(token.Tenant), string(token.Session))
	w.role.value = string(token.Tenant)
	w.expires.check = checkExpiry
	w.parent.check = notEmpty
	w.quotas.check = func(s string) error { _, err := parseQuota(tenant.NoLimits(), s); return err }
	w.budgets.check = func(s string) error { _, err := parseBudget(budget.NoBound(), s); return err }
	return []ucli.Flag{
		&ucli.GenericFlag{Name: "role", Usage: "`ROLE`, how far it reaches: admin, tenant or session", Value: &w.role},
		&ucli.GenericFlag{Name: "expires", Usage: "after this `TIME`, an age like 8h or 30d, or " + noExpiry + "; default the parent's end, or 90d", Value: &w.expires},
		&ucli.GenericFlag{Name: "parent", Usage: "make it from the token with this `ID`", Value: &w.parent},
		&ucli.GenericFlag{Name: "quota", Usage: "at most this of something, like sandboxes=5 or memory=2g; may be repeated (`NAME=N`)", Value: &w.quotas},
		&ucli.GenericFlag{Name: "budget", Usage: "this much of something in all, like calls=1000 or bytesIn=2g; may be repeated (`NAME=N`)", Value: &w.budgets},
		&ucli.GenericFlag{Name: "note", Usage: "`TEXT` for people, what it is for", Value: &w.note},
	}
}

// claims reads the flags at now.
func (w *tokenWish) claims(a *app, now time.Time) (token.Claims, error) {
	c := token.Claims{Role: token.Role(w.role.value), Tenant: a.globals.tenant.value, Parent: w.parent.value, Note: w.note.value}
	if a.globals.agent.given {
		c.Agent = a.globals.agent.value
	}
	if a.globals.session.given {
		c.Session = a.globals.session.value
	}
	h, err := a.globals.daemon()
	if err != nil {
		return c, err
	}
	from := c.Parent != "" || h.Token != "" // a daemon makes it from the token that it is asked with
	switch {
	case c.Role == token.Admin && (c.Tenant != "" || c.Agent != "" || c.Session != ""):
		return c, usagef("token create", "a token for all tenants takes neither --tenant nor --agent nor --session")
	case c.Role != token.Admin && c.Tenant == "" && !from:
		return c, usagef("token create", "name the --tenant that the token is for")
	case c.Role == token.Session && c.Session == "" && !from:
		return c, usagef("token create", "name the --session that the token is for")
	case c.Role == token.Tenant && c.Session != "":
		return c, usagef("token create", "a token for one session needs --role session")
	case c.Role == token.Session && w.expires.value == noExpiry:
		return c, usagef("token create", "a token for one session has to end; leave out --expires never")
	}
	switch e := w.expires.value; {
	case e == noExpiry:
		c.Endless = true
	case e != "":
		c.Expires = now.Add(mustExpiry(e))
	}
	return c, nil
}

// bound adds the bounds that the flags say to c. What they do not say is as with
// the parent.
func (w *tokenWish) bound(ctx context.Context, s TokenStore, c *token.Claims) (err error) {
	var parent token.Token
	if w.parent.given && len(w.quotas.values)+len(w.budgets.values) > 0 {
		if parent, err = s.Get(ctx, w.parent.value); err != nil {
			return err
		}
	}
	if c.Quota, err = bounds(w.quotas.values, parent.Quota, tenant.NoLimits(), parseQuota); err != nil {
		return err
	}
	c.Budget, err = bounds(w.budgets.values, parent.Budget, budget.NoBound(), parseBudget)
	return err
}

// bounds returns what the values of a flag come to, laid over those of the parent,
// which are nil where it has none, and then over most. Of no values it is nil.
func bounds[T any](values []string, parent *T, most T, parse func(T, string) (T, error)) (*T, error) {
	if len(values) == 0 {
		return nil, nil
	}
	if parent != nil {
		most = *parent
	}
	for _, v := range values {
		var err error
		if most, err = parse(most, v); err != nil {
			return nil, usagef("token create", "%v", err)
		}
	}
	return &most, nil
}

func (a *app) withTokens(fn func(TokenStore) error) error {
	o, err := a.hosted()
	if err != nil {
		return err
	}
	s, release, err := a.Backend.Tokens(o)
	if err != nil {
		return err
	}
	defer release()
	return fn(s)
}

// A tokenView is a token as JSON shows it.
type tokenView struct {
	token.Token
	Secret  string `json:"token,omitempty"`   // of one that was just made
	Refused string `json:"refused,omitempty"` // why it is not good any more
}

func (a *app) createToken(ctx context.Context, s TokenStore, c token.Claims) error {
	secret, t, err := s.Create(ctx, c)
	if err != nil {
		return err
	}
	if a.globals.json() {
		return writeJSON(a.Stdout, tokenView{Token: t, Secret: secret})
	}
	if _, err := io.WriteString(a.Stdout, secret+"\n"); err != nil {
		return err
	}
	a.say("this is the secret of token %s, good for %s until %s; it cannot be shown again", t.ID, cell(reach(t.Claims)), expiryCell(t.Expires))
	return nil
}

func (a *app) listTokens(ctx context.Context, s TokenStore) error {
	l, err := s.List(ctx)
	if err != nil {
		return err
	}
	view := struct {
		Tokens  []tokenView `json:"tokens"`
		Damaged []string    `json:"damaged"` // paths
	}{[]tokenView{}, notNil(l.Damaged)}
	for _, t := range l.Tokens {
		if !a.globals.tenant.given || t.Tenant == a.globals.tenant.value {
			view.Tokens = append(view.Tokens, tokenView{Token: t.Token, Refused: t.Refused})
		}
	}
	if a.globals.json() {
		err = writeJSON(a.Stdout, view)
	} else {
		err = a.tokenTable(view.Tokens)
	}
	if err != nil || len(l.Damaged) == 0 {
		return err
	}
	for _, path := range l.Damaged {
		a.say("%s is damaged or no token: it is not shown, and cannot be used", cell(path))
	}
	return silentStatus(1)
}

func (a *app) tokenTable(tokens []tokenView) error {
	t := a.newTable([]string{"ID", "ROLE", "TENANT", "AGENT", "SESSION", "CREATED", "EXPIRES", "PARENT", "STATUS", "NOTE"},
		"PARENT", "NOTE", "TENANT", "AGENT", "SESSION", "CREATED")
	for _, one := range tokens {
		status := one.Refused
		if status == "" {
			status = "good"
		}
		t.add(one.ID, string(one.Role), one.Tenant, one.Agent, one.Session, shownTime(one.Created), expiryCell(one.Expires), one.Parent, status, one.Note)
	}
	return t.write(a.Stdout)
}

func (a *app) revokeTokens(ctx context.Context, s TokenStore, ids []string) error {
	revoked := []string{}
	var failed error
	for _, id := range ids {
		fallen, err := s.Revoke(ctx, id)
		revoked = append(revoked, fallen...)
		if err != nil {
			failed = err
			break
		}
	}
	var err error
	if a.globals.json() {
		err = writeJSON(a.Stdout, struct {
			Revoked []string `json:"revoked"`
		}{revoked})
	} else if len(revoked) > 0 {
		_, err = fmt.Fprintf(a.Stdout, "revoked %s: %s\n", count(len(revoked), "token", "tokens"), strings.Join(revoked, " "))
	}
	if failed != nil {
		return failed
	}
	return err
}

// reach says in words whom a token is for.
func reach(c token.Claims) string {
	out := "every tenant"
	if c.Role != token.Admin {
		out = "tenant " + c.Tenant
	}
	if c.Agent != "" {
		out += ", agent " + c.Agent
	}
	if c.Session != "" {
		out += ", session " + c.Session
	}
	return out
}

func expiryCell(t time.Time) string {
	if t.IsZero() {
		return noExpiry
	}
	return shownTime(t)
}
