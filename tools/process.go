package tools

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/tools/running"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// poll shows what a command has written since the last poll.
func (c *call) poll(ctx context.Context, in schema.Process) (Answer, error) {
	p, err := c.tools.o.Running.Poll(ctx, c.session.Who, in.ID, running.PollOptions{From: running.SinceLast, Wait: time.Duration(in.Wait) * time.Second, Max: maxPoll})
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return Answer{}, err
	}
	a := c.status(in, p.Status)
	d := a.Data.(schema.ProcessResult)
	out, errs := p.Text(running.Stdout), p.Text(running.Stderr)
	d.Output = &schema.Stream{Text: valid(out), Bytes: int64(len(out)), Omitted: p.Dropped}
	d.Errors = &schema.Stream{Text: valid(errs), Bytes: int64(len(errs))}
	d.Next, d.More = p.Next, p.More
	a.Data = d
	var notes []string
	if p.Dropped > 0 {
		notes = append(notes, fmt.Sprintf("%d bytes before this were written faster than they were polled and are lost; to keep all of it write the output to a file", p.Dropped))
	}
	if p.More {
		notes = append(notes, "there is more output; poll again")
	}
	text := valid(p.Text(0))
	if text == "" {
		notes = append(notes, "no output since the last poll")
	}
	a.Text = lines(text, remarks(notes...), a.Text)
	return a, nil
}

// ports shows at which ports programs in the sandbox listen. It makes no sandbox:
// in none, no program listens.
func (c *call) ports(ctx context.Context, in schema.Process) (Answer, error) {
	req := c.request()
	req.MustExist = true
	found, err := c.tools.o.Manager.Ports(ctx, req)
	if err != nil && !sandbox.IsNotFound(err) {
		return Answer{}, err
	}
	d := schema.ProcessResult{Action: in.Action, Commands: []schema.ProcessStatus{}}
	var rows []string
	for _, p := range found {
		d.Ports = append(d.Ports, schema.ProcessPort(p))
		row := "[port " + strconv.Itoa(p.Port) + " at " + p.Address
		if p.PID > 0 {
			row += fmt.Sprintf(": %d %s", p.PID, nameShow(firstLine(p.Command)))
		}
		rows = append(rows, row+"]")
	}
	if len(rows) == 0 {
		rows = append(rows, "[no program listens]")
	}
	return Answer{Text: strings.Join(rows, "\n"), Data: d}, nil
}

// status is the answer with how commands are.
func (c *call) status(in schema.Process, list ...running.Status) Answer {
	d := schema.ProcessResult{Action: in.Action, Commands: []schema.ProcessStatus{}}
	var rows []string
	for _, s := range list {
		p := statusOf(s)
		d.Commands = append(d.Commands, p)
		name := p.ID
		if p.Tag != "" {
			name += " (" + p.Tag + ")" // nothing in it that cannot be shown
		}
		rows = append(rows, "["+name+" "+termsafe.Line(howOf(p))+": "+nameShow(firstLine(p.Command))+"]")
	}
	if len(rows) == 0 {
		rows = append(rows, "[no command is in the background]")
	}
	return Answer{Text: strings.Join(rows, "\n"), Data: d, Failed: in.Action == "poll" && len(list) == 1 && failed(d.Commands[0])}
}

// failed reports whether a command has come to a bad end.
func failed(p schema.ProcessStatus) bool {
	return p.State == string(running.StateFailed) || p.ExitCode != nil && *p.ExitCode != 0
}

func statusOf(s running.Status) schema.ProcessStatus {
	p := schema.ProcessStatus{ID: s.ID, PID: s.PID, Tag: s.Tag, Command: strings.ToValidUTF8(s.Text, "\ufffd"), State: string(s.State), TTY: s.TTY, Started: s.Started.UTC(), Bytes: s.Bytes}
	if !s.Ended.IsZero() {
		when := s.Ended.UTC()
		p.Ended = &when
	}
	if o := s.Outcome; o != nil {
		p.ExitCode, p.Signal, p.TimedOut, p.Limit, p.Left, p.Warnings = &o.Exit.Code, o.Exit.Signal, o.TimedOut, o.Exit.Limit, o.Exit.Left, o.Warnings
		if o.Blocked {
			p.Blocked = o.BlockedReason
		}
	}
	if s.Err != nil {
		p.Code, p.Message = s.Err.Code, s.Err.Message
	}
	return p
}

// howOf is how a command is, in words.
func howOf(p schema.ProcessStatus) string {
	if p.Left == nil {
		return endOf(p)
	}
	return endOf(p) + "; " + p.Left.String()
}

func endOf(p schema.ProcessStatus) string {
	switch {
	case p.State == string(running.StateFailed):
		return fmt.Sprintf("failed, and it is not known how it ended: %s: %s", p.Code, p.Message)
	case p.ExitCode == nil:
		return "runs"
	case p.TimedOut:
		return "was ended at its time limit"
	case p.Blocked != "":
		return fmt.Sprintf("exit status %d, blocked: %s", *p.ExitCode, p.Blocked)
	case p.Limit != nil:
		return fmt.Sprintf("exit status %d, it has reached a limit: %s; %s", *p.ExitCode, p.Limit, p.Limit.Hint())
	case p.Signal != "":
		return fmt.Sprintf("ended by the signal %s", p.Signal)
	}
	return fmt.Sprintf("exit status %d", *p.ExitCode)
}

func firstLine(s string) string {
	head, rest, more := strings.Cut(strings.TrimSpace(s), "\n")
	if more && rest != "" {
		head += " …"
	}
	return head
}
