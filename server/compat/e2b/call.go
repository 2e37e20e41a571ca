package e2b

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/compat"
)

// Headers of the protocol.
const (
	headerKey     = "X-Api-Key"
	headerAccess  = "X-Access-Token"
	headerSandbox = "E2b-Sandbox-Id"
	headerPort    = "E2b-Sandbox-Port"
	headerNext    = "X-Next-Token"
	headerPing    = "Keepalive-Ping-Interval"
	headerTimeout = "Connect-Timeout-Ms"
)

// A call is one request of the protocol while it is translated.
type call struct {
	translator *Translator
	r          *http.Request
	w          http.ResponseWriter
	api        http.Handler
	base       compat.Call // without the caller
	host       string      // for which the requests of /v1 are: that of the request, without PORT-ID
	token      string      // of the caller
	name       string      // of the sandbox; empty in the control plane
	user       string      // that the request names; empty is the sandbox's own
}

type callKey struct{}

// callOf returns the call of a context of the translator.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// v1 returns the call as one that sends requests of /v1 on behalf of the caller.
func (c *call) v1() *compat.Call {
	v1 := c.base
	v1.Host, v1.Authorization = c.host, []string{"Bearer " + c.token}
	return &v1
}

// request returns a request of /v1 on behalf of the caller.
func (c *call) request(ctx context.Context, method, path string, query url.Values, body io.Reader) *http.Request {
	return c.v1().Request(ctx, method, path, query, body)
}

// do sends a request of /v1 and reads the answer into out, which may be nil. in is
// the body as JSON; nil is none.
func (c *call) do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	return ours(c.v1().Do(ctx, method, path, query, in, out))
}

// box returns the path of the sandbox with that name, and what follows it.
func box(name string, rest ...string) string { return compat.Sandbox(name, rest...) }

// goodName reports whether a name can be that of a sandbox, so that it can stand in
// a path of /v1.
func goodName(s string) bool { return compat.GoodName(s) }

// An answer holds an answer of /v1.
type answer struct{ compat.Answer }

// err returns the answer as an error, nil where it is none.
func (a *answer) err() error { return ours(a.Err()) }

// A fault is an error of the protocol.
type fault struct {
	status  int
	code    sandbox.Code // of /v1; empty where the translator itself refuses
	message string
	field   string
	about   string // the resource that the error is about
	header  http.Header
}

func (f *fault) Error() string { return f.message }

// ours returns an error of /v1 as one of the protocol.
func ours(err error) error {
	f, ok := errors.AsType[*compat.Fault](err)
	if !ok {
		return err
	}
	return &fault{status: f.Status, code: f.Code, message: f.Message, field: f.Field, about: f.About, header: f.Header}
}

// text returns a problem in one line.
func text(p api.Problem) string { return compat.Text(p) }
