package resource

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// resumeWithin is how long a command that is not in the background goes on
// without a client, so that one whose connection was cut can follow it again.
const resumeWithin = 30 * time.Second

// processRoutes returns the routes of processes: commands that are in the
// background, on terminals that stay, or streamed.
func (x *shellsResource) processRoutes() []Route {
	const one = shellsBase + "/processes/{pid}"
	which := " The process is named by its id, its number or its tag."
	resume := Param{Name: api.HeaderLastEvent, Doc: "The id of the last event that the client has: the stream goes on behind it", Length: 256}
	return []Route{{
		ID: "listProcesses", Method: http.MethodGet, Path: shellsBase + "/processes", Tag: "processes", Role: token.Session,
		Summary: "List the processes of the session", Doc: "Commands that were started in the background, streamed or put on a terminal that stays: those that run, and of those that have ended the last 32 for ten minutes.",
		Response: api.ProcessList{}, Errors: []int{404}, Do: x.processes,
	}, {
		ID: "startProcess", Method: http.MethodPost, Path: shellsBase + "/processes", Tag: "processes", Role: token.Session,
		Summary: "Start a command in the background", Doc: "It is judged, bounded and recorded as by exec, and goes on when the caller has gone. Its output is kept, the last MiB of each stream.",
		Request: api.StartProcess{}, Response: api.Process{}, Status: http.StatusCreated, Body: commandsMaxBody, Timeout: opening,
		Errors: []int{404, 409, 501, 503, 504}, Do: x.startProcess,
	}, {
		ID: "getProcess", Method: http.MethodGet, Path: one, Tag: "processes", Role: token.Session,
		Summary: "Show a process", Doc: "Also one that has ended, and how." + which, Response: api.Process{}, Errors: []int{404, 409}, Do: x.process,
	}, {
		ID: "killProcess", Method: http.MethodDelete, Path: one, Tag: "processes", Role: token.Session,
		Summary: "End a process with all that it has started", Doc: "The answer says how it has ended." + which, Response: api.Process{}, Errors: []int{404, 409, 503, 504}, Do: x.killProcess,
	}, {
		ID: "followProcess", Method: http.MethodGet, Path: one + "/stream", Tag: "processes", Role: token.Session,
		Summary: "Stream the output of a process", Doc: "First what is kept of the output from a place on, then what comes, and in the end how it ended. The process goes on when the client goes; any number of clients may follow it." + which,
		Query:  []Param{{Name: "from", Type: Integer, Min: running.FromNow, Max: 1<<63 - 1, Doc: "The place in the output to begin at: 0 is the beginning, -1 the end"}},
		Header: []Param{resume}, Stream: true, Follows: true, Events: processEvents(), Timeout: Endless, Errors: []int{404, 409}, Do: x.followProcess,
	}, {
		ID: "writeProcess", Method: http.MethodPost, Path: one + "/stdin", Tag: "processes", Role: token.Session,
		Summary: "Write to the input of a process", Doc: "All of it or nothing; it waits while the process reads too little." + which,
		Request: api.ProcessInput{}, Body: commandsMaxBody, Errors: []int{404, 409, 429}, Do: x.writeProcess,
	}, {
		ID: "signalProcess", Method: http.MethodPost, Path: one + "/signal", Tag: "processes", Role: token.Session,
		Summary: "Send a signal to a process", Doc: "To its process group. DELETE ends also what has left that." + which,
		Request: api.ProcessSignal{}, Errors: []int{404, 409, 501, 503}, Do: x.signalProcess,
	}, {
		ID: "resizeProcess", Method: http.MethodPost, Path: one + "/resize", Tag: "processes", Role: token.Session,
		Summary: "Change the size of the terminal of a process", Doc: "One without a terminal is refused with SANDBOX.UNSUPPORTED." + which,
		Request: api.TerminalSize{}, Errors: []int{404, 409, 501, 503}, Do: x.resizeProcess,
	}, {
		ID: "execStream", Method: http.MethodPost, Path: shellsBase + "/exec/stream", Tag: "commands", Role: token.Session,
		Summary: "Run a command and stream its output",
		Doc: "The events are those of …/processes/{pid}/stream. A client whose connection was cut goes on with that, or by the same request with " + api.HeaderLastEvent +
			", which starts nothing. A command that is not in the background is ended when no client has followed it for 30 seconds.",
		Request: api.ExecStream{}, Header: []Param{resume}, Stream: true, Events: processEvents(), Body: commandsMaxBody, Timeout: Endless,
		Errors: []int{404, 409, 501, 503, 504}, Do: x.execStream,
	}}
}

// processEvents returns the events of a process. The ids of all name the process
// and the place behind them.
func processEvents() []Event {
	return append([]Event{
		{Name: api.EventProcess, Data: api.Process{}, Doc: "The process as it is now; the first event"},
		{Name: api.EventDropped, Data: api.Dropped{}, Doc: "Output before the next event is missing: it came faster than it was read, or is too old"},
	}, eventsCommands()...)
}

