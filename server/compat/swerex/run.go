package swerex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/compat"
)

// maxSeconds bounds a time limit of the protocol, as /v1 does.
const maxSeconds = 604800

// seconds checks a time limit; nil and 0 leave it to the settings.
func seconds(t *float64) (float64, error) {
	if t == nil {
		return 0, nil
	}
	if math.IsNaN(*t) || *t < 0 || *t > maxSeconds {
		return 0, unprocessable("timeout: must be from 0 to " + strconv.Itoa(maxSeconds) + " seconds")
	}
	return *t, nil
}

// A words is a command: a text, or a program with its arguments.
type words struct {
	text string
	list []string
	isIt bool // a list
}

// UnmarshalJSON implements [json.Unmarshaler].
func (w *words) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		w.isIt = true
		return json.Unmarshal(b, &w.list)
	}
	return json.Unmarshal(b, &w.text)
}

// args returns program and arguments as Python's subprocess has them.
func (w words) args(shell bool) []string {
	list := w.list
	if !w.isIt {
		list = []string{w.text}
	}
	if shell {
		return append([]string{"/bin/sh", "-c"}, list...)
	}
	return list
}

// shown is the command in an error.
func (w words) shown() string {
	if !w.isIt {
		return strconv.Quote(w.text)
	}
	quoted := make([]string, len(w.list))
	for i, s := range w.list {
		quoted[i] = strconv.Quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func execute(c *call) (any, error) {
	var in struct {
		Command words             `json:"command"`
		Timeout *float64          `json:"timeout"`
		Shell   bool              `json:"shell"`
		Check   bool              `json:"check"`
		Message string            `json:"error_msg"`
		Env     map[string]string `json:"env"`
		Cwd     *string           `json:"cwd"`
		Merge   bool              `json:"merge_output_streams"`
	}
	if err := c.body(&in); err != nil {
		return nil, err
	}
	args := in.Command.args(in.Shell)
	if len(args) == 0 || args[0] == "" {
		return nil, raise(classValue, "the command is empty")
	}
	within, err := seconds(in.Timeout)
	if err != nil {
		return nil, err
	}
	body := api.Exec{Args: args, Env: in.Env, TimeoutSeconds: within}
	if in.Cwd != nil {
		if body.Dir, err = inside(*in.Cwd); err != nil {
			return nil, err
		}
	}
	if err := c.sandbox(); err != nil {
		return nil, err
	}
	o := &output{merge: in.Merge}
	exit, err := c.follow(c.R.Context(), compat.Sandbox(c.box, "/exec"), body, o.take)
	if denied, ok := refusal(err); ok { // a rule stops it, which the agent should see
		o.err, exit = []byte(denied+"\n"), api.Exit{ExitCode: 126}
	} else if err != nil {
		return nil, err
	}
	o.note(exit)
	stdout, stderr := backslashes(o.out), backslashes(o.err)
	switch {
	case exit.TimedOut:
		return nil, raise(classTimeout, fmt.Sprintf("Timeout (%vs) exceeded while running command", within))
	case exit.ExitCode == 127 && !in.Shell && strings.HasPrefix(stderr+stdout, "sandbox: no program "):
		return nil, raise(classNotFound, "[Errno 2] No such file or directory: "+strconv.Quote(args[0]))
	case in.Check && exit.ExitCode != 0:
		return nil, raise(classExit, withMessage(in.Message, fmt.Sprintf(
			"Command %s failed with exit code %d. Stdout:\n%q\nStderr:\n%q", in.Command.shown(), exit.ExitCode, stdout, stderr)))
	}
	return map[string]any{"stdout": stdout, "stderr": stderr, "exit_code": exit.ExitCode}, nil
}

func withMessage(before, text string) string {
	if before != "" {
		return before + ": " + text
	}
	return text
}

// refusal returns what the rules of the sandbox say of a command that they stop.
func refusal(err error) (string, bool) {
	f, ok := errors.AsType[*compat.Fault](err)
	if !ok || f.Code != sandbox.CodeDenyTool && f.Code != sandbox.CodeCapabilityBlocked {
		return "", false
	}
	return "sandbox: " + string(f.Code) + ": " + f.Message, true
}

// output is what a command writes, up to maxOutput bytes.
type output struct {
	out, err []byte
	merge    bool
	lost     int64
}

func (o *output) take(stderr bool, b []byte) error {
	if room := maxOutput - len(o.out) - len(o.err); len(b) > room {
		o.lost += int64(len(b) - room)
		b = b[:room]
	}
	if stderr && !o.merge {
		o.err = append(o.err, b...)
	} else {
		o.out = append(o.out, b...)
	}
	return nil
}

// note adds what the protocol has no field for.
func (o *output) note(exit api.Exit) {
	exit.TimedOut = false // which has an error of its own
	text := compat.Ended(exit)
	if o.lost > 0 {
		text = strconv.FormatInt(o.lost, 10) + " bytes of output are left out"
	}
	if text == "" {
		return
	}
	text = "sandbox: " + text + "\n"
	if o.merge {
		o.out = append(o.out, text...)
	} else {
		o.err = append(o.err, text...)
	}
}

// follow runs something of /v1 and passes on what it writes.
func (c *call) follow(ctx context.Context, p string, body any, on func(stderr bool, b []byte) error) (api.Exit, error) {
	var exit api.Exit
	r, err := c.JSON(ctx, http.MethodPost, p, nil, body)
	if err != nil {
		return exit, err
	}
	r.Header.Set("Accept", api.ContentEvents)
	ended := false
	err = c.Follow(ctx, r, func(event string, data []byte) error {
		switch event {
		case api.EventStdout, api.EventStderr:
			b, err := bytesOf(data)
			if err != nil {
				return err
			}
			return on(event == api.EventStderr, b)
		case api.EventExit:
			if err := json.Unmarshal(data, &exit); err != nil {
				return err
			}
			ended = true
			return compat.ErrDone
		case api.EventError:
			return eventError(data)
		}
		return nil
	})
	if err == nil && !ended {
		err = &compat.Fault{Status: http.StatusServiceUnavailable, Code: sandbox.CodeUnavailable, Message: "the output has ended before the command; it is not known how it ended"}
	}
	return exit, err
}

func bytesOf(data []byte) ([]byte, error) {
	var v api.Output
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	if v.Base64 != nil {
		return v.Base64, nil
	}
	return []byte(v.Text), nil
}

func eventError(data []byte) error {
	var v api.Problem
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	return &compat.Fault{Status: cmp.Or(v.Status, http.StatusInternalServerError), Code: v.Code, Message: compat.Text(v), Field: v.Field, About: v.Resource}
}

// escapes are sequences that move the cursor or set colours.
var escapes = regexp.MustCompile(`\x1B[@-_][0-?]*[ -/]*[@-~]`)

// clean returns output as the protocol has it.
func clean(b []byte) string {
	return strings.ReplaceAll(escapes.ReplaceAllString(backslashes(b), ""), "\r\n", "\n")
}

// An expectation is the patterns of which one ends a command.
type expectation struct {
	texts    []string
	patterns []*regexp.Regexp
}

// Bounds of what is expected.
const (
	maxExpected = 64
	maxPattern  = 4096 // bytes
)

func expecting(list []string) (expectation, error) {
	e := expectation{texts: list}
	if len(list) > maxExpected {
		return e, unprocessable("expect: has more than " + strconv.Itoa(maxExpected) + " patterns")
	}
	for _, text := range list {
		if len(text) > maxPattern {
			return e, unprocessable("expect: a pattern has more than " + strconv.Itoa(maxPattern) + " bytes")
		}
		p, err := regexp.Compile("(?s)" + text)
		if err != nil { // what this syntax has not is taken as it stands
			p = regexp.MustCompile(regexp.QuoteMeta(text))
		}
		e.patterns = append(e.patterns, p)
	}
	return e, nil
}

// find returns the first place at which one of the patterns matches.
func (e expectation) find(b []byte) (text string, from, to int, ok bool) {
	for i, p := range e.patterns {
		if at := p.FindIndex(b); at != nil && at[1] > at[0] && (!ok || at[0] < from) {
			text, from, to, ok = e.texts[i], at[0], at[1], true
		}
	}
	return text, from, to, ok
}

// after returns a context that ends after a time limit, where there is one.
func after(ctx context.Context, within float64) (context.Context, context.CancelFunc) {
	if within <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(within*float64(time.Second)))
}
