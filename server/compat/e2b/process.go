package e2b

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/compat"
)

// Messages of the service process.Process.
type (
	empty struct{}

	processConfig struct {
		Cmd  string            `json:"cmd,omitempty"`
		Args []string          `json:"args,omitempty"`
		Envs map[string]string `json:"envs,omitempty"`
		Cwd  string            `json:"cwd,omitempty"`
	}

	ptySize struct {
		Cols int `json:"cols"`
		Rows int `json:"rows"`
	}

	pty struct {
		Size *ptySize `json:"size"`
	}

	startRequest struct {
		Process *processConfig `json:"process"`
		PTY     *pty           `json:"pty"`
		Tag     string         `json:"tag"`
		Stdin   *bool          `json:"stdin"`
	}

	// A selector names a process by one of the two.
	selector struct {
		PID *int64 `json:"pid,omitempty"`
		Tag string `json:"tag,omitempty"`
	}

	connectRequest struct {
		Process *selector `json:"process"`
	}

	updateRequest struct {
		Process *selector `json:"process"`
		PTY     *pty      `json:"pty"`
	}

	input struct {
		Stdin []byte `json:"stdin"`
		PTY   []byte `json:"pty"`
	}

	sendInputRequest struct {
		Process *selector `json:"process"`
		Input   *input    `json:"input"`
	}

	// A streamInputRequest has one of the three.
	streamInputRequest struct {
		Start     *connectRequest `json:"start"`
		Data      *streamedInput  `json:"data"`
		Keepalive *empty          `json:"keepalive"`
	}

	streamedInput struct {
		Input *input `json:"input"`
	}

	sendSignalRequest struct {
		Process *selector `json:"process"`
		Signal  signal    `json:"signal"`
	}

	processInfo struct {
		Config processConfig `json:"config"`
		PID    int           `json:"pid"`
		Tag    string        `json:"tag,omitempty"`
	}

	listResponse struct {
		Processes []processInfo `json:"processes"`
	}

	processResponse struct {
		Event processEvent `json:"event"`
	}

	// A processEvent has one of the four.
	processEvent struct {
		Start     *startEvent `json:"start,omitempty"`
		Data      *dataEvent  `json:"data,omitempty"`
		End       *endEvent   `json:"end,omitempty"`
		Keepalive *empty      `json:"keepalive,omitempty"`
	}

	startEvent struct {
		PID int `json:"pid"`
	}

	dataEvent struct {
		Stdout []byte `json:"stdout,omitempty"`
		Stderr []byte `json:"stderr,omitempty"`
		PTY    []byte `json:"pty,omitempty"`
	}

	endEvent struct {
		ExitCode int    `json:"exitCode"`
		Exited   bool   `json:"exited"`
		Status   string `json:"status"`
		Error    string `json:"error,omitempty"`
	}
)

// A signal is one that the protocol can send, by its name or number.
type signal string

// UnmarshalJSON implements json.Unmarshaler.
func (s *signal) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case `"SIGNAL_SIGTERM"`, "15":
		*s = "TERM"
	case `"SIGNAL_SIGKILL"`, "9":
		*s = "KILL"
	default:
		return errors.New("the signal is neither SIGNAL_SIGTERM nor SIGNAL_SIGKILL")
	}
	return nil
}

func (d *Translator) routesProcess(o []connect.HandlerOption) {
	const service = "/process.Process/"
	unary(d, service+"List", d.processList, o)
	unary(d, service+"SendInput", d.sendInput, o)
	unary(d, service+"CloseStdin", d.closeStdin, o)
	unary(d, service+"SendSignal", d.sendSignal, o)
	unary(d, service+"Update", d.update, o)
	serverStream(d, service+"Start", d.start, o)
	serverStream(d, service+"Connect", d.attach, o)
	d.envd.Handle(service+"StreamInput", connect.NewClientStreamHandler(service+"StreamInput",
		func(ctx context.Context, in *connect.ClientStream[streamInputRequest]) (*connect.Response[empty], error) {
			if err := d.streamInput(ctx, callOf(ctx), in); err != nil {
				return nil, rpcError(ctx, err)
			}
			return connect.NewResponse(&empty{}), nil
		}, o...))
}

