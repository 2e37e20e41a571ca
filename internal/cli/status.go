package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// Exit statuses of our own. Every other status is that of the command that
// was run; one ended by signal n counts as 128+n, and so do we.
const (
	statusFailed       = 1   // a listing is incomplete; a removal, a check or an operation on files failed
	statusUsage        = 2   // wrong flags or arguments; nothing was done
	statusTimedOut     = 124 // the command was ended at its time limit
	statusSandbox      = 125 // the sandbox failed; nothing is known of the command
	statusNoExecutable = 126 // the policy refuses the command; see also manager.Unstarted
	statusSignal       = 128 // and the signal's number
)

// A silentStatus ends the program with a status and without a message.
type silentStatus int

// Error implements error.
func (s silentStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// A usageError is a command line that cannot be understood.
type usageError struct {
	command string // whose help says more; empty for the program's own
	message string
	hint    string // what was probably meant; empty for a hint at the help
}

// Error implements error.
func (e *usageError) Error() string { return e.message }

func usagef(command, format string, args ...any) error {
	return &usageError{command: command, message: fmt.Sprintf(format, args...)}
}

// help returns what the error says about how to go on.
func (e *usageError) help() string {
	if e.hint != "" {
		return e.hint
	}
	return "see " + strings.TrimSpace("sandbox "+e.command) + " --help"
}

// status turns the end of a command into the program's exit status and says
// on standard error why, when something has to be said.
func (a *app) status(ctx context.Context, err error) int {
	w := io.Writer(a.Stderr)
	var quiet silentStatus
	var usage *usageError
	var sig signalError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &quiet):
		return int(quiet)
	case errors.As(err, &usage):
		if a.wantsJSON() {
			reportJSON(w, usage)
			return statusUsage
		}
		fmt.Fprintf(w, "sandbox: %s\nsandbox: hint: %s\n", termsafe.Line(usage.message), termsafe.Line(usage.help()))
		return statusUsage
	case errors.As(context.Cause(ctx), &sig):
		return statusSignal + int(sig.number)
	case outputClosed(err), errors.Is(context.Cause(ctx), syscall.EPIPE):
		return statusSignal + int(syscall.SIGPIPE)
	}
	a.report(err)
	switch {
	case operationsOnly(err):
		return statusFailed
	case badFlags(err):
		return statusUsage
	}
	return failureStatus(err)
}

// outputClosed reports whether err says that the reader of the program's own
// output has closed it: an error of the system about the standard output, or
// one that no error of this project contains. Inside such an error EPIPE is
// about something else, such as a program of a sandbox that has ended early,
// and has to be reported.
func outputClosed(err error) bool {
	var file *fs.PathError
	if errors.As(err, &file) && file.Path == os.Stdout.Name() && errors.Is(file, syscall.EPIPE) {
		return true
	}
	var e *sandbox.Error
	return errors.Is(err, syscall.EPIPE) && !errors.As(err, &e)
}

// badFlags reports whether err is about nothing but what the flags of the
// call say, which only the settings' own rules could tell.
func badFlags(err error) bool {
	for _, one := range flatten(err) {
		var e *sandbox.Error
		if !errors.As(one, &e) || e.Code != sandbox.CodeValidation {
			return false
		}
		switch {
		case e.Field == "tenant", e.Field == "agent", e.Field == "session", strings.HasPrefix(e.Field, "flag."), strings.HasPrefix(e.Field, "--"):
		default:
			return false
		}
	}
	return true
}

// failureStatus tells a command that the policy refused, or that could not be
// started, from a sandbox that failed. That it could not be started is known
// only from the guest's own answer about its arguments and folder.
func failureStatus(err error) int {
	var e *sandbox.Error
	switch {
	case errors.As(err, &e) && e.Code == sandbox.CodeDenyTool:
		return statusNoExecutable
	}
	if exit, _, ok := manager.Unstarted(err); ok {
		return exit.Code
	}
	return statusSandbox
}

// report prints err for people: one line for each failure, what it quotes and
// its hint on lines below, which cannot be taken for one of ours. Text from
// outside is made safe for a terminal.
func report(w io.Writer, err error) {
	defer sayFiles(w, err)
	for _, e := range flatten(err) {
		var op *operationError
		if errors.As(e, &op) {
			reportOperation(w, op)
			continue
		}
		line, hint := split(e)
		line, quoted, _ := strings.Cut(line, "\n")
		fmt.Fprintf(w, "sandbox: %s\n", termsafe.Line(line))
		for more := range strings.Lines(quoted) {
			fmt.Fprintf(w, "sandbox:   %s\n", termsafe.Line(strings.TrimSuffix(more, "\n")))
		}
		if hint != "" {
			fmt.Fprintf(w, "sandbox: hint: %s\n", termsafe.Line(hint))
		}
	}
}

// sayFiles names the files whose content is at fault, each once, where the
// text of the failures does not.
func sayFiles(w io.Writer, err error) {
	var said []string
	for _, one := range flatten(err) {
		var e *sandbox.Error
		if !errors.As(one, &e) || e.Code != sandbox.CodeValidation || !filepath.IsAbs(e.Resource) {
			continue
		}
		if strings.Contains(one.Error(), e.Resource) || slices.Contains(said, e.Resource) {
			continue
		}
		said = append(said, e.Resource)
		fmt.Fprintf(w, "sandbox: in %s\n", termsafe.Line(e.Resource))
	}
}

// flatten takes joined errors apart.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, flatten(e)...)
	}
	return out
}

// split returns the text of err, beginning with its code, and its hint.
func split(err error) (line, hint string) {
	var e *sandbox.Error
	if !errors.As(err, &e) {
		return string(sandbox.CodeInternal) + ": " + err.Error(), ""
	}
	line = err.Error()
	if e.Hint != "" {
		line = strings.Replace(line, " ("+e.Hint+")", "", 1)
	}
	if !strings.HasPrefix(line, string(e.Code)) {
		line = string(e.Code) + ": " + strings.Replace(line, string(e.Code)+": ", "", 1)
	}
	return line, e.Hint
}
