package token

import (
	"errors"

	"github.com/bulkhead-dev/sandbox"
)

// Refused reports whether err says that a caller has no valid token, for which
// the HTTP interface answers 401 and not 403.
func Refused(err error) bool {
	var e *sandbox.Error
	return errors.As(err, &e) && e.Code == sandbox.CodePermissionDeny && e.Op == verify && e.Field == "token"
}

func refuse(message string) error {
	return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: verify, Field: "token", Message: message, Hint: "ask who runs the server for a token (sandbox token create)"}
}

func badID(op string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "id", Message: "it is not the id of a token", Hint: "an id has 20 hex digits, see sandbox token list"}
}

func noToken(op, id string) error {
	return &sandbox.Error{Code: sandbox.CodeNotFound, Op: op, Resource: id, Message: "there is no token " + id, Hint: "see sandbox token list"}
}

// reason is the message of a refusal.
func reason(err error) string {
	var e *sandbox.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}
