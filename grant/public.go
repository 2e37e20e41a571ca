package grant

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// A PublicView is the part of an error that the caller may read: no path, no
// host, no name, no text from another party.
type PublicView struct {
	Code      sandbox.Code `json:"code"`
	Status    int          `json:"status"`          // of HTTP
	Field     string       `json:"field,omitempty"` // of the input at fault, where it is malformed
	Message   string       `json:"message"`         // one of a few for each code
	Retryable bool         `json:"retryable"`
}

// An AuditView is the part of an error that the record keeps: all of it. It is
// for the administrator of the settings, never for the caller.
type AuditView struct {
	Code     sandbox.Code `json:"code"`
	Rule     string       `json:"rule,omitempty"` // that decided, or the field at fault
	Resource string       `json:"resource,omitempty"`
	Message  string       `json:"message"`
	Hint     string       `json:"hint,omitempty"`
	Cause    string       `json:"cause,omitempty"`
}

// Public returns the view of an error for the caller, and the zero view for
// nil. It shows an error that is not a *sandbox.Error as
// [sandbox.CodeInternal].
func Public(err error) PublicView {
	code := sandbox.CodeOf(err)
	if code == "" {
		return PublicView{}
	}
	v := PublicView{Code: code, Message: publicMessage(code)}
	if v.Message == "" { // a code that is none of ours
		v.Code, v.Message = sandbox.CodeInternal, publicMessage(sandbox.CodeInternal)
	}
	v.Status = v.Code.HTTPStatus()
	var e *sandbox.Error
	if errors.As(err, &e) {
		v.Retryable = e.Retryable
		if v.Code == sandbox.CodeValidation && isStructural(e.Field) {
			v.Field = e.Field
		}
	}
	if v.Code == sandbox.CodeValidation && errors.Is(err, fs.ErrExist) {
		v.Message = "a file or folder of that name exists, and nothing was written; set overwrite to replace a file"
	}
	return v
}

// Audit returns the view of an error for the record; of nil it is zero.
func Audit(err error) AuditView {
	if err == nil {
		return AuditView{}
	}
	var e *sandbox.Error
	if !errors.As(err, &e) {
		return AuditView{Code: sandbox.CodeInternal, Message: err.Error()}
	}
	v := AuditView{Code: e.Code, Rule: e.Field, Resource: e.Resource, Message: e.Message, Hint: e.Hint}
	if outer := err.Error(); outer != e.Error() { // the error was wrapped in words
		v.Cause = strings.TrimSuffix(strings.TrimSuffix(outer, e.Error()), ": ")
	}
	if e.Err != nil {
		v.Cause = strings.TrimPrefix(v.Cause+": "+e.Err.Error(), ": ")
	}
	return v
}

// publicMessage is the message of a code for the caller, "" for an unknown
// code.
func publicMessage(c sandbox.Code) string {
	switch c {
	case sandbox.CodePermissionDeny:
		return "there is no grant that is good for this"
	case sandbox.CodeCapabilityBlocked:
		return "the policy does not allow this"
	case sandbox.CodeNotFound:
		return "there is no such thing"
	case sandbox.CodeBusy:
		return "it is in use"
	case sandbox.CodeUnsupported:
		return "this cannot be done here"
	case sandbox.CodeDenyTool:
		return "the tool, the program or its arguments are not allowed"
	case sandbox.CodeBudgetExceeded:
		return "a budget or quota is used up"
	case sandbox.CodeValidation:
		return "the input is malformed"
	case sandbox.CodeUnavailable:
		return "it is not available at the moment"
	case sandbox.CodeTimeout:
		return "it has taken too long"
	case sandbox.CodeExecution:
		return "it could not be carried out"
	case sandbox.CodeInternal:
		return "something went wrong"
	}
	return ""
}
