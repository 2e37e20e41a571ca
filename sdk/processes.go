package sdk

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// FromNow is the place in the output of a process from which only what comes is
// followed; 0 is the beginning.
const FromNow = -1

// A ProcessInfo says what there is to know of a process: a command that was
// started by [Sandbox.StartProcess], streamed, or put on a terminal that stays.
type ProcessInfo = api.Process

func processPath(name, ref, below string) string {
	return one(name, "/processes/"+url.PathEscape(ref)+below)
}

// StartProcess starts a command in the background, and returns when it runs.
func (c *API) StartProcess(ctx context.Context, name string, r api.StartProcess) (api.Process, error) {
	return post[api.Process](ctx, c, "start process", one(name, "/processes"), r)
}

// Processes lists the processes of the session, the oldest first.
func (c *API) Processes(ctx context.Context, name string) (api.ProcessList, error) {
	return get[api.ProcessList](ctx, c, "list processes", one(name, "/processes"), nil)
}

// Process returns the process with the id, number or tag ref; also one that has
// ended, for a while.
func (c *API) Process(ctx context.Context, name, ref string) (api.Process, error) {
	return get[api.Process](ctx, c, "show process", processPath(name, ref, ""), nil)
}

// KillProcess ends a process with all that it has started, and says how it has
// ended.
func (c *API) KillProcess(ctx context.Context, name, ref string) (api.Process, error) {
	return ask[api.Process](ctx, c, Request{Op: "kill process", Method: http.MethodDelete, Path: processPath(name, ref, "")})
}

// WriteProcess writes to the input of a process, at most 1 MiB at once.
func (c *API) WriteProcess(ctx context.Context, name, ref string, in api.ProcessInput) error {
	return c.Call(ctx, Request{Op: "write", Method: http.MethodPost, Path: processPath(name, ref, "/stdin"), JSON: in}, nil)
}

// SignalProcess sends the signal of that name, such as "TERM", to the process
// group of a process.
func (c *API) SignalProcess(ctx context.Context, name, ref, signal string) error {
	return c.Call(ctx, Request{Op: "signal", Method: http.MethodPost, Path: processPath(name, ref, "/signal"), JSON: api.ProcessSignal{Signal: signal}}, nil)
}

// ResizeProcess changes the size of the terminal of a process.
func (c *API) ResizeProcess(ctx context.Context, name, ref string, t sandbox.TTY) error {
	return c.Call(ctx, Request{Op: "resize", Method: http.MethodPost, Path: processPath(name, ref, "/resize"), JSON: api.TerminalSize{Rows: int(t.Rows), Cols: int(t.Cols)}}, nil)
}

// ProcessSinks are where the output of a process goes.
type ProcessSinks struct {
	Sinks

	// Process, if it is not nil, receives the process as it is, before its
	// output, and again when a connection that was cut has been replaced.
	Process func(api.Process)
	// Dropped, if it is not nil, receives how many bytes before what comes next
	// are not kept any more.
	Dropped func(bytes int64)
}

// FollowProcess passes on what a process has written from a place on, and what
// it writes, until it has ended. The end of ctx, and a writer that fails, end the
// following and not the process. When the connection is cut it goes on behind
// the last event over another one.
func (c *API) FollowProcess(ctx context.Context, name, ref string, from int64, to ProcessSinks) (api.Exit, error) {
	return c.followed(ctx, name, Request{
		Op: "attach", Method: http.MethodGet, Path: processPath(name, ref, "/stream"), Query: url.Values{"from": {strconv.FormatInt(from, 10)}},
	}, to)
}

// StreamProcess starts a command and passes on what it writes, until it has
// ended. When the connection is cut it goes on over another one. The end of ctx
// ends the command 30 seconds later, unless it is in the background or followed
// by another client: then it goes on. See ExecStream for a command that ends with
// ctx.
func (c *API) StreamProcess(ctx context.Context, name string, r api.ExecStream, to ProcessSinks) (api.Exit, error) {
	return c.followed(ctx, name, Request{Op: "exec", Method: http.MethodPost, Path: one(name, "/exec/stream"), JSON: r}, to)
}

// followed makes a request that is answered with the events of a process, and
// follows these over as many connections as it takes.
func (c *API) followed(ctx context.Context, name string, q Request, to ProcessSinks) (api.Exit, error) {
	var exit api.Exit
	last, tries := "", 0
	for {
		err := c.follow(ctx, q, func(e event) (over bool, err error) {
			if e.id != "" {
				last, tries = e.id, 0
			}
			switch e.name {
			case api.EventProcess:
				var p api.Process
				if p, err = reported[api.Process](q.Op, e); err == nil && to.Process != nil {
					to.Process(p)
				}
			case api.EventDropped:
				var d api.Dropped
				if d, err = reported[api.Dropped](q.Op, e); err == nil && to.Dropped != nil {
					to.Dropped(d.Bytes)
				}
			case api.EventStdout:
				err = pass(q.Op, e, to.Stdout)
			case api.EventStderr:
				err = pass(q.Op, e, to.Stderr)
			case api.EventAgain:
				if to.Again != nil {
					to.Again()
				}
			case api.EventExit:
				exit, err = reported[api.Exit](q.Op, e)
				return true, err
			}
			return false, err
		})
		if sandbox.CodeOf(err) != sandbox.CodeUnavailable || last == "" || tries >= max(c.o.Retries, 1) || ctx.Err() != nil {
			return exit, err
		}
		tries++
		id, _, _ := strings.Cut(last, ".")
		q = Request{Op: q.Op, Method: http.MethodGet, Path: processPath(name, id, "/stream"), Header: http.Header{api.HeaderLastEvent: {last}}}
		if !rest(ctx, time.Duration(tries)*100*time.Millisecond) {
			return exit, err
		}
	}
}

