package swerex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/compat"
)

// prompt is reported to clients as what matched when a command has ended.
const prompt = "SHELLPS1PREFIX"

// Bounds of shells.
const (
	maxName   = 128 // bytes of the name of a shell
	maxShells = 4096
	perBox    = 64
	forgotten = 24 * time.Hour // after which an unused shell makes room
)

type shellKey struct{ box, name string }

// A shell is a shell of /v1 with the name that the client has given to it, and the
// interactive program that the client talks to.
type shell struct {
	key  shellKey
	id   string
	turn chan struct{} // holds one value while no request uses the shell

	program *program               // nil without; of the request that has the turn
	running atomic.Pointer[string] // the id of the program, for requests that end it
	used    time.Time              // guarded by the mutex of the translator
}

// A program runs on a terminal, because it is interactive.
type program struct {
	id   string
	at   int64  // place in its output behind rest
	rest []byte // output that no request has returned
	gone bool
	code int
}

// shellOf returns the shell of a name in the call's sandbox.
func (c *call) shellOf(name string) (*shell, error) {
	c.translator.mu.Lock()
	defer c.translator.mu.Unlock()
	s := c.translator.open[shellKey{c.box, name}]
	if s == nil {
		return nil, raise(classNone, "session '"+name+"' does not exist")
	}
	s.used = time.Now()
	return s, nil
}

// add makes room for a shell and adds it.
func (d *Translator) add(s *shell) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for k, one := range d.open {
		if time.Since(one.used) > forgotten {
			delete(d.open, k)
		} else if k.box == s.key.box {
			n++
		}
	}
	switch {
	case d.open[s.key] != nil:
		return raise(classExists, "session "+s.key.name+" already exists")
	case n >= perBox || len(d.open) >= maxShells:
		return raise(classAny, "there are too many sessions; close some")
	}
	d.open[s.key] = s
	return nil
}

func (d *Translator) drop(s *shell) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[s.key] == s {
		delete(d.open, s.key)
	}
}