// unary registers a procedure with one request and one response.
func unary[In, Out any](d *Translator, procedure string, do func(ctx context.Context, c *call, in *In) (*Out, error), o []connect.HandlerOption) {
	d.envd.Handle(procedure, connect.NewUnaryHandler(procedure, func(ctx context.Context, in *connect.Request[In]) (*connect.Response[Out], error) {
		out, err := do(ctx, callOf(ctx), in.Msg)
		if err != nil {
			return nil, rpcError(ctx, err)
		}
		return connect.NewResponse(out), nil
	}, o...))
}

// serverStream registers a procedure with one request and a stream of responses.
func serverStream[In, Out any](d *Translator, procedure string, do func(ctx context.Context, c *call, in *In, h http.Header, to *connect.ServerStream[Out]) error, o []connect.HandlerOption) {
	d.envd.Handle(procedure, connect.NewServerStreamHandler(procedure, func(ctx context.Context, in *connect.Request[In], to *connect.ServerStream[Out]) error {
		if err := do(ctx, callOf(ctx), in.Msg, in.Header(), to); err != nil {
			return rpcError(ctx, err)
		}
		return nil
	}, o...))
}

// seconds reads a number of seconds.
func seconds(text string) (time.Duration, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	return time.Duration(n) * time.Second, err
}

// ref returns the name of a process in /v1.
func (s *selector) ref() (string, error) {
	switch {
	case s == nil || s.PID == nil && s.Tag == "":
		return "", bad("process", "has neither pid nor tag")
	case s.PID != nil && s.Tag != "":
		return "", bad("process", "has both pid and tag")
	case s.PID != nil && *s.PID <= 0:
		return "", bad("process.pid", "is no number of a process")
	case s.PID != nil:
		return strconv.FormatInt(*s.PID, 10), nil
	case !goodName(s.Tag):
		return "", &fault{status: http.StatusNotFound, message: "there is no process with this tag"}
	}
	return s.Tag, nil
}

// process returns the path of a process in /v1.
func (c *call) process(s *selector, rest string) (string, error) {
	ref, err := s.ref()
	return box(c.name, "/processes/", ref, rest), err
}

// size returns the size of a terminal.
func (p *pty) size() (*api.TerminalSize, error) {
	if p == nil {
		return nil, nil
	}
	if p.Size == nil || p.Size.Rows < 1 || p.Size.Rows > 1000 || p.Size.Cols < 1 || p.Size.Cols > 1000 {
		return nil, bad("pty.size", "must have rows and cols from 1 to 1000")
	}
	return &api.TerminalSize{Rows: p.Size.Rows, Cols: p.Size.Cols}, nil
}

func (d *Translator) start(ctx context.Context, c *call, in *startRequest, h http.Header, to *connect.ServerStream[processResponse]) error {
	if in.Process == nil || in.Process.Cmd == "" {
		return bad("process.cmd", "is missing")
	}
	size, err := in.PTY.size()
	if err != nil {
		return err
	}
	body := api.ExecStream{Background: true, StartProcess: api.StartProcess{
		Exec: api.Exec{Args: append([]string{in.Process.Cmd}, in.Process.Args...), Env: in.Process.Envs, User: c.user},
		Tag:  in.Tag, TTY: size, StdinOpen: in.Stdin == nil || *in.Stdin,
	}}
	if in.Process.Cwd != "" {
		if body.Dir, err = inside(in.Process.Cwd); err != nil {
			return err
		}
	}
	// The time of the request is that of the command, and a client that goes before
	// that leaves it running.
	if text := h.Get(headerTimeout); text != "" {
		if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms > 0 {
			body.TimeoutSeconds = min(float64(ms)/1000, 604800)
		}
	}
	r, err := c.json(ctx, http.MethodPost, box(c.name, "/exec/stream"), body)
	if err != nil {
		return err
	}
	return d.stream(ctx, c, r, h, to)
}

