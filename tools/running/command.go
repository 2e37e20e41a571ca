package running

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

// A State is how far a command is.
type State string

// The states. A command has failed when the way it ended is unknown: it was
// refused, its sandbox failed, or it was abandoned. Only [Status.Outcome] of a
// command that has ended says how the program itself ended.
const (
	StateRunning State = "running"
	StateEnded   State = "ended"
	StateFailed  State = "failed"
)

// A Status is what there is to know of a command.
type Status struct {
	ID      string
	PID     int      // inside of the sandbox, of the last one where it was run again; 0 where it is not known
	Tag     string   // as the caller named it
	Text    string   // of the command, for people
	Args    []string // program and arguments, or those of the shell; nil where they are longer than 16 KiB
	Dir     string   // where it was to run; empty is the workspace
	State   State
	TTY     bool
	Killed  bool // a caller has asked for its end
	Started time.Time
	Ended   time.Time // zero while it runs
	Bytes   int64     // of output in all: the place behind the last one
	Lines   int64     // of output in all

	StdoutBytes, StderrBytes int64

	// Outcome is how the command ended, for StateEnded alone; nil otherwise, so
	// that a zero exit status is never mistaken for a success.
	Outcome *manager.Outcome
	// Err is why it is StateFailed; nil otherwise.
	Err *sandbox.Error
}

// StartOptions say how a command is started in the background.
type StartOptions struct {
	Text  string // of the command, for people; empty takes it from the arguments
	Stdin []byte // what is there to read at first, at most 1 MiB
	EOF   bool   // nothing more will be written
	// Shell has the sandbox's shell run with the arguments, see
	// [manager.Manager.Shell].
	Shell bool

	// Tag is a name of the caller's choice, at most 128 bytes of UTF-8 without
	// control characters, which has more than digits. No two commands of a
	// session that run have the same.
	Tag string
	// Unattended ends the command when no client has followed it for so long;
	// 0 is never.
	Unattended time.Duration
	// Ended, if it is not nil, is called once, before the command's status says
	// that it has ended or Start returns an error. It must not call the Supervisor.
	Ended func()
}

// A command is one in the background. Its fields are fixed, or guarded by
// Supervisor.mu.
type command struct {
	id         string
	supervisor *Supervisor
	who        config.Who
	tenant     *tenant
	text       string
	tag        string
	args       []string
	dir        string
	tty        bool
	out        *output
	in         *input
	life       context.Context
	cancel     context.CancelCauseFunc

	up   chan struct{} // closed when it runs, or will not
	done chan struct{} // closed when it has ended

	after   func()          // called when it has ended; may be nil
	process sandbox.Process // the last one, nil before the first
	pid     int             // of process
	watch   watch
	state   State
	killed  bool
	begun   time.Time
	ended   time.Time
	outcome *manager.Outcome
	err     *sandbox.Error
	seen    int64 // where the last poll stopped
	held    int64 // memory for output
	gone    bool  // no longer found
	code    bool  // it is the kernel host of the session
}

var errKilled = errors.New("its end was asked for")

func (c *command) over() bool { return c.state != StateRunning }

// stop ends the command by the end of its context.
func (c *command) stop(cause error) {
	c.supervisor.mu.Lock()
	if !c.over() {
		c.killed = true
	}
	c.supervisor.mu.Unlock()
	c.cancel(cause)
}

