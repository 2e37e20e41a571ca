package manager

import (
	"context"
	"fmt"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// pickShell runs bash where the image has it and sh otherwise, with the
// arguments that follow. A login shell would be more like a console, but the
// /etc/profile of common images sets PATH anew and so undoes docker.env.
const pickShell = `if command -v bash >/dev/null 2>&1; then exec bash "$@"; fi; exec sh "$@"`

// Shell is Run for people: the sandbox's shell takes the place of the
// command's program, and req.Command.Args are its arguments. Without any it
// is an interactive shell, for which req.Command.TTY is needed and which the
// settings' time limit does not end: a person sits at it. A limit of the
// request itself counts for both.
func (m *Manager) Shell(ctx context.Context, req Request) (Outcome, error) {
	interactive := len(req.Command.Args) == 0
	if interactive && req.Command.TTY == nil {
		return Outcome{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: "shell", Field: "tty",
			Message: "an interactive shell needs a terminal", Hint: "give it a line to run instead"}
	}
	req, call := shellCall(req, interactive)
	var out Outcome
	err := m.pipeline(req, call).run(ctx, func(l *acquired) (err error) {
		if interactive {
			l.spec.Limits.Timeout = 0
			// How a person leaves a shell says nothing about what was stopped in it.
			req.unjudged = true
		}
		out, err = m.executor.run(ctx, l, req)
		return err
	})
	return out, err
}

// shellCall is a request for the sandbox's shell, and what the gate is asked
// about it.
func shellCall(req Request, interactive bool) (Request, gate.Call) {
	call, args := callOf(req), req.Command.Args
	switch {
	case interactive:
		args, call = []string{"-i"}, gate.Call{Tool: req.Tool, Interactive: true}
	case len(args) == 2 && args[0] == "-c":
		call.Args, call.Line, req.line = nil, args[1], args[1]
		args = append([]string{"-c", "--"}, shellText(args[1])...) // or a line that begins with - is taken for an option
	default:
		call.Args = append([]string{"sh"}, args...)
	}
	req.Command.Args = append([]string{"sh", "-c", pickShell, "sh"}, args...)
	return req, call
}

// maxArgument is the most of one argument: Linux takes no argument of 128 KiB
// or more.
const maxArgument = 120 << 10

// shellText returns the arguments that stand for text behind the -c of a shell.
// Text that is too long for one argument is given in pieces, which the shell
// joins and evaluates without leaving them in its parameters.
func shellText(text string) []string {
	if len(text) <= maxArgument {
		return []string{text}
	}
	var script strings.Builder
	script.WriteString(`eval "shift $#;`)
	out := []string{"", "bash"}
	for len(text) > 0 {
		n := min(len(text), maxArgument)
		out, text = append(out, text[:n]), text[n:]
		fmt.Fprintf(&script, "${%d}", len(out)-2)
	}
	script.WriteByte('"')
	out[0] = script.String()
	return out
}
