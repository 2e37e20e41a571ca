package console

import (
	"net/http"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/auth"
)

const (
	// cookieName begins the name of the cookie. The port of the daemon follows,
	// because the cookies of a host are those of all its ports.
	cookieName = "sandbox-console"
	// hostPrefix makes browsers hold that a cookie is of this host alone and came
	// over TLS; see RFC 6265bis section 4.1.3.2.
	hostPrefix = "__Host-"
	// protocol is the subprotocol of WebSockets of the console. The key of the
	// login is another one, because a page cannot set headers of a WebSocket.
	protocol    = "sandbox-console"
	keyProtocol = "sandbox-console-key."
	// tenantProtocol stands for the header [auth.TenantHeader] in the same way.
	tenantProtocol = "sandbox-console-tenant."
	// mostCookies is how many cookies of that name are looked at: code at another
	// port may set some.
	mostCookies = 8
)

// nameOf returns the name of the cookie for a request's host.
func nameOf(host string, secure bool) string {
	name := cookieName
	if at := strings.LastIndexByte(host, ':'); at >= 0 && !strings.HasSuffix(host, "]") {
		name += "-" + host[at+1:]
	}
	if secure {
		name = hostPrefix + name
	}
	return name
}

// cookies returns the values of cookies that may be those of a login.
func cookies(r *http.Request) []string {
	var out []string
	for _, c := range r.Cookies() {
		if (c.Name == nameOf(r.Host, true) || c.Name == nameOf(r.Host, false)) && len(out) < mostCookies {
			out = append(out, c.Value)
		}
	}
	return out
}

// keyOf returns the key that a request was sent with.
func keyOf(r *http.Request) (key string, socket bool) {
	socket = strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
	if values := r.Header.Values(api.HeaderConsole); len(values) == 1 {
		return values[0], socket
	}
	if socket {
		key, _ = offered(r, keyProtocol)
	}
	return key, socket
}

// offered returns what follows prefix in the first subprotocol that begins with it.
func offered(r *http.Request, prefix string) (rest string, ok bool) {
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for part := range strings.SplitSeq(line, ",") {
			if rest, ok = strings.CutPrefix(strings.TrimSpace(part), prefix); ok {
				return rest, true
			}
		}
	}
	return "", false
}

// Identify returns the caller of a request that has the key of a login, and false
// for every other request. The key without its cookie, one that has ended, and a
// request that another page has sent are errors.
//
// A login reaches the routes of /v1 alone, and of them not the ports of sandboxes,
// whose pages would be served from the console's own origin.
func (c *Console) Identify(r *http.Request) (caller auth.Caller, ok bool, err error) {
	key, socket := keyOf(r)
	if key == "" || len(r.Header.Values("Authorization")) > 0 {
		return auth.Caller{}, false, nil
	}
	path := r.URL.EscapedPath()
	if !strings.HasPrefix(path, api.Prefix+"/") {
		return auth.Caller{}, true, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "identify", Field: "path", Message: "a login of the console reaches /v1 alone", Hint: "use a token"}
	}
	if part := strings.Split(path, "/"); len(part) > 5 && part[4] == "ports" {
		return auth.Caller{}, true, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "identify", Field: "path", Message: "a login of the console reaches ports of sandboxes by their own host names alone", Hint: "make a link: POST /v1/sandboxes/NAME/shares"}
	}
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	if !safe || socket {
		if err := auth.OwnPage(r); err != nil {
			return auth.Caller{}, true, err
		}
	}
	g, found := c.find(cookies(r), key, r.Header.Get(api.HeaderBackground) != "1")
	if !found {
		return auth.Caller{}, true, ended()
	}
	caller, err = auth.Again(c.o.Tokens, g.caller)
	if err != nil {
		c.mu.Lock()
		c.end(g)
		c.mu.Unlock()
		return auth.Caller{}, true, ended()
	}
	if tenant, given := offered(r, tenantProtocol); socket && given && r.Header.Get(auth.TenantHeader) == "" {
		r.Header.Set(auth.TenantHeader, tenant) // which is checked as every one
	}
	caller.ReadOnly, caller.Over, caller.Protocol = g.readOnly, g.over, upgraded(r)
	return caller, true, nil
}

// upgraded returns the subprotocol with which a WebSocket of the console is
// answered, and "" for other requests.
func upgraded(r *http.Request) string {
	if _, socket := keyOf(r); !socket {
		return ""
	}
	if rest, ok := offered(r, protocol); !ok || rest != "" {
		return ""
	}
	return protocol
}

// ended is the error for a login that is not good any more. It has the form of
// [auth.Challenge], so that it is answered with 401.
func ended() error {
	return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "identify", Field: "authorization", Message: "the login has ended", Hint: "log in again: sandbox ui"}
}

// loginOf returns the login of a request that [Console.Identify] has identified.
func (c *Console) loginOf(r *http.Request) (*login, bool) {
	key, _ := keyOf(r)
	return c.find(cookies(r), key, false)
}
