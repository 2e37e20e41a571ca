package manager

import (
	"errors"
	"io/fs"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// The exit statuses of commands whose program did not start, as shells have them.
const (
	exitNoExecutable = 126 // the program is there and cannot be executed, or its working directory cannot be entered
	exitNoProgram    = 127 // there is no such program
)

// Unstarted returns how a command has ended whose program could not be started,
// and the line that says why: what the caller named is not there, or cannot be
// used so, and the sandbox is well. Every other error is none of that: ok is
// false.
func Unstarted(err error) (exit sandbox.Exit, message string, ok bool) {
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != sandbox.CodeExecution || e.Retryable {
		return exit, "", false
	}
	switch {
	case e.Field == "args" && errors.Is(e.Err, fs.ErrNotExist):
		exit.Code = exitNoProgram
	case e.Field == "args", e.Field == "dir", e.Field == "env":
		exit.Code = exitNoExecutable
	default:
		return exit, "", false
	}
	message = e.Message
	if e.Err != nil && exit.Code != exitNoProgram {
		message += ": " + e.Err.Error()
	}
	return exit, "sandbox: " + termsafe.Line(message) + "\n", true
}
