// Package auth identifies the caller of a request to the daemon: the user of a
// process on this machine, as the kernel reports it, or the bearer of a token.
// The isolation of tenants depends on it, so it refuses what can be read in two
// ways: two Authorization headers, a token in a place that logs and browsers
// keep, a request that a page of another site may have sent.
package auth

import (
	"errors"
	"net/http"
	"os"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tenant"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A Caller is the sender of a request. The zero value may do nothing.
type Caller struct {
	Role  token.Role
	Token *token.Token // nil for users of this machine

	// Tenant, Agent and Session are what the token is bound to; empty is not
	// bound. Admins are bound to nothing.
	Tenant  string
	Agent   string
	Session string

	// Local says that the request came over a unix socket.
	Local bool

	// Login says that a cookie of the web console identifies the caller, and
	// ReadOnly that it may change nothing. Over is closed when that login has
	// ended; nil is never.
	Login    bool
	ReadOnly bool
	Over     <-chan struct{}

	// Protocol is the subprotocol that the caller's WebSockets are answered with,
	// where a browser needs one; empty is none.
	Protocol string

	store *token.Store // that knows Token
}

const (
	op        = "identify"
	field     = "authorization"
	hintToken = "send the header Authorization: Bearer TOKEN; the command line takes it from --token-file or $SANDBOX_TOKEN"
)

// Identify returns the sender of r. A request with a token belongs to that
// token, over every socket. Without a token it belongs to an admin when it came
// over a unix socket whose other end runs as root or as our own user, and no
// proxy header says that it was forwarded.
//
// Errors for which [Challenge] is true are answered with 401. A token is looked
// up for every request, so the next request after a revocation is refused; for
// longer requests there is [Caller.Watch].
func Identify(store *token.Store, r *http.Request) (Caller, error) {
	peer, local := peerOf(r.Context())
	if err := misplaced(r); err != nil {
		return Caller{}, err
	}
	secret, given, err := bearer(r)
	if err != nil {
		return Caller{}, err
	}
	if given {
		t, err := store.Verify(secret)
		if err != nil {
			return Caller{}, err
		}
		return Caller{Role: t.Role, Token: &t, Tenant: t.Tenant, Agent: t.Agent, Session: t.Session, Local: local, store: store}, nil
	}
	switch {
	case !local:
		return Caller{}, refuse("no token was sent", hintToken)
	case peer.known && peer.alien:
		return Caller{}, refuse("the process at the other end of the socket is in another pid, mount or user namespace than the server, such as a container's", hintToken)
	case !peer.trusted(os.Getuid()):
		return Caller{}, refuse("the process at the other end of the socket belongs to another user", hintToken)
	case passedOn(r):
		return Caller{}, refuse("a proxy passes this request on, so it is not its user's own", "have the sender's Authorization header passed on too")
	}
	return Caller{Role: token.Admin, Local: true}, nil
}

// Budgeted returns the caller's token and its ancestors, in that order, as far
// as they have budgets. What the caller uses is charged to all of them.
func (c Caller) Budgeted() []token.Token {
	if c.Token == nil {
		return nil
	}
	return c.Token.Budgeted()
}

// Uncharged is the error for a token with a budget where usage is not charged.
func Uncharged() error {
	return &sandbox.Error{
		Code: sandbox.CodePermissionDeny, Op: op, Field: "budget", Message: "the token has a budget, which is not charged here, so the token cannot be used",
		Hint: "use one without a budget",
	}
}

// Challenge returns the value of the header WWW-Authenticate for an error that
// is answered with 401: the request has no valid token.
func Challenge(err error) (header string, ok bool) {
	const realm = `Bearer realm="sandbox"`
	var e *sandbox.Error
	switch {
	case token.Refused(err):
		return realm + `, error="invalid_token"`, true
	case errors.As(err, &e) && e.Code == sandbox.CodePermissionDeny && e.Op == op && e.Field == field:
		return realm, true
	}
	return "", false
}

// Reaches reports whether the caller's role is least or a wider one. An unknown
// role reaches nothing.
func (c Caller) Reaches(least token.Role) bool {
	have, need := reach(c.Role), reach(least)
	return have > 0 && need > 0 && have >= need
}

func reach(r token.Role) int {
	switch r {
	case token.Admin:
		return 3
	case token.Tenant:
		return 2
	case token.Session:
		return 1
	}
	return 0
}

// Accounts returns the accounts that are charged when the caller acts for the
// tenant, which has the limits. See [token.Token.Accounts].
func (c Caller) Accounts(tenant string, limits tenant.Limits) []tenant.Account {
	if c.Token == nil {
		return token.Token{}.Accounts(tenant, limits)
	}
	return c.Token.Accounts(tenant, limits)
}

// ID names the caller in records: the id of its token, or "local".
func (c Caller) ID() string {
	switch {
	case c.Token != nil:
		return "token " + c.Token.ID
	case c.Role == token.Admin:
		return "local"
	}
	return "nobody"
}

// bearer returns the token that r was sent with.
func bearer(r *http.Request) (secret string, given bool, err error) {
	values := r.Header.Values("Authorization")
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", false, refuse("there is more than one Authorization header", "send one")
	}
	scheme, secret, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return "", false, refuse("the Authorization header holds no bearer token", "write it as: Authorization: Bearer TOKEN")
	}
	return secret, true, nil
}

// misplaced refuses a token in the query or in a cookie: logs and histories keep
// the query, and a browser sends its cookies with the requests of any page.
func misplaced(r *http.Request) error {
	const hint = "send it in the header Authorization: Bearer TOKEN, and revoke this one: logs may hold it"
	if r.URL.RawQuery != "" {
		for name, values := range r.URL.Query() {
			if carries(name) || mentions(name) || mentions(values...) {
				return refuse("a token may not be sent in the query", hint)
			}
		}
		// A log contains the query even where it cannot be parsed.
		if mentions(r.URL.RawQuery) {
			return refuse("a token may not be sent in the query", hint)
		}
	}
	if mentions(r.Header.Values("Cookie")...) {
		return refuse("a token may not be sent in a cookie", hint)
	}
	for _, c := range r.Cookies() {
		if carries(c.Name) {
			return refuse("a token may not be sent in a cookie", hint)
		}
	}
	return nil
}

// carries reports whether a parameter of this name is meant to hold a token.
func carries(name string) bool {
	switch strings.ToLower(strings.ReplaceAll(name, "-", "_")) {
	case "token", "access_token", "auth_token", "bearer", "bearer_token", "authorization":
		return true
	}
	return false
}

func mentions(texts ...string) bool {
	for _, text := range texts {
		if token.Mentioned(text) {
			return true
		}
	}
	return false
}

// passedOn reports whether a proxy header says that r was forwarded.
func passedOn(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"} {
		if len(r.Header.Values(name)) > 0 {
			return true
		}
	}
	return false
}

func refuse(message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: op, Field: field, Message: message, Hint: hint}
}
