package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// A Sandbox is the sandbox of a session. It holds nothing open and needs no
// closing. It is safe for concurrent use. A sandbox that was removed meanwhile,
// because it was idle for long or by [Sandbox.Remove], is CodeNotFound, and
// [Client.Sandbox] makes it anew.
type Sandbox struct {
	c              *Client
	api            *API // with the session and the settings of the sandbox
	name           string
	agent, session string
}

// A Result says how a command ended, and what it wrote as far as it was kept.
type Result = sandbox.Result

// Name returns the name of the sandbox, as "sandbox list" and the HTTP API have
// it.
func (s *Sandbox) Name() string { return s.name }

// API returns the HTTP API on behalf of the sandbox's session, with the settings
// of the sandbox, for what has no method here. Its methods take [Sandbox.Name].
func (s *Sandbox) API() *API { return s.api }

// Run runs a program to its end and returns its output, as much of it as the
// settings keep. A program that does not exist is a result with exit code 127.
func (s *Sandbox) Run(ctx context.Context, args ...string) (Result, error) {
	return s.Exec(ctx, Command{Args: args})
}

// RunLine runs a line of the sandbox's shell as Run runs a program.
func (s *Sandbox) RunLine(ctx context.Context, line string) (Result, error) {
	return s.Exec(ctx, Command{Line: line})
}

// A Command is one command: of Args and Line exactly one is set.
type Command struct {
	Args []string          // program and arguments
	Line string            // text for the shell
	Env  map[string]string // laid over the sandbox's own environment
	Dir  string            // where it runs; the workspace without

	Stdin          io.Reader // nil is an empty input
	Stdout, Stderr io.Writer // of Start: receive the output as it comes; nil discards. With a TTY all of it arrives on Stdout

	TTY     *sandbox.TTY  // of Start: not nil runs it on a terminal
	Timeout time.Duration // 0 leaves it to the settings

	Ask  bool   // have a person or the client's Approver asked where a permission opens what a rule stops
	Tool string // the tool of an agent that the command counts as, which then has to be allowed
	User string // the account inside that it runs as: "sandbox" or "user", or its number. There is no other, and root is refused

	Tag       string // of StartProcess: a name by which the process is found, with more than digits
	StdinOpen bool   // of StartProcess: its input stays open for [Process.WriteStdin]
}

// maxInput is the most bytes of input that Exec takes, as the HTTP API does.
const maxInput = 1 << 20

// Exec is Run with the choices of a [Command], without TTY, Stdout and Stderr.
// It takes at most 1 MiB of input; see Start.
func (s *Sandbox) Exec(ctx context.Context, cmd Command) (Result, error) {
	if cmd.Stdout != nil || cmd.Stderr != nil || cmd.TTY != nil {
		return Result{}, invalid("run", "Command", "Exec returns the output, and takes neither Stdout, Stderr nor TTY", "use Start")
	}
	if err := foreground("run", cmd); err != nil {
		return Result{}, err
	}
	r, err := s.execOf(cmd)
	if err != nil {
		return Result{}, err
	}
	defer s.answering(ctx, r.Ask)()
	out, err := post[api.ExecResult](ctx, s.api, "exec", one(s.name, "/exec"), r)
	return resultOf(out), err
}

// execOf returns the request for a command, without its terminal and outputs.
func (s *Sandbox) execOf(cmd Command) (api.Exec, error) {
	r := api.Exec{Args: cmd.Args, Line: cmd.Line, Env: cmd.Env, Dir: cmd.Dir, TimeoutSeconds: cmd.Timeout.Seconds(), Ask: s.asks(cmd.Ask), Tool: cmd.Tool, User: cmd.User}
	if cmd.Stdin != nil {
		input, err := io.ReadAll(io.LimitReader(cmd.Stdin, maxInput+1))
		if err != nil {
			return r, sandbox.Errorf(sandbox.CodeExecution, "run", "the input cannot be read: %w", err)
		}
		if len(input) > maxInput {
			return r, invalid("run", "Stdin", "at most 1 MiB of input is taken here", "use Start")
		}
		r.StdinBase64 = input
	}
	return r, nil
}

// foreground refuses what only a process in the background has.
func foreground(op string, cmd Command) error {
	switch {
	case cmd.Tag != "":
		return invalid(op, "Tag", "only a process in the background has a tag", "use StartProcess")
	case cmd.StdinOpen:
		return invalid(op, "StdinOpen", "only the input of a process in the background stays open", "use StartProcess")
	}
	return nil
}

// A Process is a command that Start has started, or that Attach follows. It is
// safe for concurrent use.
type Process struct {
	inner    *stream.Process // of Start
	done     func()          // of Start
	attached *attached       // of Attach, nil of Start
}

