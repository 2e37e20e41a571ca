package auth

import (
	"net/http"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// The headers by which a caller says on whose behalf it asks.
const (
	TenantHeader  = "Sandbox-Tenant"
	AgentHeader   = "Sandbox-Agent"
	SessionHeader = "Sandbox-Session"
)

// Who returns the names on whose behalf the caller sends r: as the headers say,
// and without headers, those that the caller's token is bound to, and else the
// default names. A header that occurs twice or holds no valid name is
// [sandbox.CodeValidation], one with a name that the caller may not use
// [sandbox.CodePermissionDeny].
func (c Caller) Who(r *http.Request) (config.Who, error) {
	who := config.Who{Tenant: c.Tenant, Agent: c.Agent, Session: c.Session}
	if who.Agent == "" {
		who.Agent = config.DefaultAgent
	}
	if who.Session == "" {
		who.Session = config.DefaultSession
	}
	for _, h := range []struct {
		name string
		to   *string
	}{{TenantHeader, &who.Tenant}, {AgentHeader, &who.Agent}, {SessionHeader, &who.Session}} {
		values := r.Header.Values(h.name)
		switch len(values) {
		case 0:
		case 1:
			*h.to = values[0]
		default:
			return config.Who{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: h.name, Message: "the header is there more than once", Hint: "send it once"}
		}
	}
	return who, c.Speaks(who)
}

// Speaks returns an error when the names of who are not valid
// ([sandbox.CodeValidation]) or the caller may not use them
// ([sandbox.CodePermissionDeny]). It checks names that do not come from the
// headers, but for example from the body.
func (c Caller) Speaks(who config.Who) error {
	if err := who.Validate(); err != nil {
		return err
	}
	if c.claims().Allows(who.Tenant, who.Agent, who.Session) {
		return nil
	}
	name, bound := SessionHeader, c.Session
	switch {
	case c.Role != token.Admin && c.Tenant != who.Tenant:
		name, bound = TenantHeader, c.Tenant
	case c.Agent != "" && c.Agent != who.Agent:
		name, bound = AgentHeader, c.Agent
	}
	return &sandbox.Error{
		Code: sandbox.CodePermissionDeny, Op: op, Field: name, Message: "the token is not for what the request names",
		Hint: "leave " + name + " out, or set it to " + bound,
	}
}

// claims are what the caller may name.
func (c Caller) claims() token.Claims {
	return token.Claims{Role: c.Role, Tenant: c.Tenant, Agent: c.Agent, Session: c.Session}
}
