package resource

import (
	"context"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// stream runs a command and sends its output as events while it runs.
func (s commandsResource) stream(c *Call, req manager.Request, name string, line bool) (any, error) {
	run := s.m.Run
	if line {
		run = s.m.Shell
	}
	return streamCommands(c, name, func(ctx context.Context, t *commandsTeller) (manager.Outcome, error) {
		req.Command.Stdout, req.Command.Stderr = t.Stdout, t.Stderr
		req.Again, req.Started = t.Again, t.Started
		return run(ctx, req)
	})
}

// A commandsTeller sends the events of a running command to the caller.
type commandsTeller struct {
	Stdout, Stderr *commandsOutput
	call           *Call

	mu     sync.Mutex
	events *Events // nil until there is an event to send
}

// streamCommands calls run and answers with its events. An error before the
// command has begun is answered as for every route.
func streamCommands(c *Call, name string, run func(context.Context, *commandsTeller) (manager.Outcome, error)) (any, error) {
	t := &commandsTeller{call: c}
	t.Stdout, t.Stderr = &commandsOutput{t: t, event: api.EventStdout}, &commandsOutput{t: t, event: api.EventStderr}
	ctx, cancel := context.WithCancelCause(c.Context())
	defer cancel(nil)
	t.Stdout.gone, t.Stderr.gone = cancel, cancel
	out, err := run(ctx, t)
	if exit, message, ok := manager.Unstarted(err); ok {
		out.Exit = exit
		_, err = io.WriteString(t.Stderr, message)
	}
	if err != nil && !t.begun() {
		return nil, err
	}
	e := t.begin()
	defer e.Close()
	if err != nil {
		_ = e.Send(api.EventError, c.Problem(c.Why(err))) // or the caller has gone
		return Sent{}, nil
	}
	t.Stdout.rest()
	t.Stderr.rest()
	if out.Name == "" {
		out.Name = name
	}
	_ = e.Send(api.EventExit, Exit(out, t.Stdout.written, t.Stderr.written))
	return Sent{}, nil
}

func (t *commandsTeller) begun() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.events != nil
}

func (t *commandsTeller) begin() *Events {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.events == nil {
		t.events = t.call.Events()
	}
	return t.events
}

// Started begins the answer: the command runs, so it can no longer be refused.
func (t *commandsTeller) Started(sandbox.Process) { t.begin() }

// Again reports that the command begins anew.
func (t *commandsTeller) Again() {
	t.Stdout.void()
	t.Stderr.void()
	_ = t.begin().Send(api.EventAgain, struct{}{}) // a client that has gone is noticed by the next write
}

// A commandsOutput sends as events what is written to it. A write blocks while
// the client does not read, which makes the program wait.
type commandsOutput struct {
	t     *commandsTeller
	event string
	gone  context.CancelCauseFunc

	mu      sync.Mutex
	tail    []byte // the beginning of a character whose end has not been written
	written int64
}

// maxEvent is the most output in one event, in bytes.
const maxEvent = 32 << 10

// Write implements io.Writer.
func (o *commandsOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written += int64(len(p))
	data := p
	if len(o.tail) > 0 {
		data = append(o.tail, p...)
		o.tail = nil
	}
	whole := wholeRunes(data)
	o.tail = append([]byte(nil), data[whole:]...)
	for data = data[:whole]; len(data) > 0; {
		n := len(data)
		if n > maxEvent {
			n = max(wholeRunes(data[:maxEvent]), 1)
		}
		if err := o.send(data[:n]); err != nil {
			return len(p), err
		}
		data = data[n:]
	}
	return len(p), nil
}

// rest sends the bytes at the end that are no complete UTF-8 character.
func (o *commandsOutput) rest() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.tail) > 0 {
		_ = o.send(o.tail) // as Write
		o.tail = nil
	}
}

func (o *commandsOutput) void() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tail, o.written = nil, 0
}

// send sends one piece. An error means that the client has gone, and ends the
// command.
func (o *commandsOutput) send(b []byte) error {
	out := api.Output{Text: string(b)}
	if !utf8.Valid(b) {
		out = api.Output{Base64: b}
	}
	err := o.t.begin().Send(o.event, out)
	if err != nil {
		o.gone(err)
	}
	return err
}