// StartProcess starts a command in the background and returns when it runs. It
// goes on when ctx has ended and when the program of the client has; a client of
// this process ends it with [Client.Close]. [Sandbox.Attach] takes its output up.
// Its input is Stdin, of at most 1 MiB, and what is written later where StdinOpen
// or TTY is set.
func (s *Sandbox) StartProcess(ctx context.Context, cmd Command) (ProcessInfo, error) {
	if cmd.Stdout != nil || cmd.Stderr != nil {
		return ProcessInfo{}, invalid("start", "Command", "what runs in the background keeps its output, and takes neither Stdout nor Stderr", "use Attach")
	}
	r := api.StartProcess{Tag: cmd.Tag, StdinOpen: cmd.StdinOpen}
	var err error
	if r.Exec, err = s.execOf(cmd); err != nil {
		return ProcessInfo{}, err
	}
	if cmd.TTY != nil {
		r.TTY = &api.TerminalSize{Rows: int(cmd.TTY.Rows), Cols: int(cmd.TTY.Cols)}
	}
	defer s.answering(ctx, r.Ask)()
	return s.api.StartProcess(ctx, s.name, r)
}

// Processes lists the processes of the sandbox's session, the oldest first: those
// that run, and those that ended a short time ago.
func (s *Sandbox) Processes(ctx context.Context) ([]ProcessInfo, error) {
	l, err := s.api.Processes(ctx, s.name)
	return l.Items, err
}

// FindProcess returns the process with the id, number or tag ref.
func (s *Sandbox) FindProcess(ctx context.Context, ref string) (ProcessInfo, error) {
	return s.api.Process(ctx, s.name, ref)
}

// An Attachment says what of a process is wanted.
type Attachment struct {
	From int64 // the place in its output to begin at: 0 is the beginning, FromNow what comes from now on

	Stdout, Stderr io.Writer   // nil discards. Of a process on a terminal all arrives on Stdout
	Dropped        func(int64) // receives how many bytes before what comes next are lost; may be nil
}

// Attach follows the process with the id, number or tag ref. Its output from a
// place on, as far as it is kept, comes first. The end of ctx ends the
// attachment and not the process; so does a writer that fails. The caller calls
// Wait.
func (s *Sandbox) Attach(ctx context.Context, ref string, o Attachment) (*Process, error) {
	if o.From < FromNow {
		return nil, invalid("attach", "From", "the place is negative", "write 0 for the beginning")
	}
	info, err := s.api.Process(ctx, s.name, ref)
	if err != nil {
		return nil, err
	}
	a := &attached{s: s, id: info.ID, pid: info.PID, begun: make(chan struct{}), over: make(chan struct{})}
	go func() {
		defer close(a.over)
		once := false
		a.exit, a.err = s.api.FollowProcess(ctx, s.name, info.ID, o.From, ProcessSinks{
			Sinks: Sinks{Stdout: o.Stdout, Stderr: o.Stderr}, Dropped: o.Dropped,
			Process: func(ProcessInfo) {
				if !once {
					once = true
					close(a.begun)
				}
			},
		})
	}()
	select {
	case <-a.begun:
	case <-a.over:
		if a.err != nil {
			return nil, a.err
		}
	}
	return &Process{attached: a}, nil
}

// attached is the process of an attachment.
type attached struct {
	s     *Sandbox
	id    string
	pid   int
	begun chan struct{}
	over  chan struct{}
	exit  api.Exit // readable once over is closed, like err
	err   error
}

func (a *attached) wait() (Result, error) {
	<-a.over
	if a.err != nil {
		return Result{}, a.err
	}
	return resultOf(api.ExecResult{Exit: a.exit}), nil
}

// write writes all of data, in pieces that the daemon takes.
func (a *attached) write(ctx context.Context, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), maxInput)
		if err := a.s.api.WriteProcess(ctx, a.s.name, a.id, api.ProcessInput{DataBase64: data[:n]}); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// ID returns what names the process for good, as [ProcessInfo] does; it is empty
// for one that [Sandbox.Start] has started, which nothing else finds.
func (p *Process) ID() string {
	if p.attached != nil {
		return p.attached.id
	}
	return ""
}

// PID returns the number of the process inside of the sandbox, 0 where that is
// not known.
func (p *Process) PID() int {
	if p.attached != nil {
		return p.attached.pid
	}
	return p.inner.PID()
}

// WriteStdin writes to the input of a process that Attach has returned. The input
// of one that Start has started is Command.Stdin.
func (p *Process) WriteStdin(ctx context.Context, data []byte) error {
	if p.attached == nil {
		return ownInput("write")
	}
	return p.attached.write(ctx, data)
}

// CloseStdin closes the input of a process that Attach has returned.
func (p *Process) CloseStdin(ctx context.Context) error {
	if p.attached == nil {
		return ownInput("close input")
	}
	a := p.attached
	return a.s.api.WriteProcess(ctx, a.s.name, a.id, api.ProcessInput{EOF: true})
}

func ownInput(op string) error {
	return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: op, Message: "the input of the process is the Stdin that it was started with", Hint: "use StartProcess and Attach"}
}
