package console

import (
	"net/http"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

var _ resource.Resource = (*Console)(nil)

// Routes implements [resource.Resource].
func (c *Console) Routes() []resource.Route {
	const tag, path = "daemon", api.Prefix + "/console"
	return []resource.Route{{
		ID: "getConsole", Method: http.MethodGet, Path: path, Tag: tag, Role: token.Session,
		Summary: "Report whose rights the caller has", Response: api.Console{}, Do: c.describe,
	}, {
		ID: "endConsole", Method: http.MethodDelete, Path: path, Tag: tag, Role: token.Session, Safe: true,
		Summary: "Log out of the console", Doc: "It ends the login that the request has come with. Its streams and terminals end too. A request with a token has no login to end.",
		Errors: []int{404}, Do: c.logout,
	}, {
		ID: "createConsoleLink", Method: http.MethodPost, Path: path + "/links", Tag: tag, Role: token.Session,
		Summary: "Make a login link of the console", Doc: "It logs one browser in. It works once, within a minute, and gives the rights of the caller, for as long as those last and twelve hours at most.",
		Request: api.CreateConsoleLink{}, Response: api.ConsoleLink{}, Status: http.StatusCreated, Do: c.createLink,
	}}
}

func (c *Console) describe(call *resource.Call) (any, error) {
	k := call.Caller
	out := api.Console{Role: string(k.Role), Tenant: k.Tenant, Agent: k.Agent, Session: k.Session, ReadOnly: k.ReadOnly, Login: k.Login, Version: c.o.Version}
	if k.Login {
		if g, ok := c.loginOf(call.Request); ok {
			out.Expires, out.Idle = g.began.Add(maxLife).UTC(), int64(idleLife/time.Second)
		}
		if k.Token != nil && !k.Token.Expires.IsZero() && k.Token.Expires.Before(out.Expires) {
			out.Expires = k.Token.Expires.UTC()
		}
	}
	return out, nil
}

func (c *Console) logout(call *resource.Call) (any, error) {
	g, ok := c.loginOf(call.Request)
	if !ok || !call.Caller.Login {
		return nil, resource.Hide("login", "")
	}
	c.mu.Lock()
	c.end(g)
	c.mu.Unlock()
	for _, secure := range []bool{true, false} {
		http.SetCookie(call.Writer, &http.Cookie{Name: nameOf(call.Request.Host, secure), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure, MaxAge: -1})
	}
	return nil, nil
}

func (c *Console) createLink(call *resource.Call) (any, error) {
	in, err := resource.Body[api.CreateConsoleLink](call)
	if err != nil {
		return nil, err
	}
	if call.Caller.Login { // or a login would have no end
		return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "log in", Message: "a login makes no link for another one", Hint: "make it with the token: sandbox ui"}
	}
	secret, expires, err := c.link(call.Caller, in.ReadOnly)
	if err != nil {
		return nil, err
	}
	return api.ConsoleLink{Path: Path + "#login=" + secret, Expires: expires.UTC()}, nil
}