// take waits for the turn of a request.
func (s *shell) take(ctx context.Context) error {
	select {
	case <-s.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *shell) give() { s.turn <- struct{}{} }

// A kind is the field by which clients tell messages of a kind of session apart.
type kind struct {
	Session string `json:"session"`
	Type    string `json:"session_type"`
}

func (k *kind) check() error {
	if k.Type == "" {
		k.Type = "bash"
	}
	switch {
	case k.Type != "bash":
		return unprocessable("session_type: must be bash")
	case len(k.Session) > maxName:
		return unprocessable("session: has more than " + strconv.Itoa(maxName) + " bytes")
	}
	return nil
}

func createSession(c *call) (any, error) {
	in := struct {
		kind
		Source  []string `json:"startup_source"`
		Timeout *float64 `json:"startup_timeout"`
	}{kind: kind{Session: "default"}}
	if err := c.body(&in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if err := c.sandbox(); err != nil {
		return nil, err
	}
	s := &shell{key: shellKey{c.box, in.Session}, turn: make(chan struct{}, 1), used: time.Now()}
	if err := c.translator.add(s); err != nil {
		return nil, err
	}
	var made api.Shell
	if err := c.Do(c.R.Context(), http.MethodPost, compat.Sandbox(c.box, "/shells"), nil, api.OpenShell{}, &made); err != nil {
		c.translator.drop(s)
		return nil, err
	}
	s.id = made.ID
	var out output
	out.merge = true
	for _, file := range in.Source {
		// A file that fails or is missing is reported in the output, as by a shell.
		if _, err := c.line(c.R.Context(), s, together("source "+quote(file)), 0, out.take); err != nil {
			text, denied := refusal(err)
			if !denied {
				c.translator.drop(s)
				c.end(s)
				return nil, err
			}
			_ = out.take(false, []byte(text+"\n"))
		}
	}
	s.give()
	return map[string]any{"output": clean(out.out), "session_type": "bash"}, nil
}

// line runs a line in the shell of /v1.
func (c *call) line(ctx context.Context, s *shell, line string, within float64, on func(bool, []byte) error) (api.Exit, error) {
	exit, err := c.follow(ctx, compat.Sandbox(s.key.box, "/shells/", url.PathEscape(s.id), "/run"), api.RunLine{Line: line, TimeoutSeconds: within}, on)
	if f, ok := errors.AsType[*compat.Fault](err); ok && f.Code == sandbox.CodeNotFound {
		c.translator.drop(s)
		return exit, raise(classNone, "session '"+s.key.name+"' does not exist any more: "+f.Message)
	}
	return exit, err
}

// An action is the body of run_in_session.
type action struct {
	Type        string   `json:"action_type"`
	Command     string   `json:"command"`
	Session     string   `json:"session"`
	Timeout     *float64 `json:"timeout"`
	Interactive bool     `json:"is_interactive_command"`
	Quit        bool     `json:"is_interactive_quit"`
	Check       string   `json:"check"`
	Message     string   `json:"error_msg"`
	Expect      []string `json:"expect"`
	Retries     int      `json:"n_retry"`
}

// observed is the answer of run_in_session.
func observed(text string, code any, matched string) map[string]any {
	return map[string]any{"output": text, "exit_code": code, "failure_reason": "", "expect_string": matched, "session_type": "bash"}
}

func runInSession(c *call) (any, error) {
	in := action{Type: "bash", Session: "default", Check: "raise", Retries: 3}
	if err := c.body(&in); err != nil {
		return nil, err
	}
	within, err := seconds(in.Timeout)
	if err != nil {
		return nil, err
	}
	expect, err := expecting(in.Expect)
	if err != nil {
		return nil, err
	}
	switch {
	case in.Type != "bash" && in.Type != "bash_interrupt":
		return nil, unprocessable("action_type: must be bash or bash_interrupt")
	case in.Check != "raise" && in.Check != "silent" && in.Check != "ignore":
		return nil, unprocessable("check: must be raise, silent or ignore")
	case in.Interactive && in.Quit:
		return nil, unprocessable("is_interactive_quit: a command is one of both")
	}
	if err := c.sandbox(); err != nil {
		return nil, err
	}
	s, err := c.shellOf(in.Session)
	if err != nil {
		return nil, err
	}
	ctx, done := after(c.R.Context(), within)
	defer done()
	if err := s.take(ctx); err != nil {
		return nil, raise(classTimeout, "another command runs in the session")
	}
	defer s.give()
	switch {
	case in.Type == "bash_interrupt":
		return c.interrupt(s, in, expect, within)
	case in.Interactive || in.Quit || s.program != nil:
		return c.talk(ctx, s, in, expect)
	case len(expect.patterns) > 0:
		return c.until(ctx, s, in, expect)
	}
	return c.plain(c.R.Context(), s, in, within)
}

// plain runs a command to its end.
func (c *call) plain(ctx context.Context, s *shell, in action, within float64) (any, error) {
	o := output{merge: true}
	if empty(in.Command) {
		return observed("", exitOf(in, 0), prompt), nil
	}
	exit, err := c.line(ctx, s, together(in.Command), within, o.take)
	if err != nil {
		text, denied := refusal(err)
		switch {
		case denied && strings.Contains(text, ": syntax: "):
			return nil, &raised{class: classSyntax, message: "Error while checking bash command " + strconv.Quote(in.Command) + ": " + text,
				extra: map[string]any{"bash_stdout": "", "bash_stderr": text}}
		case !denied:
			return nil, err
		}
		_ = o.take(false, []byte(text+"\n"))
		exit.ExitCode = 126
	}
	if exit.TimedOut {
		return nil, &raised{class: classTimeout, message: fmt.Sprintf("timeout after %v seconds while running command %q", within, in.Command),
			extra: map[string]any{"output": clean(o.out)}}
	}
	o.note(exit)
	text := clean(o.out)
	if in.Check == "raise" && exit.ExitCode != 0 {
		return nil, raise(classExit, withMessage(in.Message, fmt.Sprintf(
			"Command %q failed with exit code %d. Here is the output:\n%q", in.Command, exit.ExitCode, text)))
	}
	return observed(text, exitOf(in, exit.ExitCode), prompt), nil
}

// empty reports whether a command has nothing but blank lines and comments.
func empty(command string) bool {
	for line := range strings.Lines(command) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return false
		}
	}
	return true
}

// together has a command write its errors to where its output goes, so that both come
// in the order in which they are written, as on a terminal. The braces are no shell of
// their own.
func together(command string) string { return "{\n" + command + "\n} 2>&1" }

