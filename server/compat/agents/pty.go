package agents

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/compat"
)

// queryAuthorization is the parameter that stands for the header Authorization where
// a client can set no headers of a WebSocket.
const queryAuthorization = "authorization"

const (
	maxFrame   = 1 << 20          // bytes of one frame from the client
	maxInput   = 512 << 10        // bytes of one request of /v1 with input
	readWithin = 30 * time.Second // how long a client may take to read one frame
	killWithin = 10 * time.Second
	maxSide    = 1000 // rows and columns of a terminal

	exitNoProgram = 127 // of a command that was not started, because there is no such program
)

// pty runs a shell on a terminal of its own for one client. Binary frames are bytes,
// text frames are JSON: ready, exit and error from the server, resize from the client.
// The shell ends with the socket.
func pty(c *call) error {
	if !isHandshake(c.R) {
		return bad("", "this path needs the handshake of a WebSocket")
	}
	q := c.R.URL.Query()
	if q.Has("session") {
		return unsupported(sessions)
	}
	if text := q.Get(queryAuthorization); text != "" {
		if len(c.Authorization) > 0 {
			return bad(queryAuthorization, "is there beside the header Authorization")
		}
		c.Authorization = []string{text}
	}
	size := api.TerminalSize{Rows: 24, Cols: 80}
	for name, to := range map[string]*int{"rows": &size.Rows, "cols": &size.Cols} {
		if q.Has(name) {
			n, err := strconv.Atoi(q.Get(name))
			if err != nil || n < 1 || n > maxSide {
				return bad(name, "must be a number from 1 to "+strconv.Itoa(maxSide))
			}
			*to = n
		}
	}
	shells := [][]string{{"/bin/bash", "-i"}, {"/bin/sh", "-i"}} // the first that the image has
	if q.Has("shell") {
		if shells = [][]string{{q.Get("shell")}}; q.Get("shell") == "" || strings.ContainsRune(q.Get("shell"), 0) {
			return bad("shell", "must be a program")
		}
	}
	ctx, end := context.WithCancel(c.R.Context())
	defer end()
	t := &terminal{c: c, ctx: ctx, end: end}
	defer t.close()
	var err error
	for i, args := range shells {
		t.last = i == len(shells)-1
		if err = t.follow(args, size); !errors.Is(err, errNoProgram) {
			break
		}
	}
	if t.conn == nil {
		if t.refused {
			return nil // the handshake has its answer
		}
		return err
	}
	if err == nil && !t.ended {
		err = &compat.Fault{Status: http.StatusServiceUnavailable, Message: "the terminal was cut off"}
	}
	if err != nil {
		t.fail(err)
	}
	return nil
}

// errNoProgram says that the sandbox does not have a shell.
var errNoProgram = errors.New("the sandbox has no such program")

// follow runs a shell and sends what it writes, until it ends or ctx does.
func (t *terminal) follow(args []string, size api.TerminalSize) error {
	r, err := t.c.JSON(t.ctx, http.MethodPost, compat.Sandbox(t.c.name, "/exec/stream"), nil, api.ExecStream{StartProcess: api.StartProcess{
		Exec: api.Exec{Args: args, Env: map[string]string{"TERM": "xterm-256color"}}, TTY: &size, StdinOpen: true,
	}})
	if err != nil {
		return err
	}
	return t.c.Follow(t.ctx, r, t.take)
}

// isHandshake reports whether a request is the handshake of a WebSocket, as far as it
// has to be before a shell is started for it.
func isHandshake(r *http.Request) bool {
	has := func(name, token string) bool {
		for one := range strings.SplitSeq(strings.Join(r.Header.Values(name), ","), ",") {
			if strings.EqualFold(strings.TrimSpace(one), token) {
				return true
			}
		}
		return false
	}
	return has("Upgrade", "websocket") && has("Connection", "upgrade") && r.Header.Get("Sec-Websocket-Version") == "13" && r.Header.Get("Sec-Websocket-Key") != ""
}

// A terminal is a shell of /v1 with its client.
type terminal struct {
	c       *call
	ctx     context.Context // of the shell
	end     context.CancelFunc
	conn    *websocket.Conn // nil before the shell runs
	id      string          // of the process
	going   sync.WaitGroup  // of what reads from the client
	last    bool            // no other shell is left to try
	refused bool            // the handshake failed
	ended   bool            // the shell is known to have ended
}

// take translates an event of the shell.
func (t *terminal) take(event string, data []byte) error {
	switch event {
	case api.EventProcess:
		var v api.Process
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		if !t.last && v.PID == 0 && v.Exit != nil && v.Exit.ExitCode == exitNoProgram {
			return errNoProgram
		}
		t.id = v.ID
		return t.open()
	case api.EventStdout, api.EventStderr:
		var v api.Output
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		if v.Base64 != nil {
			return t.output(v.Base64)
		}
		return t.output([]byte(v.Text))
	case api.EventDropped:
		var v api.Dropped
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		return t.output(fmt.Appendf(nil, "\r\n[sandbox: %d bytes of output are missing here, which came faster than they were read]\r\n", v.Bytes))
	case api.EventExit:
		var v api.Exit
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		t.ended = true
		return t.exit(v)
	case api.EventError:
		var v api.Problem
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		t.ended = true
		return &compat.Fault{Status: cmp.Or(v.Status, http.StatusInternalServerError), Code: v.Code, Message: compat.Text(v), Field: v.Field, About: v.Resource}
	}
	return nil
}

