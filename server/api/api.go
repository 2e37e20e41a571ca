// Package api holds the requests and answers of the HTTP interface as types, for
// the daemon that serves them and for clients in Go. It depends on JSON alone.
//
// Struct tags say what an OpenAPI document and a strict reader have to know of a
// field: doc, required, enum, min, max, minlen, maxlen, maxitems, and format.
// Names never change their meaning; fields are added and never removed, so
// clients ignore fields that they do not know.
package api

import (
	"errors"

	"github.com/bulkhead-dev/sandbox"
)

// Headers of requests and answers, of this project and standard ones.
const (
	HeaderTenant      = "Sandbox-Tenant"   // on whose behalf; admins choose
	HeaderAgent       = "Sandbox-Agent"    // the agent that calls; [config.DefaultAgent] without
	HeaderSession     = "Sandbox-Session"  // the conversation; [config.DefaultSession] without
	HeaderSettings    = "Sandbox-Settings" // settings of this call alone, a [Flags] as JSON; for admins
	HeaderRequestID   = "X-Request-Id"
	HeaderTraceparent = "Traceparent"
	HeaderIdempotency = "Idempotency-Key"
	HeaderReplayed    = "Idempotency-Replayed" // "true" on an answer that was given before
)

// Kinds of content.
const (
	ContentJSON    = "application/json"
	ContentProblem = "application/problem+json"
	ContentEvents  = "text/event-stream"
)

// Prefix is the prefix of the paths of all resources.
const Prefix = "/v1"

// A Problem says why a request was not carried out, as in RFC 9457.
type Problem struct {
	Type      string       `json:"type" doc:"Names the kind of problem: urn:bulkhead:sandbox:problem: and the code"`
	Title     string       `json:"title" doc:"What the status means, in words"`
	Status    int          `json:"status" doc:"The status of the answer"`
	Detail    string       `json:"detail,omitempty" doc:"What went wrong, in one sentence"`
	Code      sandbox.Code `json:"code" doc:"Stable; programs may depend on it"`
	Field     string       `json:"field,omitempty" doc:"The field of the request or of the settings that is at fault"`
	Resource  string       `json:"resource,omitempty" doc:"The sandbox, path or host concerned"`
	Hint      string       `json:"hint,omitempty" doc:"What to do next"`
	Retryable bool         `json:"retryable" doc:"The same request may succeed later; Retry-After says when"`
	RequestID string       `json:"requestId,omitempty" doc:"To ask about it: the logs of the server have the same"`
}

// ProblemType returns the Type of a Problem with that code.
func ProblemType(c sandbox.Code) string { return "urn:bulkhead:sandbox:problem:" + string(c) }

// Err returns the error of the server that p describes.
func (p Problem) Err(op string) *sandbox.Error {
	e := &sandbox.Error{Code: p.Code, Op: op, Field: p.Field, Resource: p.Resource, Message: p.Detail, Hint: p.Hint, Retryable: p.Retryable}
	if e.Code == "" {
		e.Code = sandbox.CodeInternal
	}
	if e.Message == "" {
		e.Message = p.Title
	}
	if p.RequestID != "" {
		e.Err = errors.New("request " + p.RequestID)
	}
	return e
}

// A Health says that the process runs.
type Health struct {
	Status string `json:"status" enum:"ok"`
}

// A Readiness says whether the daemon can serve, and what hinders it.
type Readiness struct {
	Ready  bool             `json:"ready"`
	Checks []ReadinessCheck `json:"checks"`
}

// A ReadinessCheck is the state of one dependency of the daemon.
type ReadinessCheck struct {
	Name   string `json:"name" doc:"What was looked at: provider:NAME, state, draining"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty" doc:"What is wrong; for admins"`
}
