package auth

import (
	"net/http"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// OnBehalf returns the caller of a request that the token with that id has let
// others make for one session; an empty id is a user of this machine. The caller
// may use that session alone, what it uses is charged to the token, and it ends
// with the token. A token that is not good any more is an error.
func OnBehalf(store *token.Store, id string, who config.Who) (Caller, error) {
	c := Caller{Role: token.Session, Tenant: who.Tenant, Agent: who.Agent, Session: who.Session}
	if id == "" {
		return c, nil
	}
	if store == nil {
		return Caller{}, refuse("there are no tokens", hintToken)
	}
	t, err := store.Get(id)
	if err != nil {
		return Caller{}, err
	}
	c.Token, c.store = &t, store
	return c, nil
}

// Again returns the caller c of an earlier request as it is now, for a login that c
// has made. It may do what its token allows at this time; a token that is not good
// any more is an error. A caller that has no token stays an admin of this machine.
func Again(store *token.Store, c Caller) (Caller, error) {
	out := Caller{Role: c.Role, Tenant: c.Tenant, Agent: c.Agent, Session: c.Session, Login: true}
	if c.Token == nil {
		return out, nil
	}
	if store == nil {
		return Caller{}, refuse("there are no tokens", hintToken)
	}
	t, err := store.Get(c.Token.ID)
	if err != nil {
		return Caller{}, err
	}
	out.Role, out.Token, out.Tenant, out.Agent, out.Session, out.store = t.Role, &t, t.Tenant, t.Agent, t.Session, store
	return out, nil
}

// OwnPage refuses a request that no page of the same origin has sent: a browser
// says so by the header Origin, or by Sec-Fetch-Site where it sends none. It is for
// requests to which a browser adds cookies by itself.
func OwnPage(r *http.Request) error {
	foreign := &sandbox.Error{
		Code: sandbox.CodePermissionDeny, Op: op, Field: "Origin", Message: "only pages of the console itself have access by its cookie",
		Hint: "programs send the header Authorization: Bearer TOKEN",
	}
	origins, sites := r.Header.Values("Origin"), r.Header.Values("Sec-Fetch-Site")
	for _, origin := range origins {
		if !ownOrigin(origin, r.Host) {
			return foreign
		}
	}
	for _, site := range sites {
		if site != "same-origin" {
			return foreign
		}
	}
	if len(origins) > 1 || len(sites) > 1 || len(origins)+len(sites) == 0 {
		return foreign
	}
	return nil
}

// Loopback reports whether a Host header names this machine whatever a name server
// answers.
func Loopback(host string) bool {
	name, ok := hostName(host)
	return ok && loopback(name)
}

// SameSite refuses a request to which a browser has added cookies unless it comes
// from a page of the same host, or follows a link. [Admit] is the same for
// requests that no cookie authorizes.
func SameSite(r *http.Request) error {
	foreign := &sandbox.Error{
		Code: sandbox.CodePermissionDeny, Op: op, Field: "Origin", Message: "pages of other origins have no access",
		Hint: "send the secret of the link in the header Sandbox-Share",
	}
	for _, origin := range r.Header.Values("Origin") {
		if !ownOrigin(origin, r.Host) {
			return foreign
		}
	}
	follows := (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "none" && site != "same-origin" && !follows {
			return foreign
		}
	}
	return nil
}
