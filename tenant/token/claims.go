package token

import (
	"cmp"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/tenant"
)

// A Role says how far a token reaches.
type Role string

// The roles, from the widest to the narrowest.
const (
	Admin   Role = "admin"   // every tenant
	Tenant  Role = "tenant"  // all of one tenant, or one agent of it
	Session Role = "session" // one session of one agent of one tenant
)

// rank orders the roles: less reaches further. It is 0 for what is no role.
func (r Role) rank() int {
	switch r {
	case Admin:
		return 1
	case Tenant:
		return 2
	case Session:
		return 3
	}
	return 0
}

// Usual is the lifetime of a token that is made without an expiry and whose
// parent, if any, has none either.
const Usual = 90 * 24 * time.Hour

// Claims are the permissions of a token. An empty Agent means every agent,
// except in the role session: a session belongs to one agent, so there it means
// the default agent. Expires of an existing token may be zero, for ever, unless
// the role is session.
type Claims struct {
	Role    Role      `json:"role"`
	Tenant  string    `json:"tenant,omitempty"`  // required, except for admins, who have none
	Agent   string    `json:"agent,omitempty"`   // of roles tenant and session
	Session string    `json:"session,omitempty"` // of the role session, required there
	Expires time.Time `json:"expires,omitzero"`
	Endless bool      `json:"-"`                // asks [Store.Create] for a token without an end, which Expires leaves to it
	Parent  string    `json:"parent,omitempty"` // id of the token that it was made from

	// Quota and Budget bound the usage of the token and of all tokens that are
	// made from it, together, below the tenant's own. nil means no such bound;
	// a child gets its parent's.
	Quota  *tenant.Limits `json:"quota,omitempty"`
	Budget *budget.Amount `json:"budget,omitempty"`

	Note string `json:"note,omitempty"` // for people: what it is for
}

const (
	maxName = 256 // bytes of names and notes
	create  = "create token"
)

// Allows reports whether the bearer of the token may access what belongs to the
// session of the agent of the tenant. An empty agent or session means what
// belongs to more than one of them.
func (c Claims) Allows(tenant, agent, session string) bool {
	switch c.Role {
	case Admin:
		return true
	case Tenant:
		return c.Tenant == tenant && (c.Agent == "" || c.Agent == agent)
	case Session:
		return c.Tenant == tenant && c.Session == session && c.bound().Agent == agent
	}
	return false
}

// bound returns the claims with the agent that a session of them belongs to.
func (c Claims) bound() Claims {
	if c.Role == Session {
		c.Agent = cmp.Or(c.Agent, sandbox.DefaultAgent)
	}
	return c
}

// check refuses claims that mean nothing, or more than one thing.
func (c Claims) check() error {
	field, message := c.fault()
	if field != "" {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: create, Field: field, Message: message}
	}
	if c.Quota != nil {
		if err := c.Quota.Check(); err != nil {
			return err
		}
	}
	if c.Budget != nil {
		return budget.CheckBound(*c.Budget)
	}
	return nil
}

func (c Claims) fault() (field, message string) {
	for _, t := range []struct{ field, text string }{{"tenant", c.Tenant}, {"agent", c.Agent}, {"session", c.Session}, {"note", c.Note}} {
		if !printable(t.text) {
			return t.field, "it is too long, or has signs in it that cannot be shown"
		}
	}
	switch {
	case c.Role.rank() == 0:
		return "role", "it is neither admin nor tenant nor session"
	case c.Role == Admin && c.Tenant != "":
		return "tenant", "an admin's token is for every tenant"
	case c.Role == Admin && c.Agent != "":
		return "agent", "an admin's token is for every agent"
	case c.Role != Admin && c.Tenant == "":
		return "tenant", "a token of this role needs one"
	case c.Role != Session && c.Session != "":
		return "session", "only a token of the role session is for one"
	case c.Role == Session && c.Session == "":
		return "session", "a token of this role needs one"
	case c.Endless && !c.Expires.IsZero():
		return "expires", "a token has an end or none"
	case c.Role == Session && c.Expires.IsZero():
		return "expires", "a token for one session has to end"
	case !c.Expires.IsZero() && !inRange(c.Expires):
		return "expires", "it is no time of this era"
	case c.Parent != "" && !isID(c.Parent):
		return "parent", "it is not the id of a token"
	}
	return "", ""
}

// inRange reports whether a time can be kept as it is.
func inRange(t time.Time) bool { return t.Year() >= 2000 && t.Year() < 10000 }

// printable reports whether s can be kept and shown as it is.
func printable(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return utf8.ValidString(s) && len(s) <= maxName
}

// within refuses claims of a child that allow what the parent's do not.
func (c Claims) within(parent Claims) error {
	switch {
	case c.Role.rank() < parent.Role.rank():
		return more("role", "")
	case parent.Role != Admin && c.Tenant != parent.Tenant:
		return more("tenant", "")
	case parent.bound().Agent != "" && c.bound().Agent != parent.bound().Agent:
		return more("agent", "")
	case parent.Role == Session && c.Session != parent.Session:
		return more("session", "")
	case !parent.Expires.IsZero() && (c.Expires.IsZero() || c.Expires.After(parent.Expires)):
		return more("expires", "")
	}
	switch {
	case parent.Quota == nil:
	case c.Quota == nil:
		return more("quota", "")
	default:
		if k, ok := c.Quota.Within(*parent.Quota); !ok {
			return more("quota.", k.String())
		}
	}
	switch {
	case parent.Budget == nil:
	case c.Budget == nil:
		return more("budget", "")
	default:
		if k, ok := budget.Within(*c.Budget, *parent.Budget); !ok {
			return more("budget.", k.String())
		}
	}
	return nil
}

// own returns the claims with nothing in them that others can change, and bound
// to an agent where they are for one session.
func (c Claims) own() Claims {
	c = c.bound()
	if c.Quota != nil {
		c.Quota = new(*c.Quota)
	}
	if c.Budget != nil {
		c.Budget = new(*c.Budget)
	}
	if !c.Expires.IsZero() {
		c.Expires = c.Expires.UTC().Truncate(time.Millisecond)
	}
	return c
}

// inherit returns the claims with what was left out as in the parent.
func (c Claims) inherit(parent Claims) Claims {
	if c.Tenant == "" && c.Role != Admin {
		c.Tenant = parent.Tenant
	}
	if c.Agent == "" && c.Role != Admin {
		c.Agent = parent.bound().Agent
	}
	if c.Session == "" && c.Role == Session {
		c.Session = parent.Session
	}
	if c.Expires.IsZero() && !c.Endless {
		c.Expires = parent.Expires
	}
	if c.Quota == nil {
		c.Quota = parent.Quota
	}
	if c.Budget == nil {
		c.Budget = parent.Budget
	}
	return c
}

func more(field, kind string) error {
	return &sandbox.Error{
		Code: sandbox.CodePermissionDeny, Op: create, Field: field + kind,
		Message: "it is more than the parent has", Hint: "ask for no more than the parent has",
	}
}
