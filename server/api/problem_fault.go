// This file carries errors of this project over HTTP: a [sandbox.Error] becomes
// a problem document (RFC 9457) with all its fields, and the document becomes an
// equal error on the other side.
//
// Two things change on the way. A cause is joined to the message, because other
// programs have no use for its type; only the errors that callers of file
// operations test with errors.Is (does not exist, exists already, not permitted)
// are kept, as the name of the kernel's error. And of [sandbox.CodeInternal]
// only the code is sent, because the message of an unexpected error may hold
// private text.

package api

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// mediaType is the content type of a problem document.
const mediaType = "application/problem+json"

// maxText bounds each text of a received document.
const maxText = 8 << 10

// problemType names the kind of problem that c is, as the type of a document.
func problemType(c sandbox.Code) string { return "urn:bulkhead:sandbox:problem:" + string(c) }

// Write answers with the document of err.
func Write(w http.ResponseWriter, err error) {
	d := Of(err)
	b, fail := json.Marshal(d)
	if fail != nil { // texts alone: it does not
		b = []byte(`{"code":"UNKNOWN.INTERNAL"}`)
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(d.Status)
	_, _ = w.Write(b) // a write error means that the client does not read
}

// Answer answers with v as JSON, with nothing where v is nil, or with the
// document of err.
func Answer(w http.ResponseWriter, v any, err error) {
	var b []byte
	if err == nil && v != nil {
		b, err = json.Marshal(v)
	}
	switch {
	case err != nil:
		Write(w, err)
	case v == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(b) // an error means that the client has gone
	}
}

// Read returns the error that an answer with that status and body describes,
// also where the body is not a problem document. op is the operation that
// failed.
func Read(op string, status int, body []byte) error {
	var d Document
	if json.Unmarshal(body, &d) == nil && known(d.Code) {
		return d.Err()
	}
	e := &sandbox.Error{Op: op, Code: sandbox.CodeUnavailable, Message: "the other side answers " + strconv.Itoa(status) + " and is no daemon of ours"}
	switch status {
	case http.StatusUnauthorized:
		e.Code, e.Message, e.Hint = sandbox.CodePermissionDeny, "the daemon knows no such token", "give one that `sandbox token create` made"
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.Retryable = true
	}
	return e
}

// A Document is the JSON form of an error. Its members beside the standard ones
// are those of [sandbox.Error].
type Document struct {
	Type      string       `json:"type,omitempty"`
	Title     string       `json:"title,omitempty"`
	Status    int          `json:"status,omitempty"`
	Detail    string       `json:"detail,omitempty"` // the message, with its cause
	Code      sandbox.Code `json:"code"`
	Op        string       `json:"op,omitempty"`
	Field     string       `json:"field,omitempty"`
	Resource  string       `json:"resource,omitempty"`
	Hint      string       `json:"hint,omitempty"`
	Retryable bool         `json:"retryable,omitempty"`
	Cause     string       `json:"cause,omitempty"` // the name of the kernel's error: "ENOENT"
	RequestID string       `json:"requestId,omitempty"`
}

// Of returns the document of err, which must not be nil.
func Of(err error) Document {
	e, ok := errors.AsType[*sandbox.Error](err)
	if !ok || e.Code == sandbox.CodeInternal {
		e = &sandbox.Error{Code: sandbox.CodeInternal, Message: "something went wrong inside; the log has it"}
	}
	status := e.Code.HTTPStatus()
	d := Document{
		Type: problemType(e.Code), Title: http.StatusText(status), Status: status, Detail: e.Message,
		Code: e.Code, Op: e.Op, Field: e.Field, Resource: e.Resource, Hint: e.Hint, Retryable: e.Retryable,
	}
	if e.Err != nil {
		d.Cause = causeName(e.Err)
		d.Detail = strings.TrimPrefix(d.Detail+": "+e.Err.Error(), ": ")
	}
	return d
}

// Err returns the error that d describes. The texts of d are bounded and made
// safe for a terminal, because the other side may be any server; an unknown code
// becomes [sandbox.CodeUnavailable], because then the other side is not a server
// of this project.
func (d Document) Err() error {
	e := &sandbox.Error{
		Code: d.Code, Op: clean(d.Op), Field: clean(d.Field), Resource: clean(d.Resource),
		Message: clean(d.Detail), Hint: clean(d.Hint), Retryable: d.Retryable, Err: cause(d.Cause),
	}
	if !known(d.Code) {
		e.Code, e.Message = sandbox.CodeUnavailable, "the answer is no error of ours: "+e.Message
	}
	if e.Err != nil { // the message has its text already
		e.Message = strings.TrimSuffix(strings.TrimSuffix(e.Message, e.Err.Error()), ": ")
	}
	if d.RequestID != "" && d.Code == sandbox.CodeInternal {
		e.Hint = "the log of the daemon has it under request " + clean(d.RequestID)
	}
	return e
}

func known(c sandbox.Code) bool {
	switch c {
	case sandbox.CodePermissionDeny, sandbox.CodeCapabilityBlocked, sandbox.CodeNotFound, sandbox.CodeBusy,
		sandbox.CodeUnsupported, sandbox.CodeDenyTool, sandbox.CodeBudgetExceeded, sandbox.CodeValidation,
		sandbox.CodeUnavailable, sandbox.CodeTimeout, sandbox.CodeExecution, sandbox.CodeInternal:
		return true
	}
	return false
}

func clean(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return termsafe.Line(s)
}

// errnos are the kernel's errors that are sent by name.
var errnos = map[string]syscall.Errno{
	"ENOENT": syscall.ENOENT, "EACCES": syscall.EACCES, "EPERM": syscall.EPERM, "EROFS": syscall.EROFS,
	"EBUSY": syscall.EBUSY, "ENOSPC": syscall.ENOSPC, "EDQUOT": syscall.EDQUOT, "EFBIG": syscall.EFBIG,
	"EAGAIN": syscall.EAGAIN, "ENOMEM": syscall.ENOMEM, "EMFILE": syscall.EMFILE, "ENFILE": syscall.ENFILE,
	"EEXIST": syscall.EEXIST, "ENOTEMPTY": syscall.ENOTEMPTY, "EISDIR": syscall.EISDIR, "ENOTDIR": syscall.ENOTDIR,
	"ELOOP": syscall.ELOOP, "ENAMETOOLONG": syscall.ENAMETOOLONG, "EINVAL": syscall.EINVAL, "EXDEV": syscall.EXDEV,
	"EOPNOTSUPP": syscall.EOPNOTSUPP, "EIO": syscall.EIO, "ECONNREFUSED": syscall.ECONNREFUSED,
	"EADDRINUSE": syscall.EADDRINUSE,
}

// sentinels are causes that come from this project and not from the kernel.
var sentinels = map[string]error{"not-exist": fs.ErrNotExist, "exist": fs.ErrExist, "permission": fs.ErrPermission}

// Cause returns that part of the cause of err for which callers test with
// errors.Is, without its text; nil where there is none.
func Cause(err error) error {
	e, ok := errors.AsType[*sandbox.Error](err)
	if !ok || e.Err == nil {
		return nil
	}
	return cause(causeName(e.Err))
}

func causeName(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		for name, n := range errnos {
			if n == errno {
				return name
			}
		}
	}
	for name, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			return name
		}
	}
	return ""
}

func cause(name string) error {
	if sentinel, ok := sentinels[name]; ok {
		return sentinel
	}
	if errno, ok := errnos[name]; ok {
		return fsbridge.NewError("", "", errno).Err
	}
	return nil
}