// quote writes a text as one word of the shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// exitOf is the exit code that the client wants to have.
func exitOf(in action, code int) any {
	if in.Check == "ignore" {
		return nil
	}
	return code
}

// until runs a command on a terminal until it writes what is expected, or ends.
func (c *call) until(ctx context.Context, s *shell, in action, expect expectation) (any, error) {
	if err := c.start(ctx, s, in.Command); err != nil {
		return nil, err
	}
	text, matched, err := c.await(ctx, s, expect, in)
	if err != nil {
		return nil, err
	}
	p := s.program
	if in.Check != "ignore" && !p.gone { // the code is that of the command, which has a moment to end
		short, done := context.WithTimeout(ctx, time.Second)
		defer done()
		rest, _, err := c.await(short, s, expectation{}, in)
		if err != nil && in.Check == "raise" {
			return nil, raise(classNoExit, "timeout while getting exit code")
		}
		text += rest
	}
	if !p.gone {
		return observed(text, nil, matched), nil
	}
	s.program = nil
	if in.Check == "raise" && p.code != 0 {
		return nil, raise(classExit, withMessage(in.Message, fmt.Sprintf("Command %q failed with exit code %d. Here is the output:\n%q", in.Command, p.code, text)))
	}
	return observed(text, exitOf(in, p.code), matched), nil
}

// talk starts an interactive program, or sends a line to the one that runs.
func (c *call) talk(ctx context.Context, s *shell, in action, expect expectation) (any, error) {
	if s.program == nil {
		if in.Quit { // of a program that has ended already
			return observed("", 0, prompt), nil
		}
		if err := c.start(ctx, s, in.Command); err != nil {
			return nil, err
		}
	} else if err := c.send(ctx, s, in.Command+"\n"); err != nil {
		return nil, err
	}
	text, matched, err := c.await(ctx, s, expect, in)
	if err != nil {
		return nil, err
	}
	if s.program.gone {
		s.program = nil
	}
	if in.Interactive {
		text = strings.TrimSpace(strings.TrimPrefix(strings.TrimLeft(text, " \t\r\n"), in.Command)) // the terminal echoes it
	}
	return observed(text, 0, matched), nil
}

// start runs a command on a terminal, in the folder and with the variables of the shell.
func (c *call) start(ctx context.Context, s *shell, command string) error {
	o := output{merge: true}
	if _, err := c.line(ctx, s, `pwd; env -0`, 10, o.take); err != nil {
		return err
	}
	dir, env, _ := bytes.Cut(o.out, []byte("\n"))
	r := api.StartProcess{Exec: api.Exec{Line: command, Dir: string(dir), Env: map[string]string{}}, TTY: &api.TerminalSize{Rows: 24, Cols: 200}}
	for one := range bytes.SplitSeq(env, []byte("\x00")) {
		name, value, ok := strings.Cut(string(one), "=")
		if ok && name != "" && name != "_" && name != "SHLVL" && name != "PWD" && len(r.Env) < 200 && sandbox.CheckEnv(map[string]string{name: value}) == nil {
			r.Env[name] = value
		}
	}
	r.Env["TERM"] = "dumb"
	var made api.Process
	err := c.Do(ctx, http.MethodPost, compat.Sandbox(s.key.box, "/processes"), nil, r, &made)
	if err == nil {
		s.program = &program{id: made.ID}
		s.running.Store(&made.ID)
	}
	return err
}

// send writes to the terminal of the program.
func (c *call) send(ctx context.Context, s *shell, text string) error {
	err := c.Do(ctx, http.MethodPost, s.path("/stdin"), nil, api.ProcessInput{Data: text}, nil)
	if f, ok := errors.AsType[*compat.Fault](err); ok && f.Code == sandbox.CodeNotFound {
		s.program.gone = true // what it has written is still there
		return nil
	}
	return err
}

func (s *shell) path(below string) string {
	return compat.Sandbox(s.key.box, "/processes/", url.PathEscape(s.program.id), below)
}

