package resource

import (
	"fmt"
	"net/http"

	"github.com/bulkhead-dev/sandbox"
)

// A Fault is an error with a status or headers of its own, where those of its
// code do not fit.
type Fault struct {
	Status int // 0 is that of its code
	Header http.Header
	Close  bool // the connection cannot be used again
	Err    error
}

// Error implements error.
func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns what the fault is about.
func (f *Fault) Unwrap() error { return f.Err }

// TooLarge is the error about a body of more than limit bytes.
func TooLarge(limit int64) error {
	return &Fault{Status: http.StatusRequestEntityTooLarge, Close: true, Err: &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "read request", Message: fmt.Sprintf("the body has more than %d bytes, which is the most that is taken here", limit),
	}}
}

// Invalid is the error about a field of the request that cannot be taken.
func Invalid(field, message string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "read request", Field: field, Message: message}
}
