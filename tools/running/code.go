// This file holds the code interpreter: kernels that stay, in the sandbox of a
// session. A program in the image, the kernel host, keeps the kernels and speaks
// Jupyter's protocol to them; it is a command of the session in the background.
// Each run of code is a command of its own, which hands the code to the host and
// writes what comes of it, one JSON value a line. So it is judged, on record,
// paid for and ended as every command is. The code is in its arguments.
//
// Code in a kernel can forge whatever the host says. Nothing that is decided
// here depends on it, and all of it is bounded.

package running

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

const (
	codeHost = about.CodeHost
	// codeNoHost is the exit status of a run that finds no host.
	codeNoHost = 69
	// codeLife is longer than a host lives: it ends by itself when it is idle.
	codeLife = 365 * 24 * time.Hour
	// codeWait is how long a run waits for a host that was just started.
	codeWait = 30 * time.Second
	// codeGrace is how much longer than its time limit a run may take: for the
	// start of the command that hands the code over, two interrupts of three
	// seconds each, and the end of a kernel that ignores them.
	codeGrace = 20 * time.Second

	// MaxCode is the most code of one run, in bytes.
	MaxCode = 1 << 20
	// codePart is the most of one argument, see manager.maxArgument.
	codePart = 120 << 10

	maxCodeLine   = 12 << 20 // of what the host says at one time
	maxCodeOutput = 64 << 20 // of all that it says in one run
	// DefaultCodeOutput is the most characters of output of a run that sets no
	// number.
	DefaultCodeOutput = 1 << 20
)

// Code is what a run executes.
type Code struct {
	Text     string
	Language string            // "python" without; "javascript" or "bash"
	Context  string            // the id of a context; the default one of the language without
	Env      map[string]string // for this run alone
	Dir      string            // where the kernel starts, if the run is the first of its default context
	Timeout  time.Duration     // after which the code is interrupted; zero is no limit
	Output   int64             // characters of output that are passed on; zero is DefaultCodeOutput
}

// CodeLanguages returns the languages that there are kernels of.
func CodeLanguages() []string { return []string{"python", "javascript", "bash"} }

var codeID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) })

func checkCode(op, language, id string) error {
	if language != "" && !slices.Contains(CodeLanguages(), language) {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "language", Resource: termsafe.Line(clipped(language)),
			Message: "there is no kernel of this language", Hint: "there are " + strings.Join(CodeLanguages(), ", ")}
	}
	if id != "" && !codeID().MatchString(id) {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "context", Message: "this is no id of a context", Hint: "take the id that the creation of a context returns"}
	}
	return nil
}