// await returns what the program writes until one of the patterns matches or it ends.
// A program that does neither in time goes on.
func (c *call) await(ctx context.Context, s *shell, expect expectation, in action) (text, matched string, err error) {
	p := s.program
	found := func() bool {
		pattern, from, to, ok := expect.find(p.rest)
		if ok {
			text, matched = clean(p.rest[:from]), pattern
			p.rest = bytes.Clone(p.rest[to:])
		}
		return ok
	}
	if found() {
		return text, matched, nil
	}
	r := c.Request(ctx, http.MethodGet, s.path("/stream"), url.Values{"from": {strconv.FormatInt(p.at, 10)}}, nil)
	over := false
	err = c.Follow(ctx, r, func(event string, data []byte) error {
		switch event {
		case api.EventStdout, api.EventStderr:
			b, err := bytesOf(data)
			if err != nil {
				return err
			}
			p.at += int64(len(b))
			if p.rest = append(p.rest, b...); len(p.rest) > maxOutput {
				p.rest = bytes.Clone(p.rest[len(p.rest)-maxOutput:])
			}
			if found() {
				over = true
				return compat.ErrDone
			}
		case api.EventDropped:
			var d api.Dropped
			if err := json.Unmarshal(data, &d); err != nil {
				return err
			}
			p.at += d.Bytes
		case api.EventExit:
			var exit api.Exit
			if err := json.Unmarshal(data, &exit); err != nil {
				return err
			}
			p.gone, p.code, over = true, exit.ExitCode, true
			text, matched, p.rest = clean(p.rest), prompt, nil
			return compat.ErrDone
		case api.EventError:
			p.gone = true
			return eventError(data)
		}
		return nil
	})
	switch {
	case over && err == nil:
		return text, matched, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded), err == nil && ctx.Err() != nil:
		return "", "", &raised{class: classTimeout, message: fmt.Sprintf("timeout while running command %q", in.Command), extra: map[string]any{"output": clean(p.rest)}}
	case err == nil:
		err = &compat.Fault{Status: http.StatusServiceUnavailable, Code: sandbox.CodeUnavailable, Message: "the output has ended before the program"}
	}
	return "", "", err
}

// interrupt sends Ctrl-C to the interactive program, and ends it where that does not
// help. Other commands have ended with their time limit already.
func (c *call) interrupt(s *shell, in action, expect expectation, within float64) (any, error) {
	if s.program == nil {
		return observed("", 0, prompt), nil
	}
	if within <= 0 {
		within = 0.2
	}
	for range min(max(in.Retries, 1), 10) {
		if err := c.send(c.R.Context(), s, "\x03"); err != nil {
			return nil, err
		}
		ctx, done := after(c.R.Context(), within)
		text, matched, err := c.await(ctx, s, expect, in)
		done()
		if err == nil {
			if s.program.gone {
				s.program = nil
			}
			return observed(strings.TrimSpace(text), 0, matched), nil
		}
		if _, timeout := errors.AsType[*raised](err); !timeout {
			return nil, err
		}
	}
	text := clean(s.program.rest)
	err := c.Do(c.R.Context(), http.MethodDelete, s.path(""), nil, nil, nil)
	s.program = nil
	return observed(strings.TrimSpace(text), 0, prompt), err
}

// end closes a shell of /v1 and ends its program.
func (c *call) end(s *shell) {
	ctx := context.WithoutCancel(c.R.Context())
	if id := s.running.Load(); id != nil {
		_ = c.Do(ctx, http.MethodDelete, compat.Sandbox(s.key.box, "/processes/", url.PathEscape(*id)), nil, nil, nil) // or it has ended
	}
	_ = c.Do(ctx, http.MethodDelete, compat.Sandbox(s.key.box, "/shells/", url.PathEscape(s.id)), nil, nil, nil) // or it is closed
}

func closeSession(c *call) (any, error) {
	in := kind{Session: "default"}
	if err := c.body(&in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if err := c.sandbox(); err != nil {
		return nil, err
	}
	s, err := c.shellOf(in.Session)
	if err != nil {
		return nil, err
	}
	c.translator.drop(s)
	c.end(s)
	return map[string]string{"session_type": "bash"}, nil
}

// closeAll closes the shells of the sandbox, which stays.
func closeAll(c *call) (any, error) {
	if err := c.sandbox(); err != nil {
		return nil, err
	}
	c.translator.mu.Lock()
	var list []*shell
	for k, s := range c.translator.open {
		if k.box == c.box {
			list = append(list, s)
			delete(c.translator.open, k)
		}
	}
	c.translator.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range list {
		all.Go(func() { c.end(s) })
	}
	all.Wait()
	return struct{}{}, nil
}
