package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/tools/running"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// exec runs shell text: in the shell that stays, on a terminal of its own, or in
// the background.
func (c *call) exec(ctx context.Context, in schema.Exec) (Answer, error) {
	limits, err := c.usable()
	if err != nil {
		return Answer{}, err
	}
	if in.Restart {
		if err := c.restart(ctx); err != nil || in.Command == "" {
			return Answer{Text: "the shell is a new one: it is in the workspace, and nothing of the one before is left", Data: schema.ExecResult{State: "restarted"}}, err
		}
	}
	limit, more := timeLimit(limits.Timeout, time.Duration(in.Timeout)*time.Second)
	if in.Background {
		return c.background(ctx, in, limit)
	}
	out := newCapture(limits.Output, c.progress)
	o, err := c.foreground(ctx, in, limit, out)
	if err != nil {
		return Answer{}, err
	}
	a := ended(o, out, more)
	if in.Restart {
		a.Text = lines("[the shell was started anew, as asked]", a.Text)
	}
	return a, nil
}

// timeLimit returns how long a command may take that the call gives the time
// asked and the settings no more than most, zero being no bound, and what its
// agent can do when that was not enough.
func timeLimit(most, asked time.Duration) (limit time.Duration, more string) {
	if asked > 0 && (most == 0 || asked < most) {
		return asked, "give it more with timeout, or run it in the background"
	}
	return most, "the settings give no command more (limits.timeout), so do less at a time"
}