// RunCode runs code in a kernel of the session's sandbox and calls fn with what
// comes of it, until the code has ended. An error of fn, and the end of ctx,
// interrupts the code. Code that fails is an event and no error; so is a kernel
// that dies, which the next run starts anew. Runs in one context take turns.
//
// The outcome is that of the command that hands the code over. TimedOut says that
// the code was interrupted at its time limit. A kernel host that does not report the
// end of the code within twenty seconds after that is ended with all its kernels, and fn
// gets an error event named KernelDied.
//
// Of req, Command must be empty. Errors: CodeUnsupported where the image has no
// kernel host, CodeNotFound for a context that is not there, CodeValidation.
func (h *Supervisor) RunCode(ctx context.Context, req manager.Request, c Code, fn func(sandbox.CodeEvent) error) (manager.Outcome, error) {
	const op = "run code"
	if err := checkCode(op, c.Language, c.Context); err != nil {
		return manager.Outcome{}, err
	}
	switch {
	case c.Language != "" && c.Context != "":
		return manager.Outcome{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "language", Message: "a context has its language already", Hint: "give only one of language and context"}
	case len(c.Text) > MaxCode:
		return manager.Outcome{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "code", Message: "the code is longer than 1 MiB", Hint: "write it to a file and run that"}
	case !utf8.ValidString(c.Text) || strings.ContainsRune(c.Text, 0):
		return manager.Outcome{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "code", Message: "the code is no UTF-8 text, or holds a NUL"}
	}
	if err := sandbox.CheckEnv(c.Env); err != nil {
		return manager.Outcome{}, err
	}
	args := []string{"--most-output", strconv.FormatInt(max(1, usualOutput(c.Output)), 10)}
	if c.Language != "" {
		args = append(args, "--language", c.Language)
	}
	if c.Context != "" {
		args = append(args, "--context", c.Context)
	}
	if c.Timeout > 0 {
		args = append(args, "--timeout", strconv.FormatFloat(c.Timeout.Seconds(), 'f', -1, 64))
		req.Timeout = c.Timeout + codeGrace
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		args = append(args, "--env", name)
	}
	req.Command.Env, req.Command.Dir = c.Env, c.Dir
	late := false
	out, err := h.code(ctx, op, req, []string{"run"}, args, codeParts(c.Text), func(l codeLine) error {
		if l.Type == sandbox.CodeEventTimeout {
			late = true
		}
		if l.Context != nil {
			return errCodeLine
		}
		return fn(l.CodeEvent)
	})
	if err == nil && c.Timeout > 0 && out.TimedOut && out.Duration >= req.Timeout {
		err = h.endLateHost(ctx, op, req.Who, fn)
	}
	out.TimedOut = out.TimedOut || late
	return out, err
}

// endLateHost ends the kernel host of a session, whose code may run on, and reports
// that as a kernel reports its end.
func (h *Supervisor) endLateHost(ctx context.Context, op string, who config.Who, fn func(sandbox.CodeEvent) error) error {
	if id := h.hostOf(who); id != "" {
		if _, err := h.Kill(context.WithoutCancel(ctx), who, id); err != nil && !sandbox.IsNotFound(err) {
			return err
		}
	}
	err := fn(sandbox.CodeEvent{Type: sandbox.CodeEventError, Error: &sandbox.CodeFailure{Name: "KernelDied",
		Value: "the kernel host did not end the code within " + codeGrace.String() + " after its time limit, so it was ended; the next run starts another one, without the variables and contexts of this one"}})
	if err != nil {
		return &sandbox.Error{Code: sandbox.CodeExecution, Op: op, Message: "what came of the code cannot be passed on", Err: err}
	}
	return nil
}

func usualOutput(n int64) int64 {
	if n <= 0 {
		return DefaultCodeOutput
	}
	return n
}

// codeParts are the arguments that code is given in. They end where a character
// does.
func codeParts(text string) []string {
	out := []string{"--"}
	for len(text) > codePart {
		n := codePart
		for !utf8.RuneStart(text[n]) {
			n--
		}
		out, text = append(out, text[:n]), text[n:]
	}
	return append(out, text)
}

// CodeContexts lists the contexts of a session.
func (h *Supervisor) CodeContexts(ctx context.Context, req manager.Request) ([]sandbox.CodeContext, error) {
	return h.contexts(ctx, req, "list code contexts", "list", nil)
}

// CreateCodeContext makes a context in a language, "python" without, and starts
// its kernel in dir, or else in the workspace.
func (h *Supervisor) CreateCodeContext(ctx context.Context, req manager.Request, language, dir string) (sandbox.CodeContext, error) {
	const op = "create code context"
	if err := checkCode(op, language, ""); err != nil {
		return sandbox.CodeContext{}, err
	}
	var args []string
	if language != "" {
		args = []string{"--language", language}
	}
	req.Command.Dir = dir
	return h.context(ctx, req, op, "create", args)
}

// RestartCodeContext starts the kernel of a context anew. Its variables are
// lost, and code that it runs ends.
func (h *Supervisor) RestartCodeContext(ctx context.Context, req manager.Request, id string) (sandbox.CodeContext, error) {
	const op = "restart code context"
	if err := checkCode(op, "", id); err != nil {
		return sandbox.CodeContext{}, err
	}
	return h.context(ctx, req, op, "restart", []string{"--context", id})
}

