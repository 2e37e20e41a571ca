package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// An operationError says that one operation on files failed in a sandbox that
// works, which is not the same as a sandbox that failed.
type operationError struct {
	op  string // the command, "fs read"
	err error
}

// Error implements error.
func (e *operationError) Error() string { return e.op + ": " + e.err.Error() }

// Unwrap returns the cause.
func (e *operationError) Unwrap() error { return e.err }

// operation marks err as that of the command op, except for the parts of it
// that say that the sandbox itself has gone or does not answer.
func operation(op string, err error) error {
	if err == nil {
		return nil
	}
	var out []error
	for _, one := range flatten(err) {
		var quiet silentStatus
		var usage *usageError
		switch code := sandbox.CodeOf(one); {
		case errors.As(one, &quiet), errors.As(one, &usage):
		case code == sandbox.CodeUnavailable, code == sandbox.CodeTimeout:
		default:
			one = &operationError{op, one}
		}
		out = append(out, one)
	}
	if len(out) == 1 {
		return out[0]
	}
	return errors.Join(out...)
}

// operationsOnly reports whether err is nothing but failed operations.
func operationsOnly(err error) bool {
	for _, one := range flatten(err) {
		var op *operationError
		if !errors.As(one, &op) {
			return false
		}
	}
	return true
}

// reportOperation prints e for people, with its code behind the command.
func reportOperation(w io.Writer, e *operationError) {
	code, text, hint := sandbox.CodeOf(e.err), e.err.Error(), ""
	var known *sandbox.Error
	if errors.As(e.err, &known) {
		bare := *known
		bare.Code, bare.Op, bare.Field, bare.Hint = "", "", "", ""
		text, hint = strings.TrimPrefix(bare.Error(), ": "), known.Hint
	}
	fmt.Fprintf(w, "sandbox: %s: %s: %s\n", e.op, code, termsafe.Line(text))
	if hint != "" {
		fmt.Fprintf(w, "sandbox: hint: %s\n", termsafe.Line(hint))
	}
}
