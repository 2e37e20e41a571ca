package sandbox

import (
	"errors"
	"fmt"
	"strings"
)

// A Code is the stable name of a kind of failure. Programs may depend on
// codes; messages may change.
type Code string

// The codes.
const (
	// No grant, or one that is expired or revoked, or a sandbox of another
	// owner.
	CodePermissionDeny Code = "SANDBOX.PERMISSION_DENY"
	// A policy forbids the path, host, size, link or setting.
	CodeCapabilityBlocked Code = "SANDBOX.CAPABILITY_BLOCKED"
	// No such sandbox, shell, command or file.
	CodeNotFound Code = "SANDBOX.NOT_FOUND"
	// In use, or would have to be recreated first.
	CodeBusy Code = "SANDBOX.BUSY"
	// The provider cannot do that at all.
	CodeUnsupported Code = "SANDBOX.UNSUPPORTED"
	// Tool, command or argument is not allowed.
	CodeDenyTool Code = "POLICY.DENY_TOOL"
	// A budget or quota is used up.
	CodeBudgetExceeded Code = "QUOTA.BUDGET_EXCEEDED"
	// Malformed input or settings; Field names the place.
	CodeValidation Code = "SCHEMA.VALIDATION_FAILED"
	// Engine down, image missing, sandbox broken.
	CodeUnavailable Code = "PROVIDER.UNAVAILABLE"
	// The provider did not answer in time.
	CodeTimeout Code = "PROVIDER.TIMEOUT"
	// The command could not be executed.
	CodeExecution Code = "TOOL.EXECUTION_FAILED"
	// Any other failure. There should be none.
	CodeInternal Code = "UNKNOWN.INTERNAL"
)

// HTTPStatus is the status that the HTTP interface answers with for c.
func (c Code) HTTPStatus() int {
	switch c {
	case CodePermissionDeny, CodeCapabilityBlocked, CodeDenyTool:
		return 403
	case CodeNotFound:
		return 404
	case CodeBusy:
		return 409
	case CodeValidation:
		return 422
	case CodeBudgetExceeded:
		return 429
	case CodeUnsupported:
		return 501
	case CodeUnavailable:
		return 503
	case CodeTimeout:
		return 504
	}
	return 500
}

// An Error says what failed, where, and what to do next.
type Error struct {
	Code      Code
	Op        string // what was being done ("create", "load settings")
	Field     string // JSON path of the setting or argument at fault, or empty
	Resource  string // the sandbox, path, host or image concerned, or empty
	Message   string // one sentence without trailing period
	Hint      string // what to do next, often a command; or empty
	Retryable bool   // the same call may succeed later
	Err       error  // the cause, or nil
}

// Error joins the parts to one line: "CODE: op: field: message: cause (hint)".
func (e *Error) Error() string {
	parts := []string{string(e.Code)}
	for _, p := range []string{e.Op, e.Field, e.Message} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	s := strings.Join(parts, ": ")
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, &Error{Code: c}) true for every error of code c.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Op == "" && t.Field == "" && t.Message == "" && t.Err == nil
}

// CodeOf returns the code of the first *Error in err's chain, CodeInternal
// for other errors, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// IsNotFound reports whether err says for certain that the object does not
// exist.
func IsNotFound(err error) bool { return CodeOf(err) == CodeNotFound }

// Errorf returns an *Error of the given code. A %w verb sets its cause.
func Errorf(code Code, op, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	e := &Error{Code: code, Op: op, Message: wrapped.Error()}
	if cause := errors.Unwrap(wrapped); cause != nil {
		e.Err = cause
		e.Message = strings.TrimSuffix(strings.TrimSuffix(e.Message, cause.Error()), ": ")
	}
	return e
}