func (x *shellsResource) processes(c *Call) (any, error) {
	at, err := Find(c, x.runner)
	if err != nil {
		return nil, err
	}
	out := api.ProcessList{Items: []api.Process{}}
	for _, s := range x.supervisor.List(at.Who) {
		out.Items = append(out.Items, processOf(c, s))
	}
	return out, nil
}

// processOf returns a process as callers may see it.
func processOf(c *Call, s running.Status) api.Process {
	p := api.Process{
		ID: s.ID, PID: s.PID, Tag: s.Tag, Command: s.Text, Args: s.Args, Dir: s.Dir, State: string(s.State), TTY: s.TTY,
		StartedAt: s.Started.UTC(), EndedAt: s.Ended, Bytes: s.Bytes,
	}
	if !s.Ended.IsZero() {
		p.EndedAt = s.Ended.UTC()
	}
	if s.Outcome != nil {
		exit := Exit(*s.Outcome, s.StdoutBytes, s.StderrBytes)
		p.Exit = &exit
	}
	if s.Err != nil {
		problem := c.Problem(c.Why(s.Err))
		p.Error = &problem
	}
	return p
}

// named returns the process that the path names.
func (x *shellsResource) named(c *Call) (lookupSandbox, running.Status, error) {
	at, err := Find(c, x.runner)
	if err != nil {
		return at, running.Status{}, err
	}
	s, err := x.supervisor.Find(at.Who, c.Path("pid"))
	if sandbox.IsNotFound(err) {
		err = Hide("process", termsafe.Line(c.Path("pid")))
	}
	return at, s, err
}

func (x *shellsResource) process(c *Call) (any, error) {
	_, s, err := x.named(c)
	if err != nil {
		return nil, err
	}
	return processOf(c, s), nil
}

func (x *shellsResource) startProcess(c *Call) (any, error) {
	in, err := Body[api.StartProcess](c)
	if err != nil {
		return nil, err
	}
	_, s, err := x.start(c, in, 0)
	if err != nil {
		return nil, err
	}
	return processOf(c, s), nil
}

// start starts a command. It takes the place of a command until it ends.
func (x *shellsResource) start(c *Call, in api.StartProcess, unattended time.Duration) (lookupSandbox, running.Status, error) {
	at, err := Sandboxed(c, x.runner)
	if err != nil {
		return at, running.Status{}, err
	}
	req, err := requestOf(in.Exec, at, c.Admin())
	if err != nil {
		return at, running.Status{}, err
	}
	req.Flags, req.Tool, req.Command.Stdin = c.Settings, cmp.Or(c.Tool("exec"), req.Tool), nil
	o := running.StartOptions{Text: in.Line, Tag: in.Tag, Shell: in.Line != "", Stdin: in.StdinBase64, EOF: !in.StdinOpen && in.TTY == nil, Unattended: unattended}
	if in.Stdin != "" {
		o.Stdin = []byte(in.Stdin)
	}
	if in.TTY != nil {
		req.Command.TTY = terminalOf(*in.TTY)
	}
	if o.Ended, err = c.Admitted(c.Context()); err != nil {
		return at, running.Status{}, err
	}
	s, err := x.supervisor.Start(c.Context(), req, o)
	return at, s, err
}

func terminalOf(s api.TerminalSize) *sandbox.TTY {
	return &sandbox.TTY{Rows: uint16(s.Rows), Cols: uint16(s.Cols)}
}

func (x *shellsResource) killProcess(c *Call) (any, error) {
	at, s, err := x.named(c)
	if err != nil {
		return nil, err
	}
	if s, err = x.supervisor.Kill(c.Context(), at.Who, s.ID); err != nil {
		return nil, err
	}
	return processOf(c, s), nil
}

func (x *shellsResource) writeProcess(c *Call) (any, error) {
	in, err := Body[api.ProcessInput](c)
	if err != nil {
		return nil, err
	}
	data := in.DataBase64
	switch {
	case in.Data != "" && data != nil:
		return nil, Invalid("data", "only one of data and dataBase64 is taken")
	case in.Data != "":
		data = []byte(in.Data)
	case len(data) == 0 && !in.EOF:
		return nil, Invalid("data", "there is nothing to write, and no eof")
	}
	at, s, err := x.named(c)
	if err != nil {
		return nil, err
	}
	return nil, x.supervisor.Write(c.Context(), at.Who, s.ID, data, in.EOF)
}

func (x *shellsResource) signalProcess(c *Call) (any, error) {
	in, err := Body[api.ProcessSignal](c)
	if err != nil {
		return nil, err
	}
	at, s, err := x.named(c)
	if err != nil {
		return nil, err
	}
	return nil, x.supervisor.Signal(c.Context(), at.Who, s.ID, in.Signal)
}

