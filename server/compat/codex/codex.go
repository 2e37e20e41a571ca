// Package codex lets Codex use this server as its exec-server: a place other than
// its own machine where it runs commands and has files. It translates: every request
// of that protocol becomes requests of /v1, which it sends to the server in the same
// process with the caller's own token. So tenants, quotas, policy, egress, evidence and
// budgets are those of /v1, and this package decides nothing.
//
// The protocol is JSON-RPC over a WebSocket at /codex/SESSION, where SESSION is that of
// /v1, or /codex for the session that the token is for; one message is one text frame.
// A connection begins with initialize and initialized. Then there are process/start,
// read, write, signal and terminate, the notifications process/output, exited and
// closed, environment/info, and fs/* for files. Processes end with their connection.
package codex

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/compat"
)

const prefix = "/codex"

// Bounds of a connection.
const (
	maxMessage   = 32 << 20 // bytes of one message
	maxRequests  = 64       // that are carried out at one time
	maxProcesses = 128      // that are known
	maxKept      = 1 << 20  // bytes of output of a process that are kept for process/read
	maxFile      = 16 << 20 // bytes of a file that is read at once
	maxEntries   = 10_000   // of a folder
	writeWithin  = 30 * time.Second
)

// Codes of errors of the protocol.
const (
	codeInvalid  = -32600
	codeNoMethod = -32601
	codeParams   = -32602
	codeInternal = -32603
	codeNotFound = -32004
)

// Options configure a [Translator].
type Options struct {
	// Enabled reports whether the protocol is served; nil is always.
	Enabled func() bool
}

// A Translator serves the protocol. It is safe for concurrent use.
type Translator struct{ o Options }

// New returns a Translator.
func New(o Options) *Translator { return &Translator{o} }

// Claims reports whether a request is one of this protocol.
func (d *Translator) Claims(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, prefix)
	return ok && (rest == "" || rest[0] == '/') && (d.o.Enabled == nil || d.o.Enabled())
}

// Translate answers a request that the translator claims. v1 is the server of /v1.
func (d *Translator) Translate(w http.ResponseWriter, r *http.Request, v1 http.Handler) {
	c := compat.New(w, r, v1, r.Header.Values("Authorization")...)
	session, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath()[len(prefix):], "/"))
	if err != nil || strings.Contains(session, "/") {
		refuse(w, &compat.Fault{Status: http.StatusNotFound, Message: "the address of a session is " + prefix + "/SESSION"})
		return
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		refuse(w, &compat.Fault{Status: http.StatusUpgradeRequired, Message: "this path needs the handshake of a WebSocket", Header: http.Header{"Upgrade": {"websocket"}}})
		return
	}
	var made api.Sandbox
	if err := c.Do(r.Context(), http.MethodPost, api.Prefix+"/sandboxes", nil, api.CreateSandbox{Session: session}, &made); err != nil {
		f, ok := errors.AsType[*compat.Fault](err)
		if !ok {
			f = &compat.Fault{Status: http.StatusInternalServerError, Message: "something went wrong inside"}
		}
		refuse(w, f)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // the handshake has its answer
	}
	conn.SetReadLimit(maxMessage)
	ctx, end := context.WithCancel(r.Context())
	s := &connection{Call: c, box: made.Name, conn: conn, ctx: ctx, end: end, processes: map[string]*process{}, slots: make(chan struct{}, maxRequests)}
	s.serve()
}

func refuse(w http.ResponseWriter, f *compat.Fault) {
	for name, values := range f.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	data, err := json.Marshal(map[string]any{"error": f.Message, "code": f.Code})
	if err == nil {
		_, _ = w.Write(data) // or the client has gone
	}
}

// A connection is one connection.
type connection struct {
	compat.Call
	box  string
	conn *websocket.Conn
	ctx  context.Context
	end  context.CancelFunc

	writing sync.Mutex
	going   sync.WaitGroup
	slots   chan struct{}

	mu        sync.Mutex
	begun     int // 1 after initialize, 2 after initialized
	processes map[string]*process
}

