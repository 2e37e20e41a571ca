package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/websocket"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Bounds of what is read of an answer.
const (
	maxAnswer  = 64 << 20 // of JSON
	maxProblem = 256 << 10
)

// maxPause is the longest Retry-After that is waited for.
const maxPause = 10 * time.Second

// A Request is one call. Of JSON and Body at most one is set.
type Request struct {
	Op     string // what is being done, for errors
	Method string
	Path   string // below the host; parts are escaped already
	Query  url.Values
	Header http.Header
	JSON   any
	Body   io.Reader

	// Again says that the request may be made again when the daemon says
	// that it was too busy: GET, PUT and DELETE of JSON, or with a key.
	Again bool

	// Mark is a header that the answer must have for "there is no such thing"
	// to count: another server at the same address knows nothing of it.
	Mark string
}

// Call makes a request and reads the JSON of the answer into out, where that is
// not nil, within the Timeout of the client's options.
func (c *API) Call(ctx context.Context, q Request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	return c.read(ctx, q, out)
}

// read is Call without a bound but ctx: for what takes as long as there is to
// send. When all is sent the answer has to come as always.
func (c *API) read(ctx context.Context, q Request, out any) error {
	a, err := c.Do(ctx, q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if out == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(a.Body, maxProblem)) // for the connection to be used again
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer+1))
	if err != nil {
		return broken(ctx, q.Op, err)
	}
	if len(b) > maxAnswer {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: q.Op, Message: "the daemon answers without end"}
	}
	if err := json.Unmarshal(b, out); err != nil {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: q.Op, Message: "the answer of the daemon cannot be read", Err: err}
	}
	return nil
}

// Do makes a request and returns the answer of a success; its body is to be
// closed. ctx has to last until then.
func (c *API) Do(ctx context.Context, q Request) (*http.Response, error) {
	var content []byte
	if q.JSON != nil {
		var err error
		if content, err = json.Marshal(q.JSON); err != nil {
			return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: q.Op, Message: "the request cannot be written", Err: err}
		}
		q.Body = nil
	}
	for try := 0; ; try++ {
		if content != nil {
			q.Body = bytes.NewReader(content)
		}
		a, err := c.once(ctx, q)
		if err != nil {
			return nil, err
		}
		if a.StatusCode < 300 {
			return a, nil
		}
		pause, err := refusal(q, a)
		if !q.Again || try >= c.o.Retries || pause < 0 || q.Body != nil && content == nil {
			return nil, err
		}
		if !rest(ctx, pause) {
			return nil, err
		}
	}
}

func (c *API) once(ctx context.Context, q Request) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, q.Method, c.address(q.Path, q.Query), q.Body)
	if err != nil {
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: q.Op, Message: "the request cannot be made", Err: err}
	}
	c.headers(r.Header, q.Header)
	traced(ctx, r.Header)
	if q.JSON != nil {
		r.Header.Set("Content-Type", api.ContentJSON)
	}
	a, err := c.http.Do(r)
	if err != nil {
		return nil, broken(ctx, q.Op, err)
	}
	return a, nil
}

func (c *API) address(path string, query url.Values) string {
	u := c.base
	return u.Scheme + "://" + u.Host + path + suffix(query)
}

func suffix(query url.Values) string {
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

func (c *API) headers(h, more http.Header) {
	for name, value := range map[string]string{
		api.HeaderTenant: c.o.Tenant, api.HeaderAgent: c.o.Agent, api.HeaderSession: c.o.Session, api.HeaderSettings: c.o.settings,
	} {
		if value != "" {
			h.Set(name, value)
		}
	}
	if c.o.Token != "" {
		h.Set("Authorization", "Bearer "+c.o.Token)
	}
	for name, values := range more {
		h[name] = values
	}
}

// traced names the program's own span of ctx in a request, if there is one, so that
// what the daemon does is in the same trace.
func traced(ctx context.Context, h http.Header) {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() || h.Get(api.HeaderTraceparent) != "" {
		return
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
}

// Socket opens a WebSocket.
func (c *API) Socket(ctx context.Context, op, path string, query url.Values) (*websocket.Conn, *http.Response, error) {
	h := http.Header{}
	c.headers(h, nil)
	traced(ctx, h)
	conn, a, err := websocket.Dial(ctx, c.address(path, query), &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: h})
	switch {
	case err == nil:
		return conn, a, nil
	case a != nil && a.StatusCode != http.StatusSwitchingProtocols:
		body, _ := io.ReadAll(io.LimitReader(a.Body, maxProblem)) // what there is
		return nil, a, api.Read(op, a.StatusCode, body)
	}
	return nil, a, broken(ctx, op, err)
}

// refusal reads the error of an answer, and after what pause the daemon wants
// to be asked again; negative is not at all.
func refusal(q Request, a *http.Response) (time.Duration, error) {
	defer a.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(a.Body, maxProblem)) // what there is
	err := api.Read(q.Op, a.StatusCode, body)
	if q.Mark != "" && a.Header.Get(q.Mark) == "" && sandbox.IsNotFound(err) {
		err = &sandbox.Error{Code: sandbox.CodeUnavailable, Op: q.Op, Message: "the daemon does not serve that any more", Err: err}
	}
	seconds, fail := strconv.Atoi(a.Header.Get("Retry-After"))
	pause := time.Duration(seconds) * time.Second
	if fail != nil || seconds < 0 || pause > maxPause {
		return -1, err
	}
	if a.StatusCode != http.StatusTooManyRequests && a.StatusCode != http.StatusServiceUnavailable {
		return -1, err
	}
	return pause, err
}

// rest waits, and reports whether ctx has not ended.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// broken is the error of a call without an answer.
func broken(ctx context.Context, op string, err error) error {
	if cause := ctx.Err(); cause != nil {
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: op, Message: "the call ended before there was an answer", Retryable: true, Err: cause}
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the address
	}
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: op, Message: "the daemon does not answer", Retryable: true, Err: err,
		Hint: "is it running (`sandbox serve`), and is --server right?",
	}
}