// Start runs a command in the background. It returns as soon as the command
// runs; what is refused, or cannot be started, is an error and leaves nothing.
// The end of ctx afterwards does not concern the command, whose time limit is
// that of req, or of the settings.
//
// Stdin, Stdout and Stderr of req.Command must be nil. On a terminal
// (req.Command.TTY) all output is on [Stdout].
func (h *Supervisor) Start(ctx context.Context, req manager.Request, o StartOptions) (Status, error) {
	c, err := h.admit(ctx, req, o)
	if err != nil {
		if o.Ended != nil {
			o.Ended()
		}
		return Status{}, err
	}
	req.Command.Stdin, req.Command.Stdout, req.Command.Stderr = c.in, writer{c.out, Stdout}, writer{c.out, Stderr}
	again := req.Again
	req.Again = func() {
		c.out.again()
		if again != nil {
			again()
		}
	}
	started := req.Started
	req.Started = func(p sandbox.Process) {
		c.runs(p)
		if started != nil {
			started(p)
		}
	}
	run := h.o.Manager.Run
	if o.Shell {
		run = h.o.Manager.Shell
	}
	go c.run(func() (manager.Outcome, error) { return run(c.life, req) })
	select {
	case <-c.up:
	case <-ctx.Done():
		c.stop(context.Cause(ctx))
		<-c.up
	}
	s, err := c.begin(ctx)
	if err == nil {
		h.mu.Lock()
		c.watch.begin(c)
		h.mu.Unlock()
	}
	return s, err
}

// begin is what Start answers when the command runs or will not.
func (c *command) begin(ctx context.Context) (Status, error) {
	h := c.supervisor
	if ctx.Err() != nil {
		<-c.done // the caller will never learn its id
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		h.forget(c)
		h.tidy(c.who)
		return Status{}, &sandbox.Error{Code: sandbox.CodeExecution, Op: "start", Message: "the caller gave up while the command was started", Err: context.Cause(ctx)}
	case c.state == StateFailed && c.process == nil:
		h.forget(c)
		h.tidy(c.who)
		return Status{}, c.err
	}
	return c.status(), nil
}

// admit registers a command within the bounds.
func (h *Supervisor) admit(ctx context.Context, req manager.Request, o StartOptions) (*command, error) {
	switch r := req.Command; {
	case r.Stdin != nil || r.Stdout != nil || r.Stderr != nil:
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "start", Field: "command", Message: "what runs in the background has its own input and output"}
	case len(o.Stdin) > maxPending:
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "start", Field: "stdin", Message: "is longer than 1 MiB"}
	}
	if err := checkTag(o.Tag); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return nil, closing("start")
	}
	have, t := h.of(req.Who)
	defer h.tidy(req.Who)
	runs := 0
	for _, c := range have.commands {
		if !c.over() {
			runs++
		}
	}
	input := int64(len(o.Stdin))
	args, length := argsOf(req.Command)
	memory := 2*least + input + length
	switch {
	case runs >= h.o.CommandsPerSession:
		return nil, tooMany("start", "the number of commands that run in this session", h.o.CommandsPerSession)
	case t.running >= h.o.CommandsPerTenant:
		return nil, tooMany("start", "the number of commands that run for this tenant", h.o.CommandsPerTenant)
	case o.Tag != "" && have.tagged(o.Tag):
		return nil, &sandbox.Error{
			Code: sandbox.CodeBusy, Op: "start", Field: "tag", Resource: o.Tag, Message: "a command of this session that runs has the same tag",
			Hint: "end it first, or take another tag",
		}
	case t.memory+memory > h.o.MemoryPerTenant || h.memory+memory > h.o.Memory || input > 0 && h.memory+memory > h.growth():
		return nil, noMemory("start", "input and output")
	}
	c := &command{
		id: newID(), supervisor: h, who: req.Who, tenant: t, text: o.Text, tty: req.Command.TTY != nil, state: StateRunning,
		up: make(chan struct{}), done: make(chan struct{}), begun: h.o.Now(), held: memory,
		tag: o.Tag, args: args, dir: req.Command.Dir, after: o.Ended, watch: watch{within: o.Unattended},
	}
	if c.text == "" {
		c.text = text(req.Command.Args)
	}
	c.life, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	c.in = newInput(slices.Clone(o.Stdin), o.EOF, c.take)
	c.out = newOutput(c.life, h.o.Keep, c.take)
	have.commands[c.id] = c
	t.running++
	t.memory += memory
	h.memory += memory
	h.active.Add(1)
	return c, nil
}