// A message is one of JSON-RPC.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
}

// A failure is an error of the protocol.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (f *failure) Error() string { return f.Message }

func bad(text string) *failure { return &failure{codeParams, text} }

// serve answers messages until the client or the token has gone, and ends what it has
// started.
func (s *connection) serve() {
	defer s.close()
	s.going.Go(func() { compat.Ping(s.ctx, s.conn, s.end) })
	for {
		kind, data, err := s.conn.Read(s.ctx)
		if err != nil {
			return
		}
		var m message
		switch {
		case kind != websocket.MessageText:
			s.fail(nil, &failure{codeInvalid, "a message is a text frame"})
			continue
		case json.Unmarshal(data, &m) != nil || m.Method == "":
			s.fail(nil, &failure{codeInvalid, "the frame is no message of JSON-RPC"})
			continue
		case len(m.ID) == 0 || string(m.ID) == "null":
			s.noted(m)
			continue
		}
		s.answer(m)
	}
}

// noted takes a notification, of which there is one.
func (s *connection) noted(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Method != "initialized" || s.begun < 1 {
		go s.fail(json.RawMessage("-1"), &failure{codeInvalid, "there is no notification " + m.Method + " here"})
		return
	}
	s.begun = 2
}

// answer carries a request out. Those that change the order of things are carried out
// in order: of a process its start and what is written to it.
func (s *connection) answer(m message) {
	s.mu.Lock()
	begun := s.begun
	if m.Method == "initialize" && begun == 0 {
		s.begun = 1
	}
	s.mu.Unlock()
	switch {
	case m.Method == "initialize" && begun == 0:
		s.reply(m, func() (any, error) { return s.initialize(m.Params) })
		return
	case m.Method == "initialize":
		s.fail(m.ID, &failure{codeInvalid, "initialize was sent before"})
		return
	case begun != 2:
		s.fail(m.ID, &failure{codeInvalid, "initialize and initialized come first"})
		return
	}
	do, ok := methods[m.Method]
	if !ok {
		s.fail(m.ID, &failure{codeNoMethod, "there is no method " + m.Method + " here"})
		return
	}
	run := func() { s.reply(m, func() (any, error) { return do(s, m.Params) }) }
	if m.Method == "process/start" || m.Method == "process/write" {
		run()
		return
	}
	select {
	case s.slots <- struct{}{}:
		s.going.Go(func() { defer func() { <-s.slots }(); run() })
	default:
		s.fail(m.ID, &failure{codeInternal, "too many requests are carried out; wait for an answer"})
	}
}

func (s *connection) reply(m message, do func() (any, error)) {
	out, err := do()
	if err != nil {
		s.fail(m.ID, err)
		return
	}
	s.send(map[string]any{"id": m.ID, "result": out})
}

// fail answers with an error. One that does not come from /v1 is internal, without its
// text.
func (s *connection) fail(id json.RawMessage, err error) {
	if id == nil {
		id = json.RawMessage("-1")
	}
	f, ok := errors.AsType[*failure](err)
	if !ok {
		f = &failure{codeInternal, "something went wrong inside"}
		if v, ok := errors.AsType[*compat.Fault](err); ok {
			f.Message = strings.TrimPrefix(string(v.Code)+": ", ": ") + v.Message
			switch {
			case v.Code == sandbox.CodeNotFound && v.About != s.box:
				f.Code = codeNotFound
			case v.Code == sandbox.CodeValidation:
				f.Code = codeParams
			case v.Status < 500:
				f.Code = codeInvalid
			}
		}
	}
	s.send(map[string]any{"id": id, "error": f})
}

// notify sends a notification.
func (s *connection) notify(method string, params any) {
	s.send(map[string]any{"method": method, "params": params})
}

func (s *connection) send(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the translator's own values
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	ctx, done := context.WithTimeout(s.ctx, writeWithin)
	defer done()
	if s.conn.Write(ctx, websocket.MessageText, data) != nil {
		s.end() // the client has gone, or does not read
	}
}