func (x *shellsResource) resizeProcess(c *Call) (any, error) {
	in, err := Body[api.TerminalSize](c)
	if err != nil {
		return nil, err
	}
	at, s, err := x.named(c)
	if err != nil {
		return nil, err
	}
	return nil, x.supervisor.Resize(c.Context(), at.Who, s.ID, *terminalOf(in))
}

func (x *shellsResource) execStream(c *Call) (any, error) {
	id, from, given, err := lastEvent(c)
	if err != nil {
		return nil, err
	}
	if given {
		at, err := Find(c, x.runner)
		if err != nil {
			return nil, err
		}
		s, err := x.supervisor.Find(at.Who, id)
		if err != nil || s.ID != id {
			return nil, Hide("process", id)
		}
		return x.followed(c, at, s, from)
	}
	in, err := Body[api.ExecStream](c)
	if err != nil {
		return nil, err
	}
	unattended := resumeWithin
	if in.Background {
		unattended = 0
	}
	at, s, err := x.start(c, in.StartProcess, unattended)
	if err != nil {
		return nil, err
	}
	return x.followed(c, at, s, 0)
}

func (x *shellsResource) followProcess(c *Call) (any, error) {
	id, from, given, err := lastEvent(c)
	if err != nil {
		return nil, err
	}
	at, s, err := x.named(c)
	switch {
	case err != nil:
		return nil, err
	case given && id != s.ID:
		return nil, &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "attach", Field: api.HeaderLastEvent, Resource: s.ID, Message: "the event is one of another process",
			Hint: "leave the header out to follow this process from its beginning",
		}
	case given && c.Given("from"):
		return nil, Invalid("from", "only one of from and "+api.HeaderLastEvent+" is taken")
	case !given:
		from = c.Number("from", 0)
	}
	return x.followed(c, at, s, from)
}

// followed answers with the events of a process.
func (x *shellsResource) followed(c *Call, at lookupSandbox, s running.Status, from int64) (any, error) {
	if from > s.Bytes {
		// More may have come meanwhile; what decides is the output itself.
		if now, err := x.supervisor.Find(at.Who, s.ID); err != nil || from > now.Bytes {
			return nil, Invalid("from", "the process has not written as much: "+strconv.FormatInt(from, 10)+" is no place from 0 to "+strconv.FormatInt(now.Bytes, 10))
		}
	}
	e := c.Events()
	defer e.Close()
	next := max(from, 0)
	if from == running.FromNow {
		next = s.Bytes
	}
	send := func(name string, data any) error { return e.SendID(s.ID+"."+strconv.FormatInt(next, 10), name, data) }
	if send(api.EventProcess, processOf(c, s)) != nil {
		return Sent{}, nil
	}
	end, err := x.supervisor.Follow(c.Context(), at.Who, s.ID, next, func(p running.Piece) error {
		if p.Again {
			if err := send(api.EventAgain, struct{}{}); err != nil {
				return err
			}
		}
		if p.Dropped > 0 {
			// With the id of the place before, or a client that resumes here
			// would miss what is kept between two parts that are not.
			if err := send(api.EventDropped, api.Dropped{Bytes: p.Dropped}); err != nil {
				return err
			}
		}
		next = p.Next
		if len(p.Data) == 0 {
			return nil
		}
		name, out := api.EventStdout, api.Output{Text: string(p.Data)}
		if p.Stream == running.Stderr {
			name = api.EventStderr
		}
		if !utf8.Valid(p.Data) {
			out = api.Output{Base64: p.Data}
		}
		return send(name, out)
	})
	switch {
	case c.Context().Err() != nil:
		return Sent{}, nil // the client has gone, or goes on elsewhere
	case err == nil && end.Err != nil:
		err = end.Err
	case err == nil:
		out := *end.Outcome
		out.Name = cmp.Or(out.Name, at.Name)
		_ = send(api.EventExit, Exit(out, end.StdoutBytes, end.StderrBytes)) // or the client has gone
		return Sent{}, nil
	}
	_ = send(api.EventError, c.Problem(c.Why(err))) // as above
	return Sent{}, nil
}

// lastEvent reads the header with the id of an event: the id of the process, and
// the place behind the event.
func lastEvent(c *Call) (id string, from int64, given bool, err error) {
	values := c.Request.Header.Values(api.HeaderLastEvent)
	if len(values) == 0 || len(values) == 1 && values[0] == "" { // an EventSource without one sends an empty value
		return "", 0, false, nil
	}
	id, place, ok := strings.Cut(values[0], ".")
	number, bad := strconv.ParseUint(place, 10, 63)
	if len(values) > 1 || !ok || bad != nil || id == "" || len(id) > 64 {
		return "", 0, false, Invalid(api.HeaderLastEvent, "it is not the id of an event of a process")
	}
	return id, int64(number), true, nil
}