func (d *Translator) attach(ctx context.Context, c *call, in *connectRequest, h http.Header, to *connect.ServerStream[processResponse]) error {
	p, err := c.process(in.Process, "/stream")
	if err != nil {
		return err
	}
	return d.stream(ctx, c, c.request(ctx, http.MethodGet, p, nil, nil), h, to)
}

// stream sends the events of a process.
func (d *Translator) stream(ctx context.Context, c *call, r *http.Request, h http.Header, to *connect.ServerStream[processResponse]) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	out, err := newSender(h, to, &processResponse{Event: processEvent{Keepalive: &empty{}}}, end)
	if err != nil {
		return err
	}
	defer out.close()
	p := &processStream{out: out, kill: func(id string) {
		// The client could name it by nothing.
		_ = c.do(context.WithoutCancel(ctx), http.MethodDelete, box(c.name, "/processes/", id), nil, nil, nil)
	}}
	if err := c.follow(ctx, r, p.take); err != nil {
		return err
	}
	if !p.ended && ctx.Err() == nil {
		return &fault{status: http.StatusServiceUnavailable, message: "the stream of the process has ended before the process; connect to it again"}
	}
	return ctx.Err()
}

// A processStream translates the events of a process of /v1.
type processStream struct {
	out   *sender[processResponse]
	kill  func(id string)
	tty   bool
	data  bool // output was sent
	ended bool
}

func (p *processStream) take(event string, data []byte) error {
	switch event {
	case api.EventProcess:
		var v api.Process
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		if v.PID == 0 {
			p.kill(v.ID)
			return unsupported("a process whose number is not known: the provider of this sandbox")
		}
		p.tty = v.TTY
		return p.out.send(&processResponse{Event: processEvent{Start: &startEvent{PID: v.PID}}})
	case api.EventStdout, api.EventStderr:
		var v api.Output
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		p.data = true
		return p.out.send(&processResponse{Event: processEvent{Data: p.output(event, v)}})
	case api.EventDropped:
		if !p.data {
			return nil // output of before this client followed it
		}
		return connect.NewError(connect.CodeDataLoss, errors.New("the output came faster than it was read, and some of it is lost; connect to the process again"))
	case api.EventAgain:
		if p.data {
			return connect.NewError(connect.CodeAborted, errors.New("the command was begun anew with a permission: connect to it again"))
		}
	case api.EventExit:
		var v api.Exit
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		p.ended = true
		if v.TimedOut {
			return connect.NewError(connect.CodeDeadlineExceeded, errors.New("the time of the command was over, and it was ended"))
		}
		if err := p.out.send(&processResponse{Event: processEvent{End: ending(v)}}); err != nil {
			return err
		}
		return compat.ErrDone
	case api.EventError:
		var v api.Problem
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		p.ended = true
		return &fault{status: cmp.Or(v.Status, 500), code: v.Code, message: text(v), field: v.Field, about: v.Resource}
	}
	return nil
}

func (p *processStream) output(event string, v api.Output) *dataEvent {
	b := v.Base64
	if b == nil {
		b = []byte(v.Text)
	}
	switch {
	case p.tty:
		return &dataEvent{PTY: b}
	case event == api.EventStderr:
		return &dataEvent{Stderr: b}
	}
	return &dataEvent{Stdout: b}
}

// ending returns how a process ended, in the words of Go's os.ProcessState.
func ending(v api.Exit) *endEvent {
	e := &endEvent{ExitCode: v.ExitCode, Exited: true, Status: fmt.Sprintf("exit status %d", v.ExitCode)}
	if v.Signal != "" {
		e.Status = "signal: " + strings.ToLower(v.Signal)
		if v.Signal == "KILL" {
			e.Status = "signal: killed"
		}
		e.Exited, e.Error = false, e.Status
	}
	if v.ExitCode != 0 && e.Error == "" {
		e.Error = e.Status
	}
	if v.Limit != nil {
		e.Error = "a limit of the sandbox was reached: " + v.Limit.Limit
	}
	if v.Blocked {
		e.Error = cmp.Or(v.BlockedReason, "rules of the sandbox have stopped it")
	}
	return e
}