// take takes memory for the output or input, or says that there is none; of a
// negative number it gives back as much.
func (c *command) take(n int64) bool {
	h := c.supervisor
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.gone || n > 0 && (c.tenant.memory+n > h.o.MemoryPerTenant || h.memory+n > h.growth()) {
		return false
	}
	c.hold(n)
	return true
}

// growth is how much memory commands together may grow to. The rest is for
// those that begin: a few tenants that use all they may must not keep the others
// from starting anything.
func (h *Supervisor) growth() int64 { return h.o.Memory - h.o.Memory/4 }

// hold counts memory that the command has more, or less. The lock is held.
func (c *command) hold(n int64) {
	c.held += n
	c.tenant.memory += n
	c.supervisor.memory += n
}

// runs notes that the command runs, or runs again.
func (c *command) runs(p sandbox.Process) {
	h := c.supervisor
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.process == nil {
		close(c.up)
	}
	c.process, c.pid = p, 0
	if i, ok := p.(sandbox.Identified); ok {
		c.pid = i.PID()
	}
}

// run waits for the command's end.
func (c *command) run(run func() (manager.Outcome, error)) {
	h := c.supervisor
	defer h.active.Done()
	out, err := run()
	if exit, message, ok := manager.Unstarted(err); ok {
		out.Exit = exit
		_, err = io.WriteString(writer{c.out, Stderr}, message)
	}
	c.in.close()
	spare := c.out.end()
	if c.after != nil {
		c.after() // before its end is seen, and without the lock
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c.ended = h.o.Now()
	c.state, c.outcome = StateEnded, &out
	if err != nil {
		c.state, c.outcome, c.err = StateFailed, nil, c.failure(err)
	}
	c.tenant.running--
	c.watch.stop()
	if !c.gone {
		c.hold(-spare)
		h.inFlight(c.who)
	}
	if c.process == nil {
		close(c.up)
	}
	c.cancel(nil)
	close(c.done)
}

// failure is err, with the reason when that is our own.
func (c *command) failure(err error) *sandbox.Error {
	if cause := context.Cause(c.life); cause != nil && c.killed {
		return &sandbox.Error{Code: sandbox.CodeExecution, Op: "run", Resource: c.id, Message: "the command was ended: " + cause.Error(), Err: err}
	}
	var e *sandbox.Error
	if errors.As(err, &e) {
		return e
	}
	return &sandbox.Error{Code: sandbox.CodeInternal, Op: "run", Resource: c.id, Message: "the command failed", Err: err}
}

// inFlight forgets the commands that ended first when too many are kept. The lock
// is held.
func (h *Supervisor) inFlight(who config.Who) {
	have := h.sessions[who]
	if have == nil {
		return
	}
	var over []*command
	for _, c := range have.commands {
		if c.over() {
			over = append(over, c)
		}
	}
	slices.SortFunc(over, func(a, b *command) int { return a.ended.Compare(b.ended) })
	for len(over) > h.o.EndedPerSession {
		h.forget(over[0])
		over = over[1:]
	}
}

// forget lets a command be found no more, and its memory go. The lock is held.
func (h *Supervisor) forget(c *command) {
	if c.gone {
		return
	}
	c.gone = true
	if have := h.sessions[c.who]; have != nil {
		delete(have.commands, c.id)
	}
	c.hold(-c.held)
}

// status returns the report about c. The lock is held. It does not include the
// output, which has a lock of its own under which this one is taken for memory
// alone.
func (c *command) status() Status {
	return Status{ID: c.id, PID: c.pid, Tag: c.tag, Args: c.args, Dir: c.dir, Text: c.text, State: c.state, TTY: c.tty, Killed: c.killed, Started: c.begun, Ended: c.ended, Outcome: c.outcome, Err: c.err}
}
