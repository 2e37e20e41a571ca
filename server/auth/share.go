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