func (d *Translator) processList(ctx context.Context, c *call, _ *empty) (*listResponse, error) {
	var have api.ProcessList
	if err := c.do(ctx, http.MethodGet, box(c.name, "/processes"), nil, nil, &have); err != nil {
		return nil, err
	}
	out := &listResponse{Processes: []processInfo{}}
	for _, p := range have.Items {
		if p.State != "running" {
			continue
		}
		v := processInfo{PID: p.PID, Tag: p.Tag, Config: processConfig{Cmd: p.Command, Cwd: p.Dir}}
		if len(p.Args) > 0 {
			v.Config.Cmd, v.Config.Args = p.Args[0], p.Args[1:]
		}
		out.Processes = append(out.Processes, v)
	}
	return out, nil
}

// write writes to the input of a process.
func (c *call) write(ctx context.Context, s *selector, in *input) error {
	if in == nil || in.Stdin == nil && in.PTY == nil {
		return bad("input", "has neither stdin nor pty")
	}
	if in.Stdin != nil && in.PTY != nil {
		return bad("input", "has both stdin and pty")
	}
	p, err := c.process(s, "/stdin")
	if err != nil {
		return err
	}
	data := in.Stdin
	if data == nil {
		data = in.PTY
	}
	for len(data) > 0 {
		n := min(len(data), 512<<10)
		if err := c.do(ctx, http.MethodPost, p, nil, api.ProcessInput{DataBase64: data[:n]}, nil); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func (d *Translator) sendInput(ctx context.Context, c *call, in *sendInputRequest) (*empty, error) {
	return &empty{}, c.write(ctx, in.Process, in.Input)
}

func (d *Translator) streamInput(ctx context.Context, c *call, in *connect.ClientStream[streamInputRequest]) error {
	var of *selector
	for in.Receive() {
		m := in.Msg()
		switch {
		case m.Start != nil && m.Data == nil && of == nil:
			if _, err := m.Start.Process.ref(); err != nil {
				return err
			}
			of = m.Start.Process
		case m.Start != nil || m.Data == nil && m.Keepalive == nil:
			return bad("event", "is not start first and data then")
		case m.Data != nil && of == nil:
			return bad("start", "is missing before data")
		case m.Data != nil:
			if err := c.write(ctx, of, m.Data.Input); err != nil {
				return err
			}
		}
	}
	return in.Err()
}

func (d *Translator) closeStdin(ctx context.Context, c *call, in *connectRequest) (*empty, error) {
	p, err := c.process(in.Process, "/stdin")
	if err != nil {
		return nil, err
	}
	err = c.do(ctx, http.MethodPost, p, nil, api.ProcessInput{EOF: true}, nil)
	return &empty{}, err
}

func (d *Translator) sendSignal(ctx context.Context, c *call, in *sendSignalRequest) (*empty, error) {
	if in.Signal == "" {
		return nil, bad("signal", "is missing")
	}
	p, err := c.process(in.Process, "")
	if err != nil {
		return nil, err
	}
	var now api.Process
	if err := c.do(ctx, http.MethodGet, p, nil, nil, &now); err != nil {
		return nil, err
	}
	if now.State != "running" {
		return nil, &fault{status: http.StatusNotFound, code: sandbox.CodeNotFound, message: "the process has ended"}
	}
	one := box(c.name, "/processes/", now.ID)
	if in.Signal == "KILL" {
		err = c.do(ctx, http.MethodDelete, one, nil, nil, nil)
	} else {
		err = c.do(ctx, http.MethodPost, one+"/signal", nil, api.ProcessSignal{Signal: string(in.Signal)}, nil)
	}
	return &empty{}, err
}

func (d *Translator) update(ctx context.Context, c *call, in *updateRequest) (*empty, error) {
	p, err := c.process(in.Process, "/resize")
	if err != nil {
		return nil, err
	}
	size, err := in.PTY.size()
	if err != nil {
		return nil, err
	}
	if size == nil {
		return nil, bad("pty", "is missing")
	}
	err = c.do(ctx, http.MethodPost, p, nil, *size, nil)
	return &empty{}, err
}
