// This file holds the resource that runs commands in sandboxes, and answers at
// their end or with a stream of events.

package resource

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A commandsRunner runs commands; *manager.Manager is one.
type commandsRunner interface {
	Finder
	Run(ctx context.Context, req manager.Request) (manager.Outcome, error)
	Shell(ctx context.Context, req manager.Request) (manager.Outcome, error)
	Capture(ctx context.Context, req manager.Request) (sandbox.Result, error)
	CaptureLine(ctx context.Context, req manager.Request, line string) (sandbox.Result, error)
}

// commandsMaxBody is the most of a request, in bytes: its input is at most a
// MiB, which base64 and escapes make larger.
const commandsMaxBody = 8 << 20

// commandsGrace is how long a command has to end by itself when its client has
// gone.
const commandsGrace = 2 * time.Second

// A commandsResource has the route.
type commandsResource struct{ m commandsRunner }

// NewCommands returns the resource.
func NewCommands(m commandsRunner) commandsResource { return commandsResource{m} }

// Routes implements [Resource].
func (s commandsResource) Routes() []Route {
	return takingSettings([]Route{{
		ID: "exec", Method: "POST", Path: "/v1/sandboxes/{name}/exec", Tag: "commands", Role: token.Session,
		Summary: "Run a command",
		Doc: "With Accept: text/event-stream the answer is a stream of what the command writes, and ends with how it ended. " +
			"A stream that ends without an event exit or error is one that was cut off: how the command ended is not known then. " +
			"The command ends when the caller goes.",
		Request: api.Exec{}, Response: api.ExecResult{}, Stream: true, Events: eventsCommands(), Body: commandsMaxBody, Timeout: Endless,
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusNotImplemented, http.StatusGatewayTimeout}, Do: s.exec,
	}})
}

// eventsCommands returns the events of a streamed command.
func eventsCommands() []Event {
	return []Event{
		{Name: api.EventStdout, Data: api.Output{}, Doc: "What the command writes"},
		{Name: api.EventStderr, Data: api.Output{}, Doc: "What the command writes to its standard error"},
		{Name: api.EventAgain, Data: struct{}{}, Doc: "The command begins anew, with a permission: what came before is void"},
		{Name: api.EventExit, Data: api.Exit{}, Doc: "How the command ended; the last event"},
		{Name: api.EventError, Data: api.Problem{}, Doc: "Why it is not known how the command ended; the last event"},
	}
}

func (s commandsResource) exec(c *Call) (any, error) {
	in, err := Body[api.Exec](c)
	if err != nil {
		return nil, err
	}
	at, err := Sandboxed(c, s.m)
	if err != nil {
		return nil, err
	}
	req, err := requestOf(in, at, c.Admin())
	req.Flags = c.Settings
	if err != nil {
		return nil, err
	}
	release, err := c.Admitted(c.Context())
	if err != nil {
		return nil, err
	}
	defer release()
	req.Tool = cmp.Or(c.Tool("exec"), req.Tool)
	if c.Accepts(api.ContentEvents) {
		return s.stream(c, req, at.Name, in.Line != "")
	}
	var res sandbox.Result
	if in.Line != "" {
		req.Command.Args = nil
		res, err = s.m.CaptureLine(c.Context(), req, in.Line)
	} else {
		res, err = s.m.Capture(c.Context(), req)
	}
	if exit, message, ok := manager.Unstarted(err); ok {
		return Result(sandbox.Result{ExitCode: exit.Code, Stderr: []byte(message), StderrBytes: int64(len(message)), Duration: res.Duration}, at.Name), nil
	}
	if err != nil {
		return nil, err
	}
	return Result(res, at.Name), nil
}

// requestOf returns the request to the manager. A line is passed to the shell as
// it is.
func requestOf(in api.Exec, at lookupSandbox, admin bool) (manager.Request, error) {
	req := manager.Request{Who: at.Who, MustExist: true, Tool: in.Tool, Ask: in.Ask, User: in.User}
	switch {
	case (len(in.Args) == 0) == (in.Line == ""):
		return req, Invalid("args", "exactly one of args and line is needed")
	case in.Stdin != "" && in.StdinBase64 != nil:
		return req, Invalid("stdin", "only one of stdin and stdinBase64 is taken")
	}
	if err := sandbox.CheckEnv(in.Env); err != nil {
		return req, err
	}
	req.Command = sandbox.Command{Args: in.Args, Env: in.Env, Dir: in.Dir, Stdin: inputCommands(in.Stdin, in.StdinBase64), Grace: commandsGrace}
	if in.Line != "" {
		req.Command.Args = []string{"-c", in.Line}
	}
	req.Timeout = Timeout(in.TimeoutSeconds, at.Usable.Timeout, admin)
	return req, nil
}

