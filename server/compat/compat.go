// Package compat sends requests of /v1 for servers of other protocols, which are the
// packages below it. Such a server translates: it makes each request of its protocol
// into requests of /v1, and sends them to the server in the same process with the
// caller's own credentials. So it decides nothing.
package compat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A Call is one request of another protocol while it is translated, see [New]. Its
// methods are safe for concurrent use while its fields do not change: a connection
// that carries requests of its own may have many of /v1 at a time.
type Call struct {
	R   *http.Request       // of the client
	W   http.ResponseWriter // to the client
	API http.Handler        // the server of /v1
	// Host is the host for which requests of /v1 are; empty is that of R.
	Host string
	// Authorization are the values of that header in requests of /v1; none leaves
	// the caller to the connection.
	Authorization []string

	id string // of the request, as the answer has it
}

// New returns a call that answers to w. It reads the headers of w, which must not be
// read while another goroutine writes the answer.
func New(w http.ResponseWriter, r *http.Request, v1 http.Handler, authorization ...string) Call {
	return Call{R: r, W: w, API: v1, Authorization: authorization, id: w.Header().Get(api.HeaderRequestID)}
}

// handed are the headers that a request of /v1 has from the request that caused it:
// the server judges by them which page or proxy has sent it.
var handed = []string{
	"Origin", "Sec-Fetch-Site", "Cookie", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via",
	api.HeaderRequestID, api.HeaderTraceparent,
}

// Request returns a request of /v1 on behalf of the caller. body may be nil.
func (c *Call) Request(ctx context.Context, method, path string, query url.Values, body io.Reader) *http.Request {
	u := &url.URL{Path: path, RawQuery: query.Encode()}
	r := (&http.Request{
		Method: method, URL: u, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody,
		Host: cmp.Or(c.Host, c.R.Host), RemoteAddr: c.R.RemoteAddr, TLS: c.R.TLS, RequestURI: u.RequestURI(),
	}).WithContext(ctx)
	for _, name := range handed {
		if values := c.R.Header.Values(name); len(values) > 0 {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if c.id != "" {
		r.Header.Set(api.HeaderRequestID, c.id)
	}
	if len(c.Authorization) > 0 {
		r.Header["Authorization"] = c.Authorization
	}
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(body), -1
	}
	return r
}

// JSON returns a request of /v1 with in as its body.
func (c *Call) JSON(ctx context.Context, method, path string, query url.Values, in any) (*http.Request, error) {
	data, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	r := c.Request(ctx, method, path, query, bytes.NewReader(data))
	r.ContentLength = int64(len(data))
	r.Header.Set("Content-Type", api.ContentJSON)
	return r, nil
}

// Do sends a request of /v1 and reads the answer into out, which may be nil. in is
// the body as JSON; nil is none. An answer that is an error is a [*Fault].
func (c *Call) Do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	r := c.Request(ctx, method, path, query, nil)
	if in != nil {
		var err error
		if r, err = c.JSON(ctx, method, path, query, in); err != nil {
			return err
		}
	}
	return c.Send(r, out)
}

// Send is [Call.Do] for a request that exists.
func (c *Call) Send(r *http.Request, out any) error {
	a := &Answer{}
	c.API.ServeHTTP(a, r)
	if err := a.Err(); err != nil || out == nil {
		return err
	}
	return json.Unmarshal(a.body.Bytes(), out)
}

// Sandbox returns the path of the sandbox with that name, and what follows it.
func Sandbox(name string, rest ...string) string {
	return api.Prefix + "/sandboxes/" + name + strings.Join(rest, "")
}

// GoodName reports whether a name can be that of a sandbox, so that it can stand in a
// path of /v1.
func GoodName(s string) bool {
	if s == "" || len(s) > 128 || s[0] == '.' || s[0] == '-' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// Decode reads one JSON object into v. A field that v does not have is an error: it
// could ask for something that would not happen then.
func Decode(data []byte, v any) error {
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return errors.New("it is no JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object")
	}
	return nil
}

// An Answer holds an answer of /v1.
type Answer struct {
	head   http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (a *Answer) Header() http.Header {
	if a.head == nil {
		a.head = http.Header{}
	}
	return a.head
}

// WriteHeader implements [http.ResponseWriter].
func (a *Answer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
}

// Write implements [http.ResponseWriter].
func (a *Answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Err returns the answer as a [*Fault], nil where it is no error.
func (a *Answer) Err() error {
	if a.status < 400 {
		return nil
	}
	return problemOf(a.status, a.head, a.body.Bytes())
}

// A Relay passes an answer of /v1 on, unless it is an error: that is held.
type Relay struct {
	Answer
	To  http.ResponseWriter
	Set func(h http.Header) // changes the head before it is sent; nil leaves it
}

// WriteHeader implements [http.ResponseWriter].
func (p *Relay) WriteHeader(status int) {
	if p.status != 0 {
		return
	}
	p.Answer.WriteHeader(status)
	if status >= 400 || status < 200 {
		return
	}
	to := p.To.Header()
	for name, values := range p.Header() {
		to[name] = values
	}
	if p.Set != nil {
		p.Set(to)
	}
	p.To.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (p *Relay) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if p.status >= 400 {
		return p.body.Write(b)
	}
	return p.To.Write(b)
}

// FlushError is for [http.ResponseController].
func (p *Relay) FlushError() error {
	if p.status >= 400 {
		return nil
	}
	return http.NewResponseController(p.To).Flush()
}

// Unwrap is for [http.ResponseController]: deadlines and upgrades are those of the
// connection.
func (p *Relay) Unwrap() http.ResponseWriter { return p.To }

// A Fault is an error that the client gets in the form of its protocol.
type Fault struct {
	Status  int          // of HTTP
	Code    sandbox.Code // of /v1; empty where the translator itself refuses
	Message string
	Field   string
	About   string // the resource that the error is about
	Header  http.Header
}

func (f *Fault) Error() string { return f.Message }

// problemOf returns the error that an answer of /v1 describes.
func problemOf(status int, h http.Header, body []byte) *Fault {
	f := &Fault{Status: status, Message: http.StatusText(status), Header: http.Header{}}
	for _, name := range []string{"Retry-After", "Www-Authenticate"} {
		if v := h.Values(name); len(v) > 0 {
			f.Header[name] = v
		}
	}
	var p api.Problem
	if json.Unmarshal(body, &p) == nil && p.Code != "" {
		f.Code, f.Field, f.About = p.Code, p.Field, p.Resource
		f.Message = Text(p)
	}
	return f
}

// Text returns a problem in one line.
func Text(p api.Problem) string {
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

// Ended says in words why a command has ended otherwise than by itself, and is empty
// where it has not.
func Ended(v api.Exit) string {
	switch {
	case v.TimedOut:
		return "the time of the command is over, and it was ended"
	case v.Blocked:
		return cmp.Or(v.BlockedReason, "rules of the sandbox have stopped the command")
	case v.Limit != nil:
		return "a limit of the sandbox was reached: " + v.Limit.Limit
	}
	return ""
}

// pingEvery is between two pings of a WebSocket, and pongWithin bounds the answer.
const pingEvery, pongWithin = 30 * time.Second, 30 * time.Second

// Ping calls end when the client of a WebSocket has disappeared without an end of the
// connection. It returns then, or at the end of ctx.
func Ping(ctx context.Context, conn *websocket.Conn, end func()) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		within, done := context.WithTimeout(ctx, pongWithin)
		err := conn.Ping(within)
		done()
		if err != nil {
			end()
			return
		}
	}
}
