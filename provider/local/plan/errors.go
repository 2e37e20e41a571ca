package plan

import (
	"fmt"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Bounds of a plan. bwrap takes at most 9,000 arguments, and its running time
// grows with the square of the number of mounts.
const (
	maxMounts = 1000
	maxDenies = 16384
	maxLinks  = 16
	maxOpened = 64

	defaultShm = 64 << 20 // bytes, the default of other engines
)

const op = "plan the sandbox"

// invalid returns the error for a world that cannot be planned.
func invalid(resource, rule, message, hint string) error {
	return refusal(sandbox.CodeValidation, resource, rule, message, hint)
}

// changed returns the error for a host that changed during planning.
func changed(resource, rule, message string) error {
	e := refusal(sandbox.CodeUnavailable, resource, rule, message, "try again; look at the path if it stays so")
	e.Retryable = true
	return e
}

func tooMuch(what string, n, limit int) error {
	return refusal(sandbox.CodeCapabilityBlocked, "", "", fmt.Sprintf("%d %s, and a local sandbox takes %d", n, what, limit),
		"narrow the deny rules of filesystem, or allow less")
}

func refusal(code sandbox.Code, resource, rule, message, hint string) *sandbox.Error {
	if rule != "" {
		message = fmt.Sprintf("%s (%s)", message, rule)
	}
	if resource != "" {
		message = fmt.Sprintf("%q: %s", resource, message)
	}
	return &sandbox.Error{Code: code, Op: op, Resource: resource, Message: message, Hint: hint}
}