// Start starts a command and returns when it runs. Its streams are connected
// while it runs; the end of ctx ends it with all its processes. The caller calls
// Wait.
func (s *Sandbox) Start(ctx context.Context, cmd Command) (*Process, error) {
	if (len(cmd.Args) == 0) == (cmd.Line == "") {
		return nil, invalid("start", "Args", "exactly one of Args and Line is needed", "")
	}
	if err := foreground("start", cmd); err != nil {
		return nil, err
	}
	ask := s.asks(cmd.Ask)
	c := sandbox.Command{Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir, Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr, TTY: cmd.TTY}
	done := s.answering(ctx, ask)
	p, _, err := s.api.connectLine(ctx, "start", one(s.name, "/attach"), nil, c, cmd.Line, AttachOptions{Tool: cmd.Tool, User: cmd.User, Ask: ask, Timeout: cmd.Timeout})
	if err != nil {
		done()
		return nil, err
	}
	return &Process{inner: p, done: done}, nil
}

// Wait waits for the end of the command and of its output, and says how it
// ended; Stdout and Stderr of the result are empty. It may be called again. An
// error means that it is not known how the command ended.
//
// Of a process that Attach follows it waits for the end of the attachment, which
// is an error where it comes before that of the process.
func (p *Process) Wait() (Result, error) {
	if p.attached != nil {
		return p.attached.wait()
	}
	exit, err := p.inner.Wait()
	p.done()
	if err != nil {
		return Result{}, err
	}
	r := Result{ExitCode: exit.Code, Signal: exit.Signal, Usage: exit.Usage, Limit: exit.Limit, Left: exit.Left}
	if text := p.inner.Outcome(); len(text) > 0 {
		var out api.Exit
		if err := json.Unmarshal(text, &out); err != nil {
			return r, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "wait", Message: "how the command ended cannot be read", Err: err}
		}
		r = resultOf(api.ExecResult{Exit: out})
		r.Usage = exit.Usage
	}
	return r, nil
}

// Signal sends the signal of that name, such as "TERM" or "INT".
func (p *Process) Signal(ctx context.Context, name string) error {
	if a := p.attached; a != nil {
		return a.s.api.SignalProcess(ctx, a.s.name, a.id, name)
	}
	return p.inner.Signal(ctx, name)
}

// Resize changes the size of the terminal.
func (p *Process) Resize(ctx context.Context, t sandbox.TTY) error {
	if a := p.attached; a != nil {
		return a.s.api.ResizeProcess(ctx, a.s.name, a.id, t)
	}
	return p.inner.Resize(ctx, t)
}

// Kill ends the command with all its processes.
func (p *Process) Kill(ctx context.Context) error {
	if a := p.attached; a != nil {
		_, err := a.s.api.KillProcess(ctx, a.s.name, a.id)
		return err
	}
	return p.inner.Kill(ctx)
}

// A Shell keeps working folder, variables and functions from line to line. Lines
// take turns. A shell that is not used for a while is closed.
type Shell struct {
	s  *Sandbox
	id string
}

// Shell opens a shell. The caller closes it.
func (s *Sandbox) Shell(ctx context.Context) (*Shell, error) {
	sh, err := s.api.OpenShell(ctx, s.name, api.OpenShell{})
	if err != nil {
		return nil, err
	}
	return &Shell{s, sh.ID}, nil
}

// Run runs a line, or several, and returns its output as [Sandbox.Run] does. A
// result with Restarted says that the shell has begun anew.
func (sh *Shell) Run(ctx context.Context, line string) (Result, error) {
	ask := sh.s.asks(false)
	defer sh.s.answering(ctx, ask)()
	out, err := sh.s.api.RunLine(ctx, sh.s.name, sh.id, api.RunLine{Line: line, Ask: ask})
	return resultOf(out), err
}

// Stream runs a line and passes its output on as it comes; nil discards. Stdout
// and Stderr of the result are empty. A writer that fails ends the line.
func (sh *Shell) Stream(ctx context.Context, line string, stdout, stderr io.Writer) (Result, error) {
	ask := sh.s.asks(false)
	defer sh.s.answering(ctx, ask)()
	exit, err := sh.s.api.RunLineStream(ctx, sh.s.name, sh.id, api.RunLine{Line: line, Ask: ask}, Sinks{Stdout: stdout, Stderr: stderr})
	return resultOf(api.ExecResult{Exit: exit}), err
}

// Close closes the shell and ends what its lines have left running. Closing it
// again has no effect.
func (sh *Shell) Close() error {
	err := sh.s.api.CloseShell(sh.s.c.life, sh.s.name, sh.id)
	if sandbox.IsNotFound(err) {
		return nil
	}
	return err
}