// restart ends the shell that stays. The next line finds a new one.
func (c *call) restart(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- c.tools.o.Running.CloseShell(c.session.Who, running.Main) }()
	select {
	case err := <-done:
		if sandbox.IsNotFound(err) {
			err = nil
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// apart is the request for a command that has nothing to do with the shell that
// stays.
func (c *call) apart(in schema.Exec, limit time.Duration) manager.Request {
	req := c.request()
	req.Command = sandbox.Command{Args: []string{"-c", in.Command}, Dir: in.Dir, Env: in.Env}
	if in.TTY {
		req.Command.TTY = &sandbox.TTY{Rows: uint16(in.Rows), Cols: uint16(in.Cols)}
	}
	req.Timeout = limit
	return req
}

// foreground runs the command and waits for its end.
func (c *call) foreground(ctx context.Context, in schema.Exec, limit time.Duration, out *capture) (manager.Outcome, error) {
	var stdin io.Reader
	if in.Stdin != "" {
		stdin = strings.NewReader(in.Stdin)
	}
	if in.TTY {
		req := c.apart(in, limit)
		req.Command.Stdin, req.Command.Stdout, req.Again = stdin, out.stdout(), out.again
		return unstarted(out)(c.tools.o.Manager.Shell(ctx, req))
	}
	return unstarted(out)(c.tools.o.Running.Line(ctx, c.request(), running.Main, manager.Line{
		Text: in.Command, Stdin: stdin, Stdout: out.stdout(), Stderr: out.stderr(), Timeout: limit, Ask: c.session.Ask, Again: out.again,
	}))
}

// unstarted makes an ended command of one whose program could not be started, and
// writes why where its errors go.
func unstarted(to *capture) func(manager.Outcome, error) (manager.Outcome, error) {
	return func(o manager.Outcome, err error) (manager.Outcome, error) {
		if exit, message, ok := manager.Unstarted(err); ok {
			o.Exit = exit
			_, err = io.WriteString(to.stderr(), message)
		}
		return o, err
	}
}

// background starts the command and answers with its id.
func (c *call) background(ctx context.Context, in schema.Exec, limit time.Duration) (Answer, error) {
	s, err := c.tools.o.Running.Start(ctx, c.apart(in, limit), running.StartOptions{Text: bounded(in.Command), Tag: in.Tag, Stdin: []byte(in.Stdin), Shell: true})
	if err != nil {
		return Answer{}, err
	}
	if s.Err == nil && s.Outcome != nil && s.State == running.StateEnded {
		return Answer{
			Text: fmt.Sprintf("it has ended already, with exit status %d, as %s; see its output with process poll", s.Outcome.Exit.Code, s.ID),
			Data: schema.ExecResult{State: "ended", ID: s.ID, ExitCode: s.Outcome.Exit.Code, Left: s.Outcome.Exit.Left, Warnings: s.Outcome.Warnings}, Failed: s.Outcome.Exit.Code != 0,
		}, nil
	}
	text := "it runs in the background as " + s.ID + "; see its output with process poll"
	if limit > 0 {
		text += fmt.Sprintf(", and it is ended after %s", limit)
	}
	return Answer{Text: text, Data: schema.ExecResult{State: "running", ID: s.ID}}, nil
}

// ended is the answer of a command that has ended; more is what to do when its
// time was not enough.
func ended(o manager.Outcome, out *capture, more string) Answer {
	d := schema.ExecResult{
		State: "ended", ExitCode: o.Exit.Code, Signal: o.Exit.Signal, TimedOut: o.TimedOut, Restarted: o.Exit.Restarted, LostDir: o.Exit.LostDir, Limit: o.Exit.Limit, Left: o.Exit.Left, Waited: o.Waited, Warnings: o.Warnings,
		Blocked: o.Blocked, BlockedReason: o.BlockedReason, BlockedResource: o.BlockedResource, Violations: o.Violations,
		Sandbox: o.Name, Created: o.Created, Claimed: o.Claimed, Miss: o.Miss, DurationMS: o.Duration.Milliseconds(), CPUMS: (o.Exit.Usage.User + o.Exit.Usage.System).Milliseconds(),
	}
	var hit *sandbox.LimitHit
	d.Stdout, d.Stderr, hit = out.streams()
	d.Truncated = d.Stdout.Omitted+d.Stderr.Omitted > 0
	if d.Limit == nil {
		d.Limit = hit
	}
	stderr := d.Stderr.Text
	if stderr != "" {
		stderr = "[stderr]\n" + stderr
	}
	text := lines(d.Stdout.Text, stderr, remarks(said(d, more)...))
	if text == "" {
		text = "[no output, exit status 0]"
	}
	return Answer{Text: text, Data: d, Failed: d.ExitCode != 0 || d.TimedOut}
}

// said is what there is to say about the end of a command, beside its output.
func said(d schema.ExecResult, more string) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch {
	case d.TimedOut:
		add("the command was ended at its time limit after %s, with all that it had started; %s", time.Duration(d.DurationMS)*time.Millisecond, more)
	case d.Limit != nil && d.Limit.Limit != sandbox.LimitMaxOutputBytes:
		add("exit status %d; it has reached a limit: %s; %s", d.ExitCode, d.Limit, d.Limit.Hint())
	case d.Signal != "":
		add("ended by the signal %s, exit status %d", d.Signal, d.ExitCode)
	case d.ExitCode != 0:
		add("exit status %d", d.ExitCode)
	}
	if d.Waited.Long() {
		add("%s; %s", d.Waited, d.Waited.Hint())
	}
	if len(d.Warnings) > 0 {
		add("warning: %s; strictness strict refuses such lines", strings.Join(d.Warnings, ", "))
	}
	switch {
	case d.Blocked:
		add("blocked: %s", d.BlockedReason)
	default:
		for _, v := range d.Violations[:min(len(d.Violations), 3)] {
			add("stopped: %s %s, by %s", v.Operation, v.Resource, v.Rule)
		}
	}
	if d.Left != nil {
		add("%s", d.Left)
	}
	if d.Restarted {
		add("the shell is a new one: directory, variables and functions are those of before the line that ended it, and what it had in the background has ended")
	}
	if d.LostDir != "" {
		add("the folder %s is gone with a rollback: the line began in the workspace", d.LostDir)
	}
	if d.Truncated {
		add("%d bytes of the output are left out in the middle and were not kept; to see them all write the output to a file and read that", d.Stdout.Omitted+d.Stderr.Omitted)
	}
	return out
}

// bounded is the beginning of a command, for people.
func bounded(s string) string {
	const most = 1000
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " …"
}

// writeWithin is how long a write waits for a command that does not read.
const writeWithin = 30 * time.Second

// maxPoll is how much output one poll shows, in bytes.
const maxPoll = 64 << 10

// process looks after commands in the background.
func (c *call) process(ctx context.Context, in schema.Process) (Answer, error) {
	h, who := c.tools.o.Running, c.session.Who
	switch in.Action {
	case "list":
		return c.status(in, h.List(who)...), nil
	case "ports":
		return c.ports(ctx, in)
	case "poll":
		return c.poll(ctx, in)
	case "write":
		within, done := context.WithTimeoutCause(ctx, writeWithin, errSlowReader)
		defer done()
		if err := h.Write(within, who, in.ID, []byte(in.Data), in.EOF); err != nil {
			if ctx.Err() == nil && errors.Is(context.Cause(within), errSlowReader) {
				err = &sandbox.Error{Code: sandbox.CodeTimeout, Op: "process", Resource: shown(in.ID), Message: fmt.Sprintf("the command has not read what is written before within %s", writeWithin), Retryable: true}
			}
			return Answer{}, err
		}
	case "resize":
		if err := h.Resize(ctx, who, in.ID, sandbox.TTY{Rows: uint16(in.Rows), Cols: uint16(in.Cols)}); err != nil {
			return Answer{}, err
		}
	case "kill":
		if in.Signal == "" || in.Signal == "KILL" {
			s, err := h.Kill(ctx, who, in.ID)
			return c.status(in, s), err
		}
		if err := h.Signal(ctx, who, in.ID, in.Signal); err != nil {
			return Answer{}, err
		}
	}
	p, err := h.Poll(ctx, who, in.ID, running.PollOptions{Max: 1})
	return c.status(in, p.Status), err
}

// errSlowReader is the cause of a write that ends because the command does not
// read its input.
var errSlowReader = errors.New("the command does not read")
