package agents

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/compat"
)

// A command is the body of exec.
type command struct {
	Argv    []string `json:"argv"`
	Timeout *float64 `json:"timeout_ms"`
	Cwd     *string  `json:"cwd"`
}

// request returns the command in /v1.
func (in command) request() (api.Exec, error) {
	if len(in.Argv) == 0 || in.Argv[0] == "" {
		return api.Exec{}, bad("argv", "must be a program and its arguments")
	}
	if slices.ContainsFunc(in.Argv, func(arg string) bool { return strings.ContainsRune(arg, 0) }) {
		return api.Exec{}, bad("argv", "has a NUL byte")
	}
	within, err := millis("timeout_ms", in.Timeout)
	if err != nil {
		return api.Exec{}, err
	}
	out := api.Exec{Args: in.Argv, TimeoutSeconds: within.Seconds()}
	if in.Cwd != nil {
		if out.Dir, err = inWorkspace("cwd", *in.Cwd); err != nil {
			return api.Exec{}, err
		}
	}
	return out, nil
}

// run runs a command and answers with its output as server-sent events. The client
// waits for it: when it goes, the command is ended.
func run(c *call) error {
	var in command
	if err := c.body(&in, false); err != nil {
		return err
	}
	body, err := in.request()
	if err != nil {
		return err
	}
	ctx := c.R.Context()
	e := &events{c: c}
	err = e.follow(ctx, body)
	if f, ok := errors.AsType[*compat.Fault](err); ok && c.gone(f) && !e.begun && begins(in.Argv) {
		if err = remake(c, err); err == nil {
			err = e.follow(ctx, body)
		}
	}
	switch {
	case e.ended || ctx.Err() != nil:
		return nil
	case !e.begun && err != nil:
		return err
	}
	// The answer has begun, so the error is an event of it.
	if err == nil {
		err = &compat.Fault{Status: http.StatusServiceUnavailable, Message: "the output has ended before the command; it is not known how it ended"}
	}
	f := asFault(err)
	_ = e.send("error", failure{Error: line(f.Message), Code: c.codeOf(f)}) // or the client has gone
	return nil
}

// begins reports whether a command is the one with which the client for Python begins
// to use a sandbox that it has created or resumed.
func begins(argv []string) bool {
	for len(argv) > 1 && (argv[0] == "env" || strings.Contains(argv[0], "=")) { // of the manifest
		argv = argv[1:]
	}
	return slices.Equal(argv, []string{"mkdir", "-p", "--", sandbox.WorkspaceDir})
}

// events translates the events of a command of /v1.
type events struct {
	c     *call
	begun bool // the head was sent
	data  bool // output was sent
	ended bool
}

// follow runs a command, and sends its events.
func (e *events) follow(ctx context.Context, body api.Exec) error {
	r, err := e.c.JSON(ctx, http.MethodPost, compat.Sandbox(e.c.name, "/exec"), nil, body)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", api.ContentEvents)
	return e.c.Follow(ctx, r, e.take)
}

func (e *events) take(event string, data []byte) error {
	switch event {
	case "":
		return e.put(":\n\n")
	case api.EventStdout, api.EventStderr:
		var v api.Output
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		return e.output(event, v)
	case api.EventAgain:
		if e.data {
			return &compat.Fault{Status: http.StatusConflict, Message: "the command was begun anew with a permission; run it again"}
		}
	case api.EventExit:
		var v api.Exit
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		return e.exit(v)
	case api.EventError:
		var v api.Problem
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		return &compat.Fault{Status: cmp.Or(v.Status, http.StatusInternalServerError), Code: v.Code, Message: compat.Text(v), Field: v.Field, About: v.Resource}
	}
	return nil
}

func (e *events) output(event string, v api.Output) error {
	e.data = true
	b := v.Base64
	if b == nil {
		b = []byte(v.Text)
	}
	return e.put("event: " + event + "\ndata: " + base64.StdEncoding.EncodeToString(b) + "\n\n")
}

// exit ends the answer with how the command has ended. The protocol has a status
// alone, so what else there is to say is on stderr.
func (e *events) exit(v api.Exit) error {
	e.ended = true
	if v.TimedOut {
		if err := e.send("error", failure{Error: compat.Ended(v), Code: codeExec}); err != nil {
			return err
		}
		return compat.ErrDone
	}
	note := compat.Ended(v)
	if note != "" {
		if err := e.output(api.EventStderr, api.Output{Text: "sandbox: " + line(note) + "\n"}); err != nil {
			return err
		}
	}
	if err := e.send("exit", map[string]int{"exit_code": v.ExitCode}); err != nil {
		return err
	}
	return compat.ErrDone
}

func (e *events) send(event string, v any) error {
	return e.put("event: " + event + "\ndata: " + string(marshal(v)) + "\n\n")
}

// put sends a text of the stream. A client that does not read delays the command.
func (e *events) put(text string) error {
	if !e.begun {
		e.begun = true
		h := e.c.W.Header()
		h.Set("Content-Type", api.ContentEvents)
		h.Set("Cache-Control", "no-store")
		e.c.W.WriteHeader(http.StatusOK)
	}
	if _, err := e.c.W.Write([]byte(text)); err != nil {
		return err
	}
	if err := http.NewResponseController(e.c.W).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