// close ends the connection and its processes.
func (s *connection) close() {
	s.end()
	_ = s.conn.CloseNow() // the client may have closed it
	s.going.Wait()
	ctx, done := context.WithTimeout(context.WithoutCancel(s.ctx), writeWithin)
	defer done()
	for _, p := range s.processes {
		if id := p.started(); id != "" && !p.over() {
			_ = s.Do(ctx, http.MethodDelete, compat.Sandbox(s.box, "/processes/", url.PathEscape(id)), nil, nil, nil) // or it has ended
		}
	}
}

// methods are those of the protocol behind initialize.
var methods = map[string]func(*connection, json.RawMessage) (any, error){
	"environment/info":   func(s *connection, _ json.RawMessage) (any, error) { return environment(), nil },
	"environment/status": func(*connection, json.RawMessage) (any, error) { return map[string]any{}, nil },
	"environmentConfig/read": func(*connection, json.RawMessage) (any, error) {
		none := map[string]any{"layers": []any{}, "cloudInsertionIndex": 0}
		return map[string]any{"userHomeDir": toURI(sandbox.WorkspaceDir), "codexHomeDir": toURI(sandbox.WorkspaceDir + "/.codex"), "hostname": "sandbox", "config": none, "requirements": none}, nil
	},
	"process/start":      (*connection).start,
	"process/read":       (*connection).read,
	"process/write":      (*connection).write,
	"process/signal":     (*connection).signal,
	"process/terminate":  (*connection).terminate,
	"fs/readFile":        (*connection).readFile,
	"fs/writeFile":       (*connection).writeFile,
	"fs/createDirectory": (*connection).createDirectory,
	"fs/getMetadata":     (*connection).getMetadata,
	"fs/canonicalize":    (*connection).canonicalize,
	"fs/readDirectory":   (*connection).readDirectory,
	"fs/remove":          (*connection).remove,
	"fs/copy":            (*connection).copy,
}

func (s *connection) initialize(params json.RawMessage) (any, error) {
	var in struct {
		ClientName      string  `json:"clientName"`
		ResumeSessionID *string `json:"resumeSessionId"`
	}
	if err := decode(params, &in); err != nil {
		return nil, err
	}
	if in.ResumeSessionID != nil {
		s.mu.Lock()
		s.begun = 0
		s.mu.Unlock()
		return nil, &failure{codeInvalid, "a session cannot be resumed: its processes have ended with its connection"}
	}
	return map[string]any{"sessionId": s.box, "environmentInfo": environment()}, nil
}

// environment says where commands run.
func environment() map[string]any {
	return map[string]any{
		"shell": map[string]string{"name": "bash", "path": "/bin/bash"}, "executorVersion": "0.171.0", "cwd": toURI(sandbox.WorkspaceDir),
		"userHomeDir": toURI(sandbox.WorkspaceDir), "platformOs": "linux", "prependPathDirs": []string{}, "temporaryDirectories": []string{},
		"tempDir": toURI("/tmp"), "capabilities": map[string]any{},
	}
}

// decode reads parameters. A field that is not known is left out, as by the protocol's
// own server: versions of it differ.
func decode(params json.RawMessage, v any) error {
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	if err := json.Unmarshal(params, v); err != nil {
		return bad("the parameters are not as the protocol has them: " + err.Error())
	}
	return nil
}

// An inner is a sandbox that Codex asks for inside of this one.
type inner json.RawMessage

// UnmarshalJSON implements [json.Unmarshaler].
func (i *inner) UnmarshalJSON(b []byte) error {
	*i = append((*i)[:0], b...)
	return nil
}

// refuse refuses a sandbox inside: without it the request would do more than Codex
// allows.
func (i inner) refuse() error {
	if len(i) == 0 || string(i) == "null" {
		return nil
	}
	return bad("sandbox: a sandbox inside of this one is not supported; run Codex with --sandbox danger-full-access, and this sandbox is the boundary")
}

// toURI returns a path as the protocol has it.
func toURI(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }
