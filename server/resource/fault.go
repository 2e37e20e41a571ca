package resource

import (
	"fmt"
	"net/http"

	"github.com/bulkhead-dev/sandbox"
)

// A Fault is an error with its own status or headers, where those of its code do
// not fit.
type Fault struct {
	Status int // 0 is that of its code
	Header http.Header
	Close  bool // the connection cannot be used again
	Err    error
}

// Error implements error.
func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns the error without status and headers.
func (f *Fault) Unwrap() error { return f.Err }

// TooLarge returns the error for a body of more than limit bytes.
func TooLarge(limit int64) error {
	return &Fault{Status: http.StatusRequestEntityTooLarge, Close: true, Err: &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "read request", Message: fmt.Sprintf("the body has more than %d bytes, which is the most that is taken here", limit),
	}}
}

// Invalid returns the error for an invalid field of the request.
func Invalid(field, message string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "read request", Field: field, Message: message}
}
