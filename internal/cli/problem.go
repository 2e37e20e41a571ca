package cli

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// A problem is a failure as JSON, with the members that the daemon's problem
// documents (RFC 9457) have.
type problem struct {
	Type      string       `json:"type"`
	Status    int          `json:"status"` // of HTTP, for the code
	Detail    string       `json:"detail"`
	Code      sandbox.Code `json:"code"`
	Op        string       `json:"op,omitempty"`
	Field     string       `json:"field,omitempty"`
	Resource  string       `json:"resource,omitempty"`
	Hint      string       `json:"hint,omitempty"`
	Retryable bool         `json:"retryable,omitempty"`
	Errors    []problem    `json:"errors,omitempty"` // every failure, where there are several
}

// problemType begins the type of a problem; the code ends it.
const problemType = "urn:bulkhead:sandbox:problem:"

// problemOf describes one failure.
func problemOf(err error) problem {
	var usage *usageError
	var op *operationError
	e := &sandbox.Error{Code: sandbox.CodeInternal, Message: err.Error()}
	switch {
	case errors.As(err, &usage):
		e = &sandbox.Error{Code: sandbox.CodeValidation, Message: usage.message, Hint: usage.help()}
	case errors.As(err, &e):
	}
	p := problem{
		Type: problemType + string(e.Code), Status: e.Code.HTTPStatus(), Detail: e.Message, Code: e.Code, Op: e.Op,
		Field: e.Field, Resource: e.Resource, Hint: e.Hint, Retryable: e.Retryable,
	}
	if e.Err != nil {
		p.Detail = strings.TrimPrefix(p.Detail+": "+e.Err.Error(), ": ")
	}
	if errors.As(err, &op) {
		p.Op = op.op
	}
	return p
}

// reportJSON prints err as one JSON object on one line.
func reportJSON(w io.Writer, err error) {
	var all []problem
	for _, one := range flatten(err) {
		all = append(all, problemOf(one))
	}
	p := all[0]
	if len(all) > 1 {
		p.Errors = all
	}
	_ = writeJSONLine(w, p) // there is no further place to report to
}

// report prints err on standard error, in the form that the call asks for.
func (a *app) report(err error) {
	if a.wantsJSON() {
		reportJSON(a.Stderr, err)
		return
	}
	report(a.Stderr, err)
}

// wantsJSON reports whether the call asks for JSON. The arguments are looked
// at as well, because a call may be wrong before its --format is reached.
func (a *app) wantsJSON() bool {
	if a.globals.json() {
		return true
	}
	args := a.Args
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	for i, arg := range args {
		name, value, joined := strings.Cut(arg, "=")
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		if (name == "-o" || name == "--format" || name == "-format") && value == formatJSON {
			return true
		}
	}
	return false
}
