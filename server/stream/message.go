package stream

import (
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// The channels of binary frames, their first byte.
const (
	Stdin  = 0
	Stdout = 1
	Stderr = 2
)

// Bounds of frames.
const (
	Window     = 128 << 10 // bytes under way on one channel where there is flow control
	MaxData    = 32 << 10  // bytes of one binary frame, beside the channel
	MaxControl = 64 << 10  // bytes of one text frame
	MaxRequest = 4 << 20   // bytes of the first frame: arguments and variables
)

// A Request is the first frame of a socket: the command to run.
type Request struct {
	Args []Text          `json:"args,omitempty"` // program and arguments, or
	Line Text            `json:"line,omitempty"` // a line for a shell
	Env  map[string]Text `json:"env,omitempty"`
	Bare bool            `json:"bare,omitempty"` // env is all there is
	Dir  Text            `json:"dir,omitempty"`
	TTY  *Size           `json:"tty,omitempty"`

	Limits         *sandbox.Limits `json:"limits,omitempty"`
	TimeoutSeconds float64         `json:"timeoutSeconds,omitempty"`
	GraceSeconds   float64         `json:"graceSeconds,omitempty"` // between SIGTERM and SIGKILL when it is cancelled
	Detach         bool            `json:"detach,omitempty"`       // it outlives the socket

	NoStdin  bool `json:"noStdin,omitempty"`  // the input is empty
	NoStdout bool `json:"noStdout,omitempty"` // the client does not want the output
	NoStderr bool `json:"noStderr,omitempty"`

	// Window enables flow control on both sides: it is [Window], and no side
	// sends more than that on a channel without a credit. 0 leaves flow control
	// to TCP. A client that uses a window must read all the time.
	Window int `json:"window,omitempty"`

	// Extra is specific to the route; see there.
	Extra json.RawMessage `json:"extra,omitempty"`
}

// A Size is the size of a terminal in characters.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// A control is a text frame from the client after the first.
type control struct {
	Type    string `json:"type"`
	ID      uint32 `json:"id,omitempty"` // of the answer; 0 wants none
	Signal  string `json:"signal,omitempty"`
	Rows    uint16 `json:"rows,omitempty"`
	Cols    uint16 `json:"cols,omitempty"`
	Channel uint8  `json:"channel,omitempty"`
	Bytes   uint32 `json:"bytes,omitempty"`
}

// The types of controls.
const (
	typeSignal = "signal"
	typeResize = "resize"
	typeKill   = "kill"
	typeUsed   = "used"
	typeEOF    = "stdin-eof"
	typeCancel = "cancel"
	typeCredit = "credit" // both ways
	typeStop   = "stop"
)

// An event is a text frame from the server.
type event struct {
	Type    string          `json:"type"`
	ID      uint32          `json:"id,omitempty"`
	Channel uint8           `json:"channel,omitempty"`
	Bytes   uint32          `json:"bytes,omitempty"`
	PID     int             `json:"pid,omitempty"` // of started, where it is known
	Exit    *Exit           `json:"exit,omitempty"`
	Used    *Rusage         `json:"used,omitempty"`
	Error   *api.Document   `json:"error,omitempty"`
	Outcome json.RawMessage `json:"outcome,omitempty"`
}

// The types of events.
const (
	typeStarted = "started"
	typeDone    = "done"
	typeExit    = "exit"
	typeError   = "error"
)

// An Exit is a sandbox.Exit as JSON.
type Exit struct {
	Code      int               `json:"code"`
	Signal    string            `json:"signal,omitempty"`
	Usage     Rusage            `json:"usage"`
	Limit     *sandbox.LimitHit `json:"limit,omitempty"`
	Left      *sandbox.Left     `json:"left,omitempty"`
	Restarted bool              `json:"restarted,omitempty"`
	LostDir   string            `json:"lostDir,omitempty"`
}

// A Rusage is a sandbox.Rusage as JSON, times in nanoseconds.
type Rusage struct {
	User   time.Duration `json:"userNanos"`
	System time.Duration `json:"systemNanos"`
	MaxRSS int64         `json:"maxRssBytes"`
}

// ExitOf returns e in its JSON form.
func ExitOf(e sandbox.Exit) Exit {
	return Exit{Code: e.Code, Signal: e.Signal, Usage: Rusage(e.Usage), Limit: e.Limit, Left: e.Left, Restarted: e.Restarted, LostDir: e.LostDir}
}

// Plain returns e as a sandbox.Exit.
func (e Exit) Plain() sandbox.Exit {
	return sandbox.Exit{Code: e.Code, Signal: e.Signal, Usage: sandbox.Rusage(e.Usage), Limit: e.Limit, Left: e.Left, Restarted: e.Restarted, LostDir: e.LostDir}
}

// RequestOf returns the request for c, with flow control. A name of a
// variable that is not UTF-8 is an error, because JSON cannot carry it.
func RequestOf(c sandbox.Command) (Request, error) {
	r := Request{
		Args: Texts(c.Args), Bare: c.Bare, Dir: Text(c.Dir), GraceSeconds: c.Grace.Seconds(), Detach: c.Detach,
		NoStdin: c.Stdin == nil, NoStdout: c.Stdout == nil, NoStderr: c.Stderr == nil, Window: Window,
	}
	if c.TTY != nil {
		r.TTY = &Size{c.TTY.Rows, c.TTY.Cols}
	}
	if c.Limits != (sandbox.Limits{}) {
		r.Limits = &c.Limits
	}
	if c.Env != nil {
		r.Env = make(map[string]Text, len(c.Env))
	}
	for name, value := range c.Env {
		if !utf8.ValidString(name) {
			return r, invalid("env", "the name of a variable is not UTF-8")
		}
		r.Env[name] = Text(value)
	}
	return r, nil
}

// Command returns the command that r describes, without its streams.
func (r Request) Command() sandbox.Command {
	c := sandbox.Command{
		Args: Strings(r.Args), Bare: r.Bare, Dir: string(r.Dir), Detach: r.Detach, Grace: Seconds(r.GraceSeconds),
	}
	if r.TTY != nil {
		c.TTY = &sandbox.TTY{Rows: r.TTY.Rows, Cols: r.TTY.Cols}
	}
	if r.Limits != nil {
		c.Limits = *r.Limits
	}
	if r.Env != nil {
		c.Env = make(map[string]string, len(r.Env))
		for name, value := range r.Env {
			c.Env[name] = string(value)
		}
	}
	return c
}

// Seconds returns a duration of s seconds, at least zero and at most a year.
func Seconds(s float64) time.Duration {
	const year = 365 * 24 * 3600
	if !(s > 0) { // NaN too
		return 0
	}
	return time.Duration(min(s, year) * float64(time.Second))
}

// check refuses invalid requests.
func (r Request) check() error {
	switch {
	case r.Window != 0 && r.Window != Window:
		return invalid("window", "a window is 0 or 131072 bytes")
	case r.GraceSeconds < 0 || r.TimeoutSeconds < 0:
		return invalid("timeoutSeconds", "a time is negative")
	}
	return nil
}

// decode reads exactly one JSON value, without members that v does not have.
func decode(b []byte, v any) error {
	err := jsonschema.Decode(b, v)
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		return invalid(e.Field, "a frame is not understood: "+e.Message)
	}
	return err
}

func invalid(field, message string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "stream", Field: field, Message: message}
}