// inputCommands returns the standard input of a command, nil for none.
func inputCommands(text string, data []byte) io.Reader {
	switch {
	case text != "":
		return strings.NewReader(text)
	case len(data) > 0:
		return bytes.NewReader(data)
	}
	return nil
}

// Timeout returns the time limit that the caller asks for, in seconds. Only an
// admin gets more than most, the limit of the settings, unless that is 0.
// However large seconds is, the result is not negative, which would mean no
// limit.
func Timeout(seconds float64, most time.Duration, admin bool) time.Duration {
	d := stream.Seconds(seconds)
	if most > 0 && d > most && !admin {
		return most
	}
	return d
}

// Result returns a captured command as callers may see it.
func Result(r sandbox.Result, name string) api.ExecResult {
	out := api.ExecResult{Exit: api.Exit{
		Sandbox: name, ExitCode: r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut, Restarted: r.Restarted, LostDir: r.LostDir,
		StdoutBytes: r.StdoutBytes, StderrBytes: r.StderrBytes, Truncated: r.Truncated, Limit: r.Limit, Left: r.Left, Waited: r.Waited, Warnings: r.Warnings,
		Blocked: r.Blocked, BlockedReason: r.BlockedReason, BlockedResource: r.BlockedResource, Violations: violations(r.Violations),
		DurationMillis: r.Duration.Milliseconds(), UserMillis: r.Usage.User.Milliseconds(), SystemMillis: r.Usage.System.Milliseconds(), MaxRSS: r.Usage.MaxRSS,
	}}
	out.Stdout, out.StdoutBase64 = textOrBytes(r.Stdout, r.StdoutBytes)
	out.Stderr, out.StderrBase64 = textOrBytes(r.Stderr, r.StderrBytes)
	return out
}

// textOrBytes returns an output as text where it is valid UTF-8. An output that
// was cut off may end within a character.
func textOrBytes(b []byte, written int64) (string, []byte) {
	whole := b
	if written > int64(len(b)) {
		whole = b[:wholeRunes(b)]
	}
	if utf8.Valid(whole) {
		return string(whole), nil
	}
	return "", b
}

// wholeRunes returns the length of b without an incomplete character at its end.
func wholeRunes(b []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(b); back++ {
		if at := len(b) - back; utf8.RuneStart(b[at]) {
			if !utf8.FullRune(b[at:]) {
				return at
			}
			break
		}
	}
	return len(b)
}

func violations(vs []sandbox.Violation) []api.Violation {
	out := make([]api.Violation, len(vs))
	for i, v := range vs {
		out[i] = api.Violation{
			Kind: v.Kind, Operation: string(v.Operation), Resource: v.Resource, Rule: v.Rule, Builtin: v.Builtin,
			Evidence: string(v.Evidence), Program: v.Program, Time: v.Time,
		}
	}
	return out
}

// Exit returns how a streamed command ended.
func Exit(o manager.Outcome, stdout, stderr int64) api.Exit {
	return api.Exit{
		Sandbox: o.Name, ExitCode: o.Exit.Code, Signal: o.Exit.Signal, TimedOut: o.TimedOut, Restarted: o.Exit.Restarted, LostDir: o.Exit.LostDir,
		StdoutBytes: stdout, StderrBytes: stderr, Limit: o.Exit.Limit, Left: o.Exit.Left, Waited: o.Waited, Warnings: o.Warnings,
		Blocked: o.Blocked, BlockedReason: o.BlockedReason, BlockedResource: o.BlockedResource, Violations: violations(o.Violations),
		DurationMillis: o.Duration.Milliseconds(), UserMillis: o.Exit.Usage.User.Milliseconds(), SystemMillis: o.Exit.Usage.System.Milliseconds(), MaxRSS: o.Exit.Usage.MaxRSS,
		Miss: o.Miss,
	}
}
