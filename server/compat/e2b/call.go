package e2b

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
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
	door  *Door
	r     *http.Request
	w     http.ResponseWriter
	api   http.Handler
	host  string // for which the requests of /v1 are: that of the request, without PORT-ID
	token string // of the caller
	name  string // of the sandbox; empty in the control plane
	user  string // that the request names; empty is the sandbox's own
}

type callKey struct{}

// callOf returns the call of a context of the door.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// handed are the headers that a request of /v1 has from the request that caused
// it: the server judges by them which page or proxy has sent it.
var handed = []string{
	"Origin", "Sec-Fetch-Site", "Cookie", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via",
	api.HeaderRequestID, api.HeaderTraceparent,
}

// request returns a request of /v1 on behalf of the caller.
func (c *call) request(ctx context.Context, method, path string, query url.Values, body io.Reader) *http.Request {
	u := &url.URL{Path: path, RawQuery: query.Encode()}
	r := (&http.Request{
		Method: method, URL: u, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody,
		Host: c.host, RemoteAddr: c.r.RemoteAddr, TLS: c.r.TLS, RequestURI: u.RequestURI(),
	}).WithContext(ctx)
	for _, name := range handed {
		if values := c.r.Header.Values(name); len(values) > 0 {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if id := c.w.Header().Get(api.HeaderRequestID); id != "" {
		r.Header.Set(api.HeaderRequestID, id)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(body), -1
	}
	return r
}

// do sends a request of /v1 and reads the answer into out, which may be nil. in is
// the body as JSON; nil is none.
func (c *call) do(ctx context.Context, method, path string, query url.Values, in, out any) (int, error) {
	var body io.Reader
	length := int64(0)
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return 0, err
		}
		body, length = bytes.NewReader(data), int64(len(data))
	}
	r := c.request(ctx, method, path, query, body)
	if in != nil {
		r.ContentLength = length
		r.Header.Set("Content-Type", api.ContentJSON)
	}
	a := &answer{}
	c.api.ServeHTTP(a, r)
	if err := a.err(); err != nil {
		return a.status, err
	}
	if out == nil {
		return a.status, nil
	}
	return a.status, json.Unmarshal(a.body.Bytes(), out)
}

// box returns the path of the sandbox with that name, and what follows it.
func box(name string, rest ...string) string {
	return api.Prefix + "/sandboxes/" + name + strings.Join(rest, "")
}

// goodName reports whether a name can be that of a sandbox, so that it can stand in
// a path of /v1.
func goodName(s string) bool {
	if s == "" || len(s) > 128 || s[0] == '.' || s[0] == '-' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// An answer holds an answer of /v1.
type answer struct {
	head   http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header {
	if a.head == nil {
		a.head = http.Header{}
	}
	return a.head
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// err returns the answer as an error, nil where it is none.
func (a *answer) err() error {
	if a.status < 400 {
		return nil
	}
	return problemOf(a.status, a.head, a.body.Bytes())
}

// A relay passes an answer of /v1 on, unless it is an error: that is held.
type relay struct {
	answer
	to  http.ResponseWriter
	set func(h http.Header) // changes the head before it is sent; nil leaves it
}

func (p *relay) WriteHeader(status int) {
	if p.status != 0 {
		return
	}
	p.answer.WriteHeader(status)
	if status >= 400 {
		return
	}
	to := p.to.Header()
	for name, values := range p.Header() {
		to[name] = values
	}
	if p.set != nil {
		p.set(to)
	}
	p.to.WriteHeader(status)
}

func (p *relay) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if p.status >= 400 {
		return p.body.Write(b)
	}
	return p.to.Write(b)
}

// FlushError is for [http.ResponseController].
func (p *relay) FlushError() error {
	if p.status >= 400 {
		return nil
	}
	return http.NewResponseController(p.to).Flush()
}

// Unwrap is for [http.ResponseController]: deadlines and upgrades are those of the
// connection.
func (p *relay) Unwrap() http.ResponseWriter { return p.to }

// A fault is an error of the protocol.
type fault struct {
	status  int
	code    sandbox.Code // of /v1; empty where the door itself refuses
	message string
	field   string
	about   string // the resource that the error is about
	header  http.Header
}

func (f *fault) Error() string { return f.message }

// problemOf returns the error that an answer of /v1 describes.
func problemOf(status int, h http.Header, body []byte) *fault {
	f := &fault{status: status, message: http.StatusText(status), header: http.Header{}}
	for _, name := range []string{"Retry-After", "Www-Authenticate"} {
		if v := h.Values(name); len(v) > 0 {
			f.header[name] = v
		}
	}
	var p api.Problem
	if json.Unmarshal(body, &p) == nil && p.Code != "" {
		f.code, f.field, f.about = p.Code, p.Field, p.Resource
		f.message = text(p)
	}
	return f
}

// text returns a problem in one line.
func text(p api.Problem) string {
	s := p.Detail
	if p.Field != "" {
		s = p.Field + ": " + s
	}
	if p.Hint != "" {
		s += "; " + p.Hint
	}
	if s == "" {
		s = p.Title
	}
	return s
}
