package resource

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A Call is one request to a route.
type Call struct {
	Writer  http.ResponseWriter // cuts off clients that read too slowly; for answers that Do writes by itself
	Request *http.Request       // its body is bounded; its context ends with the request or its deadline
	Route   *Route

	Caller auth.Caller
	Who    config.Who // the names on whose behalf it is called, of those that the caller may use

	// Settings are laid over those of the daemon for this call alone; nil is
	// none. Only calls of admins have them.
	Settings *config.SandboxSettings

	RequestID   string // of the caller, or made
	TraceParent string // ours, in the caller's trace; see https://www.w3.org/TR/trace-context/

	// Admit waits for the caller's turn to run one command, and counts it until
	// release is called, which must always happen. Nil admits at once.
	Admit func(ctx context.Context) (release func(), err error)

	// Problem returns an error as the caller may see it, for streams that have
	// begun. The daemon sets it.
	Problem func(err error) api.Problem

	query url.Values
	ends  []func() // see Until
}

type callKey struct{}

// WithCall returns a context with the call, for a handler that is no route.
func WithCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf returns the call of a context that [WithCall] has returned, or nil.
func CallOf(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

// Admin reports whether the caller may name every tenant.
func (c *Call) Admin() bool { return c.Caller.Role == token.Admin }

// Tool returns the tool of an agent that the call counts as: name for a caller
// with the token of a session, which is an agent, whose tools the settings
// restrict; and "" for people and backends.
func (c *Call) Tool(name string) string {
	if c.Caller.Role == token.Session {
		return name
	}
	return ""
}

// With returns the call with the request for Do, and a query that has been
// checked against the route.
func (c *Call) With(r *http.Request, query url.Values) *Call {
	with := *c
	with.Request, with.query, with.ends = r, query, nil
	return &with
}

// Until registers fn to be called when the request is over: when the result of
// Do has been written or the client has gone, and also where Do fails or panics.
// What bounds the memory held for answers is released then and not when Do
// returns, because an answer stays in memory until its client has read it. For
// an answer that Do writes by itself both times are the same. Functions are
// called in reverse order.
//
// A client that reads slowly delays fn, so fn must not release anything that the
// same request waits for once more. Only the goroutine of Do may call Until.
func (c *Call) Until(fn func()) { c.ends = append(c.ends, fn) }

// End calls all functions that were given to Until, also where one panics. The
// caller of Do calls it, once.
func (c *Call) End() {
	ends := c.ends
	c.ends = nil
	for _, fn := range ends {
		defer fn()
	}
}

// Context ends with the request, its deadline or the daemon.
func (c *Call) Context() context.Context { return c.Request.Context() }

// Path returns the value of a part of the path in braces.
func (c *Call) Path(name string) string { return c.Request.PathValue(name) }

// Text returns a parameter of the query, or "".
func (c *Call) Text(name string) string { return c.query.Get(name) }

// Texts returns every value of a parameter that may repeat.
func (c *Call) Texts(name string) []string { return c.query[name] }

// Given reports whether the query has the parameter.
func (c *Call) Given(name string) bool { return c.query.Has(name) }

// Number returns an integer of the query, or usual where it is not given.
func (c *Call) Number(name string, usual int64) int64 {
	n, err := strconv.ParseInt(c.query.Get(name), 10, 64)
	if err != nil {
		return usual
	}
	return n
}

// True reports whether a boolean of the query is given and not false.
func (c *Call) True(name string) bool { return c.query.Has(name) && c.query.Get(name) != "false" }

// Accepts reports whether the caller asks for that kind of content by name.
func (c *Call) Accepts(content string) bool { return accepts(c.Request.Header["Accept"], content) }

// Admitted calls Admit, or admits at once where that is nil.
func (c *Call) Admitted(ctx context.Context) (release func(), err error) {
	if c.Admit == nil {
		return func() {}, nil
	}
	return c.Admit(ctx)
}

// Hide returns the error for an object that does not exist or is not the
// caller's: both look the same.
func Hide(what, name string) error {
	return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "find", Resource: name, Message: "there is no such " + what}
}

// Body decodes the request's JSON into a T, strictly; see [jsonschema.Decode].
// An absent body is an empty object.
func Body[T any](c *Call) (T, error) {
	var to T
	data, err := c.Raw()
	if err != nil {
		return to, err
	}
	if err := jsonschema.Decode(data, &to); err != nil {
		var none T
		return none, err
	}
	return to, nil
}
