package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// reply writes what a handler returned.
func (q *request) reply(out any) error {
	status, body := q.route.Status, out
	var header http.Header
	switch v := out.(type) {
	case resource.Sent:
		return nil
	case resource.Reply:
		header, body = v.Header, v.Body
		if v.Status != 0 {
			status = v.Status
		}
	}
	switch {
	case status == 0 && body == nil:
		status = http.StatusNoContent
	case status == 0:
		status = http.StatusOK
	}
	if body == nil {
		maps.Copy(q.w.Header(), header)
		q.w.WriteHeader(status)
		return nil
	}
	data, err := marshal(body)
	if err != nil {
		return err
	}
	if q.w.hold != nil {
		give, err := q.w.hold(int64(len(data)))
		if err != nil {
			return err
		}
		defer give()
	}
	maps.Copy(q.w.Header(), header) // not before, or the problem would have them
	q.write(status, api.ContentJSON, data)
	return nil
}

// marshal returns v as JSON without unnecessary escapes.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

func (q *request) write(status int, content string, data []byte) {
	h := q.w.Header()
	h.Set("Content-Type", content)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	q.w.WriteHeader(status)
	if q.r.Method != http.MethodHead {
		_, _ = q.w.put(data) // an error means that the client has gone
	}
}

// reported returns err as the caller may see it, and logs err where the log is the
// place for it.
func (q *request) reported(err error) api.Problem {
	p, _ := q.s.Problem(err, q.admin(), q.id)
	switch {
	case errors.Is(err, context.Canceled) && q.r.Context().Err() != nil:
		q.log().WithError(err).Debug("the caller has gone")
	case p.Code == sandbox.CodeInternal:
		q.log().WithError(err).Error("a request has failed for an unexpected reason")
	case p.Status >= 500:
		q.log().WithError(err).Warn("a request has failed")
	}
	return p
}

// problem writes an error.
func (q *request) problem(err error) {
	p := q.reported(err)
	q.traceProblem(err, p)
	_, h := q.s.Problem(err, q.admin(), q.id)
	if q.w.begun() {
		panic(http.ErrAbortHandler) // it would look like a whole answer
	}
	if q.w.instead != nil { // nothing of the other answer is sent
		q.w.instead = nil
		clear(q.w.Header())
		q.header()
	}
	maps.Copy(q.w.Header(), h)
	data, err := marshal(p)
	if err != nil {
		panic(err) // a problem is text and numbers
	}
	q.write(p.Status, api.ContentProblem, data)
}

func (q *request) admin() bool { return q.who != nil && q.who.Role == token.Admin }

// Problem returns err as the problem that a caller may see, with the headers
// that belong to it. For an error without a code, or with the code of an
// unexpected error, the problem holds only the id of the request. A message that
// contains a private text is sent to admins only.
func (s *Server) Problem(err error, admin bool, requestID string) (api.Problem, http.Header) {
	h := http.Header{}
	var fault *resource.Fault
	status := 0
	if errors.As(err, &fault) {
		status = fault.Status
		for name, values := range fault.Header {
			h[name] = values
		}
		if fault.Close {
			h.Set("Connection", "close")
		}
	}
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code == sandbox.CodeInternal || e.Code == "" {
		e = &sandbox.Error{Code: sandbox.CodeInternal, Message: "something went wrong inside", Hint: "report the id of this request to the operator of the server"}
	}
	if status == 0 {
		status = e.Code.HTTPStatus()
		if challenge, ok := auth.Challenge(err); ok {
			status = http.StatusUnauthorized
			h.Set("WWW-Authenticate", challenge)
		}
	}
	p := api.Problem{
		Type: api.ProblemType(e.Code), Title: http.StatusText(status), Status: status,
		Detail: e.Message, Code: e.Code, Field: e.Field, Resource: e.Resource, Hint: e.Hint, Retryable: e.Retryable, RequestID: requestID,
	}
	if !admin && s.private(p) {
		p.Detail, p.Field, p.Resource, p.Hint = http.StatusText(status), "", "", "report the id of this request to the operator of the server"
	}
	if after := tenant.RetrySeconds(err); after > 0 {
		h.Set("Retry-After", strconv.FormatInt(after, 10))
	}
	return p, h
}

// private reports whether a problem shows what only admins may see.
func (s *Server) private(p api.Problem) bool {
	for _, text := range []string{p.Detail, p.Field, p.Resource, p.Hint} {
		for _, secret := range s.o.Private {
			if secret != "" && strings.Contains(text, secret) {
				return true
			}
		}
	}
	return false
}