// DeleteCodeContext ends a context with all that it runs.
func (h *Supervisor) DeleteCodeContext(ctx context.Context, req manager.Request, id string) error {
	const op = "delete code context"
	if err := checkCode(op, "", id); err != nil {
		return err
	}
	_, err := h.contexts(ctx, req, op, "delete", []string{"--context", id})
	return err
}

func (h *Supervisor) context(ctx context.Context, req manager.Request, op, verb string, args []string) (sandbox.CodeContext, error) {
	list, err := h.contexts(ctx, req, op, verb, args)
	if err == nil && len(list) != 1 {
		err = &sandbox.Error{Code: sandbox.CodeExecution, Op: op, Message: "the kernel host has not said which context it is", Err: errCodeLine}
	}
	if err != nil {
		return sandbox.CodeContext{}, err
	}
	return list[0], nil
}

func (h *Supervisor) contexts(ctx context.Context, req manager.Request, op, verb string, args []string) ([]sandbox.CodeContext, error) {
	list := []sandbox.CodeContext{}
	out, err := h.code(ctx, op, req, []string{"contexts", verb}, args, nil, func(l codeLine) error {
		c := l.Context
		if c == nil || !codeID().MatchString(c.ID) || !slices.Contains(CodeLanguages(), c.Language) || len(list) >= 64 {
			return errCodeLine
		}
		list = append(list, *c)
		return nil
	})
	if err == nil && out.TimedOut {
		err = &sandbox.Error{Code: sandbox.CodeTimeout, Op: op, Retryable: true, Message: "the kernel host did not answer in time", Hint: "try again, or recreate the sandbox"}
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// code runs a command that speaks to the kernel host, which is started first
// where none of this program runs.
func (h *Supervisor) code(ctx context.Context, op string, req manager.Request, verb, args, rest []string, fn func(codeLine) error) (manager.Outcome, error) {
	switch r := req.Command; {
	case len(r.Args) > 0 || r.Stdin != nil || r.Stdout != nil || r.Stderr != nil || r.TTY != nil:
		return manager.Outcome{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: op, Field: "command", Message: "code has no command of its own"}
	}
	for again := false; ; again = true {
		if err := h.startCode(ctx, op, req, again); err != nil {
			return manager.Outcome{}, err
		}
		out, found, err := h.codeOnce(ctx, op, req, verb, args, rest, fn)
		if found || again || err != nil {
			return out, err
		}
	}
}

// startCode sees that the session has a kernel host. The start is a command of
// its own, which the settings have to permit.
func (h *Supervisor) startCode(ctx context.Context, op string, req manager.Request, anew bool) error {
	give, err := h.starts.Enter(ctx, req.Who.Tenant+"\x00"+req.Who.Agent+"\x00"+req.Who.Session)
	if err != nil {
		return &sandbox.Error{Code: sandbox.CodeExecution, Op: op, Message: "the caller gave up while the kernel host was started", Err: err}
	}
	defer give()
	if id := h.hostOf(req.Who); id != "" {
		if !anew {
			return nil
		}
		if _, err := h.Kill(ctx, req.Who, id); err != nil && !sandbox.IsNotFound(err) {
			return err
		}
	}
	start := req
	start.Command = sandbox.Command{Args: []string{codeHost, "serve"}}
	start.Timeout, start.Started, start.Again = codeLife, nil, nil
	s, err := h.Start(ctx, start, StartOptions{Text: "code interpreter", EOF: true})
	if _, _, missing := manager.Unstarted(err); missing || err == nil && s.Outcome != nil && s.Outcome.Exit.Code == 127 {
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: op, Field: "docker.image", Err: err,
			Message: "the image of the sandbox has no kernel host, " + codeHost,
			Hint:    "set docker.image to " + about.CodeImage + ", which is made when it is first needed, and run: sandbox recreate"}
	}
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.command(req.Who, s.ID); c != nil {
		c.code = true
	}
	return nil
}

// command finds a command. The lock is held.
func (h *Supervisor) command(who config.Who, id string) *command {
	if have := h.sessions[who]; have != nil {
		return have.commands[id]
	}
	return nil
}

// hostOf returns the id of the kernel host of a session; empty where none runs.
func (h *Supervisor) hostOf(who config.Who) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if have := h.sessions[who]; have != nil {
		for id, c := range have.commands {
			if c.code && !c.over() {
				return id
			}
		}
	}
	return ""
}