// Dial connects to a program that listens on the loopback interface of the
// sandbox. It has the form of the DialContext of an http.Transport: network is
// tcp, and address is localhost:PORT, 127.0.0.1:PORT, [::1]:PORT or :PORT, all of
// which mean the sandbox. Nothing outside of it is reached.
func (s *Sandbox) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	number, bad := strconv.ParseUint(port, 10, 16)
	switch {
	case network != "tcp" && network != "tcp4" && network != "tcp6":
		return nil, invalid("dial", "network", "only tcp is connected to", "")
	case err != nil || bad != nil || number == 0:
		return nil, invalid("dial", "address", "the address is not HOST:PORT with a number as the port", "write localhost:8000")
	case host != "" && !loopback(host):
		return nil, invalid("dial", "address", "the host is not the sandbox's own loopback interface", "write localhost:"+port)
	}
	return s.api.DialPort(ctx, s.name, int(number))
}

// A Tool is one that an agent of the session may call, with JSON Schemas of its
// input and its data.
type Tool = api.Tool

// A ToolAnswer is what the call of a tool came to.
type ToolAnswer = api.ToolAnswer

// Tools lists the tools that the settings allow to agents.
func (s *Sandbox) Tools(ctx context.Context) ([]Tool, error) {
	l, err := s.api.Tools(ctx, s.name)
	return l.Items, err
}

// CallTool calls a tool as an agent does. Input is what its InputSchema says; a
// json.RawMessage is sent as it is, and nil is an empty object.
func (s *Sandbox) CallTool(ctx context.Context, tool string, input any) (ToolAnswer, error) {
	ask := s.asks(false)
	defer s.answering(ctx, ask)()
	return s.api.UseTool(ctx, s.name, ToolCall{Tool: tool, Input: input, Ask: ask})
}

// Remove ends what runs in the sandbox and removes it with its workspace, unless
// that is a folder of the host. That it does not exist is no error.
func (s *Sandbox) Remove(ctx context.Context) error {
	q := url.Values{"workspace": {"true"}, "force": {"true"}}
	err := s.api.Call(ctx, Request{Op: "remove sandbox", Method: http.MethodDelete, Path: one(s.name, ""), Query: q}, nil)
	if sandbox.IsNotFound(err) {
		return nil
	}
	return err
}

// asks reports whether a call has permissions asked for.
func (s *Sandbox) asks(wanted bool) bool { return wanted || s.c.o.approver != nil }

// answering has the client's approver answer what calls of the sandbox's session
// ask, until stop is called.
func (s *Sandbox) answering(ctx context.Context, ask bool) (stop func()) {
	if !ask || s.c.o.approver == nil {
		return func() {}
	}
	return answering(ctx, s.api, config.Who{Tenant: s.api.o.Tenant, Agent: s.agent, Session: s.session}, s.c.o.approver, s.c.o.log)
}

func invalid(op, field, message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: field, Message: message, Hint: hint}
}

// resultOf returns a result as programs have it.
func resultOf(r api.ExecResult) Result {
	out := Result{
		Stdout: []byte(r.Stdout), Stderr: []byte(r.Stderr), StdoutBytes: r.StdoutBytes, StderrBytes: r.StderrBytes, Truncated: r.Truncated,
		Waited: r.Waited, Left: r.Left, Warnings: r.Warnings, Limit: r.Limit, ExitCode: r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut,
		Restarted: r.Restarted, LostDir: r.LostDir, Blocked: r.Blocked, BlockedReason: r.BlockedReason, BlockedResource: r.BlockedResource,
		Duration: time.Duration(r.DurationMillis) * time.Millisecond,
		Usage: sandbox.Rusage{
			User: time.Duration(r.UserMillis) * time.Millisecond, System: time.Duration(r.SystemMillis) * time.Millisecond, MaxRSS: r.MaxRSS,
		},
	}
	if r.StdoutBase64 != nil {
		out.Stdout = r.StdoutBase64
	}
	if r.StderrBase64 != nil {
		out.Stderr = r.StderrBase64
	}
	for _, v := range r.Violations {
		out.Violations = append(out.Violations, sandbox.Violation{
			Kind: v.Kind, Operation: sandbox.Operation(v.Operation), Resource: v.Resource, Rule: v.Rule, Builtin: v.Builtin,
			Evidence: sandbox.Evidence(v.Evidence), Program: v.Program, Time: v.Time,
		})
	}
	return out
}

// isCode reports whether err has the code.
func isCode(err error, code sandbox.Code) bool {
	return errors.Is(err, &sandbox.Error{Code: code})
}