// open takes over the connection, as the shell runs.
func (t *terminal) open() error {
	if t.conn != nil {
		return nil
	}
	conn, err := websocket.Accept(t.c.W, t.c.R, nil)
	if err != nil {
		t.refused = true // and answered
		return err
	}
	conn.SetReadLimit(maxFrame)
	t.conn = conn
	t.going.Go(t.listen)
	t.going.Go(func() { compat.Ping(t.ctx, t.conn, t.end) })
	return t.send(map[string]string{"type": "ready"})
}

func (t *terminal) write(kind websocket.MessageType, data []byte) error {
	ctx, done := context.WithTimeout(t.ctx, readWithin)
	defer done()
	return t.conn.Write(ctx, kind, data)
}

func (t *terminal) send(v any) error { return t.write(websocket.MessageText, marshal(v)) }

// output sends bytes of the terminal. The client for JavaScript reads a binary frame
// that is a JSON object as a message of the server, so none is sent as one frame.
func (t *terminal) output(b []byte) error {
	if trimmed := bytes.TrimLeft(b, " \t\r\n"); len(trimmed) > 1 && trimmed[0] == '{' {
		n := len(b) - len(trimmed) + 1
		if err := t.write(websocket.MessageBinary, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return t.write(websocket.MessageBinary, b)
}

// exit ends the socket with how the shell has ended.
func (t *terminal) exit(v api.Exit) error {
	note := compat.Ended(v)
	if note != "" {
		if err := t.output([]byte("\r\n[sandbox: " + line(note) + "]\r\n")); err != nil {
			return err
		}
	}
	if err := t.send(map[string]any{"type": "exit", "code": v.ExitCode}); err != nil {
		return err
	}
	_ = t.conn.Close(websocket.StatusNormalClosure, "") // all was sent
	return compat.ErrDone
}

// fail sends an error, and closes the socket.
func (t *terminal) fail(err error) {
	f := asFault(err)
	ctx, done := context.WithTimeout(context.WithoutCancel(t.ctx), killWithin)
	defer done()
	_ = t.conn.Write(ctx, websocket.MessageText, marshal(map[string]string{"type": "error", "message": line(f.Message), "code": t.c.codeOf(f)}))
	status := websocket.StatusInternalError
	if f.Status < 500 {
		status = websocket.StatusPolicyViolation
	}
	_ = t.conn.Close(status, "") // the client may have gone
}

// close ends the shell where it has not ended by itself.
func (t *terminal) close() {
	t.end()
	if t.conn != nil {
		_ = t.conn.CloseNow() // closed in order before, where the client is there
		t.going.Wait()
	}
	if t.id == "" || t.ended {
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(t.ctx), killWithin)
	defer done()
	_ = t.c.Do(ctx, http.MethodDelete, t.process(""), nil, nil, nil) // otherwise /v1 ends it, as no client follows it
}

// process returns the path of the shell in /v1.
func (t *terminal) process(rest string) string {
	return compat.Sandbox(t.c.name, "/processes/", t.id, rest)
}

// listen passes on what the client sends, until it closes the socket.
func (t *terminal) listen() {
	defer t.end()
	for {
		kind, data, err := t.conn.Read(t.ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			err = t.input(data)
		} else {
			err = t.control(data)
		}
		if err != nil && t.ctx.Err() == nil && !t.over(err) {
			t.fail(err)
			return
		}
	}
}

// input writes to the shell.
func (t *terminal) input(data []byte) error {
	for len(data) > 0 {
		n := min(len(data), maxInput)
		if err := t.c.Do(t.ctx, http.MethodPost, t.process("/stdin"), nil, api.ProcessInput{DataBase64: data[:n]}, nil); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// over reports whether an error means that the shell has ended, of which the client
// hears by its last event.
func (t *terminal) over(err error) bool {
	f := asFault(err)
	if f.Code != sandbox.CodeNotFound && f.Code != sandbox.CodeBusy {
		return false
	}
	var now api.Process
	return t.c.Do(t.ctx, http.MethodGet, t.process(""), nil, nil, &now) == nil && now.State != "running"
}

// A control is a text frame of the client.
type control struct {
	Type string `json:"type"`
	Rows *int   `json:"rows"`
	Cols *int   `json:"cols"`
}

// size reads a control frame: resize is the only one there is.
func size(data []byte) (api.TerminalSize, error) {
	var in control
	if err := compat.Decode(data, &in); err != nil {
		return api.TerminalSize{}, bad("", "the text frame is not as the protocol has it: "+err.Error())
	}
	if in.Type != "resize" {
		return api.TerminalSize{}, bad("type", "must be resize")
	}
	for name, n := range map[string]*int{"rows": in.Rows, "cols": in.Cols} {
		if n == nil || *n < 1 || *n > maxSide {
			return api.TerminalSize{}, bad(name, "must be a number from 1 to "+strconv.Itoa(maxSide))
		}
	}
	return api.TerminalSize{Rows: *in.Rows, Cols: *in.Cols}, nil
}

func (t *terminal) control(data []byte) error {
	to, err := size(data)
	if err != nil {
		return err
	}
	return t.c.Do(t.ctx, http.MethodPost, t.process("/resize"), nil, to, nil)
}