// codeOnce runs the command. found is false where it has found no host, and
// nothing has happened.
func (h *Supervisor) codeOnce(ctx context.Context, op string, req manager.Request, verb, args, rest []string, fn func(codeLine) error) (out manager.Outcome, found bool, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	lines := &codeReader{fn: fn, stop: stop}
	said := &codeSaid{}
	req.Command.Args = slices.Concat([]string{codeHost}, verb, []string{"--wait", strconv.Itoa(int(codeWait.Seconds()))}, args, rest)
	req.Command.Stdout, req.Command.Stderr = lines, said
	req.Again = lines.again(req.Again)
	out, err = h.o.Manager.Run(ctx, req)
	if wrong := lines.end(); wrong != nil && (err == nil || context.Cause(ctx) != nil) {
		var e *sandbox.Error
		if errors.As(wrong, &e) {
			return out, true, wrong
		}
		return out, true, &sandbox.Error{Code: sandbox.CodeExecution, Op: op, Message: "what came of the code cannot be passed on", Err: wrong}
	}
	switch {
	case err != nil:
		return out, true, err
	case lines.fault != nil:
		return out, true, lines.fault.err(op)
	case lines.ended || out.TimedOut:
		return out, true, nil
	case out.Exit.Code == codeNoHost && !lines.any:
		return out, false, nil
	case out.Blocked:
		return out, true, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: op, Message: "the run was stopped: " + out.BlockedReason}
	}
	why := said.text()
	if why == "" {
		why = fmt.Sprintf("exit status %d", out.Exit.Code)
	}
	return out, true, &sandbox.Error{Code: sandbox.CodeExecution, Op: op, Retryable: true, Message: "the kernel host ended the conversation early: " + why,
		Hint: "run it again, which starts another kernel host; variables are lost"}
}

// errCodeLine says that the kernel host has broken its protocol. Code in the
// sandbox can have it do so.
var errCodeLine = errors.New("the kernel host does not keep to its protocol")

// A codeLine is one thing that the host says.
type codeLine struct {
	sandbox.CodeEvent
	Context *sandbox.CodeContext `json:"context,omitempty"`
	Code    string               `json:"code,omitempty"`
	Message string               `json:"message,omitempty"`
}

const (
	codeContext = "context"
	codeFault   = "fault" // the last: it was not done
	codeEnd     = "end"   // the last: it was
)

// decodeCodeLine reads one line strictly. What it returns may be used without
// another look, except that its texts come from the sandbox.
func decodeCodeLine(line []byte) (codeLine, error) {
	var l codeLine
	if !utf8.Valid(line) {
		return l, errCodeLine
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return codeLine{}, errCodeLine
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return codeLine{}, errCodeLine
	}
	if want, ok := wantedOf(l); !ok || want != partsOf(l) {
		return codeLine{}, errCodeLine
	}
	if l.ExecutionCount < 0 || l.Dropped < 0 {
		return codeLine{}, errCodeLine
	}
	return l, nil
}

// codeFields are the fields that a line has.
type codeFields struct{ text, result, failure, count, dropped, context, fault bool }

func partsOf(l codeLine) codeFields {
	return codeFields{l.Text != "", l.Result != nil, l.Error != nil, l.ExecutionCount != 0, l.Dropped != 0, l.Context != nil, l.Code != "" || l.Message != ""}
}

