package agents

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/compat"
)

// Codes of the protocol.
const (
	codeInvalid     = "invalid_request"
	codeAuth        = "unauthorized"
	codeNoFile      = "workspace_read_not_found"
	codeNoSandbox   = "sandbox_not_found" // of this server: a worker makes every sandbox that is named
	codeLarge       = "payload_too_large"
	codeCapacity    = "capacity_exceeded"
	codeExec        = "exec_error"
	codeTransport   = "exec_transport_error"
	codeUnpack      = "workspace_archive_write_error"
	codeUnsupported = "not_supported" // of this server
)

// asFault returns err as an error of the protocol. One that does not come from /v1
// and is no refusal of the translator is internal, without its text.
func asFault(err error) *compat.Fault {
	if f, ok := errors.AsType[*compat.Fault](err); ok {
		return f
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &compat.Fault{Status: http.StatusRequestEntityTooLarge, Message: "the body of the request is too large"}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &compat.Fault{Status: http.StatusGatewayTimeout, Message: "the request took too long"}
	case errors.Is(err, context.Canceled):
		return &compat.Fault{Status: http.StatusServiceUnavailable, Message: "the request was ended"}
	}
	return &compat.Fault{Status: http.StatusInternalServerError, Message: "something went wrong inside"}
}

// bad returns the error for a request that is not as the protocol has it.
func bad(field, message string) *compat.Fault {
	if field != "" {
		message = field + ": " + message
	}
	return &compat.Fault{Status: http.StatusBadRequest, Field: field, Message: message}
}

// outside returns the error for a path that leads out of the workspace.
func outside(field string) *compat.Fault {
	return &compat.Fault{Status: http.StatusForbidden, Field: field, Message: field + ": is not within " + sandbox.WorkspaceDir}
}

func noPath() *compat.Fault {
	return &compat.Fault{Status: http.StatusNotFound, Message: "this server has no such path of the protocol"}
}

// unsupported returns the error for what this server does not have.
func unsupported(what string) *compat.Fault {
	return &compat.Fault{Status: http.StatusNotImplemented, Code: sandbox.CodeUnsupported, Message: "not supported by this server: " + what}
}

// gone reports whether an error says that the sandbox of the call is not there,
// rather than something in it.
func (c *call) gone(f *compat.Fault) bool {
	return f.Code == sandbox.CodeNotFound && c.name != "" && f.About == c.name
}

// codeOf returns the code of the protocol for an error: its own where it has one,
// that of /v1 otherwise.
func (c *call) codeOf(f *compat.Fault) string {
	switch {
	case c.gone(f):
		return codeNoSandbox
	case f.Status == http.StatusBadRequest, f.Status == http.StatusMethodNotAllowed, f.Status == http.StatusForbidden && f.Code == "":
		return codeInvalid
	case f.Status == http.StatusUnauthorized:
		return codeAuth
	case f.Status == http.StatusNotFound && c.file != "":
		return codeNoFile
	case f.Status == http.StatusNotFound && f.Code == "":
		return codeInvalid
	case f.Status == http.StatusRequestEntityTooLarge:
		return codeLarge
	case f.Status == http.StatusTooManyRequests, f.Status == http.StatusInsufficientStorage:
		return codeCapacity
	case f.Status == http.StatusNotImplemented:
		return codeUnsupported
	case f.Code != "":
		return string(f.Code)
	}
	return codeTransport
}

// refuse answers with an error.
func refuse(c *call, err error) {
	f := *asFault(err)
	switch {
	case f.Status == http.StatusUnprocessableEntity:
		f.Status = http.StatusBadRequest // the protocol's
	case c.gone(&f) && c.file != "":
		// 404 means at files that the file is not there, which clients make one of.
		f.Status = http.StatusGone
	}
	code := c.codeOf(&f)
	if code == codeNoFile {
		f.Message = "there is no such file: " + f.Message
	}
	h := c.W.Header()
	for name, values := range f.Header {
		h[name] = values
	}
	write(c.W, f.Status, failure{Error: f.Message, Code: code})
}

// A failure is an error as the protocol has it.
type failure struct {
	Error string `json:"error"`
	Code  string `json:"code"`
}

// write answers with JSON.
func write(w http.ResponseWriter, status int, v any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(marshal(v)) // an error means that the client has gone
}

func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the translator's own structs
	}
	return data
}

// line returns a text in one line.
func line(s string) string { return strings.Join(strings.Fields(s), " ") }
