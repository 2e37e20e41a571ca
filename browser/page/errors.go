package page

import (
	"context"
	"errors"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
)

// errClosed is the error of actions on a closed session.
func errClosed() error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "browse", Message: "the session is closed"}
}

// lost is the error for a browser that cannot be reached.
func lost(cause error) error {
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "browse", Message: "the connection to the browser is lost",
		Hint: "open a new session", Retryable: true, Err: cause,
	}
}

// crashed is the error for a page whose process has ended.
func crashed() error {
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "browse", Message: "the page has crashed",
		Hint: "open it again; the next action gets a new page", Retryable: true,
	}
}

// stuck is the error for a page that does not answer.
func stuck() error {
	return &sandbox.Error{
		Code: sandbox.CodeTimeout, Op: "browse", Message: "the page does not answer",
		Hint: "the next action gets a new page",
	}
}

// beyond is the error for a limit of the session that was reached.
func beyond(limit, message string) error {
	return &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "browse", Resource: limit, Message: message, Hint: "browser.limits." + limit + " sets it"}
}

// invalid is the error for an invalid argument.
func invalid(field, message string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "browse", Field: field, Message: message}
}

// noMatch is the error for a selector that matches nothing.
func noMatch(selector string) error {
	return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "browse", Field: "selector", Resource: shown(selector), Message: "no element of the page matches"}
}

// failed is the error for an action that the page does not allow.
func failed(message string) error {
	return &sandbox.Error{Code: sandbox.CodeExecution, Op: "browse", Message: message}
}

// changed is the error for a page that navigates elsewhere during an action.
func changed() error {
	return &sandbox.Error{
		Code: sandbox.CodeExecution, Op: "browse", Message: "the page has changed meanwhile",
		Hint: "wait for what is to come, and try again", Retryable: true,
	}
}

// denied is the error for an action that the rights do not allow.
func denied(op string) error {
	return &sandbox.Error{
		Code: sandbox.CodePermissionDeny, Op: op, Message: "the session may look at pages and change nothing",
		Hint: "ask for the right to write",
	}
}

// blocked is the error for something that a rule forbids.
func blocked(resource, message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "browse", Resource: shown(resource), Message: message, Hint: hint}
}

// late returns a timeout error if the deadline of ctx has passed, and the
// error of ctx otherwise.
func late(ctx context.Context, message string) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	return &sandbox.Error{Code: sandbox.CodeTimeout, Op: "browse", Message: message, Retryable: true}
}

// shown returns text of a page or a caller in a form fit for a message.
func shown(text string) string {
	text = cut(text, 200)
	for _, c := range text {
		if !strconv.IsPrint(c) {
			return strconv.QuoteToASCII(text)
		}
	}
	return text
}