// wantedOf are the fields that a line of its type has; those that may be empty
// are as they are.
func wantedOf(l codeLine) (codeFields, bool) {
	switch l.Type {
	case sandbox.CodeEventStdout, sandbox.CodeEventStderr:
		return codeFields{text: l.Text != ""}, true
	case sandbox.CodeEventResult:
		return codeFields{result: true}, true
	case sandbox.CodeEventError:
		return codeFields{failure: true}, true
	case sandbox.CodeEventCount:
		return codeFields{count: l.ExecutionCount != 0}, true
	case sandbox.CodeEventTruncated:
		return codeFields{dropped: l.Dropped != 0}, true
	case sandbox.CodeEventTimeout, codeEnd:
		return codeFields{}, true
	case codeContext:
		return codeFields{context: true}, true
	case codeFault:
		return codeFields{fault: true}, true
	}
	return codeFields{}, false
}

// err is a fault as an error.
func (l *codeLine) err(op string) error {
	e := &sandbox.Error{Code: sandbox.CodeExecution, Op: op, Message: termsafe.Line(clipped(l.Message))}
	switch l.Code {
	case "not_found":
		e.Code, e.Field, e.Hint = sandbox.CodeNotFound, "context", "list the contexts, or create one"
	case "validation":
		e.Code = sandbox.CodeValidation
	case "busy":
		e.Code, e.Field = sandbox.CodeBusy, "context"
	}
	return e
}

func clipped(s string) string {
	const most = 500
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// A codeReader reads what the host says. It is written to by one goroutine at a
// time.
type codeReader struct {
	fn   func(codeLine) error
	stop context.CancelCauseFunc

	pending []byte
	total   int
	any     bool // something was said
	ended   bool
	fault   *codeLine
	wrong   error // the first
}

// Write implements io.Writer. What follows an error is thrown away: the command
// is ended by it.
func (r *codeReader) Write(p []byte) (int, error) {
	if r.wrong != nil {
		return len(p), nil
	}
	r.any = r.any || len(p) > 0
	r.total += len(p)
	data := append(r.pending, p...)
	for {
		at := bytes.IndexByte(data, '\n')
		if at < 0 {
			break
		}
		if err := r.line(data[:at]); err != nil {
			r.fail(err)
			return len(p), nil
		}
		data = data[at+1:]
	}
	if len(data) > maxCodeLine || r.total > maxCodeOutput {
		r.fail(errCodeLine)
		return len(p), nil
	}
	r.pending = append(r.pending[:0:0], data...)
	return len(p), nil
}

func (r *codeReader) line(b []byte) error {
	if r.ended || r.fault != nil || len(b) > maxCodeLine {
		return errCodeLine
	}
	l, err := decodeCodeLine(b)
	if err != nil {
		return err
	}
	switch l.Type {
	case codeEnd:
		r.ended = true
		return nil
	case codeFault:
		r.fault = &l
		return nil
	}
	return r.fn(l)
}

func (r *codeReader) fail(err error) {
	r.wrong, r.pending = err, nil
	r.stop(err)
}

// end is the first thing that went wrong.
func (r *codeReader) end() error {
	if r.wrong == nil && len(r.pending) > 0 && (r.ended || r.fault != nil) {
		return errCodeLine
	}
	return r.wrong
}

// again begins anew, with a permission.
func (r *codeReader) again(more func()) func() {
	return func() {
		r.pending, r.total, r.any, r.ended, r.fault = nil, 0, false, false, nil
		if more != nil {
			more()
		}
	}
}

// codeSaid keeps the beginning of what the command says about its failure.
type codeSaid struct{ b []byte }

func (s *codeSaid) Write(p []byte) (int, error) {
	if room := 2000 - len(s.b); room > 0 {
		s.b = append(s.b, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (s *codeSaid) text() string {
	return termsafe.Line(strings.ToValidUTF8(strings.TrimSpace(string(s.b)), "\ufffd"))
}
