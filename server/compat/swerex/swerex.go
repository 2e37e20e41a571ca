// Package swerex lets programs use this server that are written for a server of
// SWE-ReX: its RemoteDeployment, and with it SWE-agent and others. It translates: every
// request of that protocol becomes requests of /v1, which it sends to the server in the
// same process with the caller's own token. So tenants, quotas, policy, egress,
// evidence and budgets are those of /v1, and this package decides nothing.
//
// The protocol is HTTP with JSON and a token in the header X-API-Key:
//
//	GET  /is_alive         whether the server answers
//	POST /create_session   open a shell with a name
//	POST /run_in_session   run a command in it, or talk to an interactive program
//	POST /close_session    close it
//	POST /execute          run a command without a shell of its own
//	POST /read_file        read a file as text
//	POST /write_file       write one
//	POST /upload           write a file, or a folder from a zip archive; multipart
//	POST /close            close all shells
//
// These paths are below /swerex/SESSION, where SESSION is that of /v1, and at the root
// for the session that the token is for. An exception of the server is status 511 with
// {"swerexception": …}, which the client raises.
package swerex

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/compat"
)

const (
	prefix    = "/swerex"
	headerKey = "X-API-Key"
)

// Bounds of what clients send and get, in bytes.
const (
	maxJSON   = 16 << 20
	maxUpload = 64 << 20
	maxFile   = 16 << 20 // of read_file
	maxOutput = 8 << 20  // of one command
)

// Options configure a [Translator].
type Options struct {
	// Enabled reports whether the protocol is served; nil is always.
	Enabled func() bool
}

// A Translator serves the protocol. It is safe for concurrent use.
type Translator struct {
	o  Options
	mu sync.Mutex
	// open has the shells that clients have opened, by sandbox and name.
	open map[shellKey]*shell
}

// New returns a Translator.
func New(o Options) *Translator { return &Translator{o: o, open: map[shellKey]*shell{}} }

// A call is one request of the protocol.
type call struct {
	compat.Call
	translator *Translator
	session    string // of /v1; empty leaves it to the token
	box        string // the name of the sandbox, once it is there
}

// operations are those of the protocol, by method and path.
var operations = map[string]func(*call) (any, error){
	"GET /":                func(*call) (any, error) { return map[string]string{"message": "hello world"}, nil },
	"GET /is_alive":        isAlive,
	"POST /create_session": createSession,
	"POST /run_in_session": runInSession,
	"POST /close_session":  closeSession,
	"POST /execute":        execute,
	"POST /read_file":      readFile,
	"POST /write_file":     writeFile,
	"POST /upload":         upload,
	"POST /close":          closeAll,
}

// Claims reports whether a request is one of this protocol. At the root that takes the
// protocol's own header, because other programs may ask for such paths too.
func (d *Translator) Claims(r *http.Request) bool {
	if d.o.Enabled != nil && !d.o.Enabled() {
		return false
	}
	p := r.URL.Path
	if p == prefix || strings.HasPrefix(p, prefix+"/") {
		return true
	}
	_, get := operations["GET "+p]
	_, post := operations["POST "+p]
	return (get || post) && r.Header.Get(headerKey) != ""
}

// Translate answers a request that the translator claims. v1 is the server of /v1.
func (d *Translator) Translate(w http.ResponseWriter, r *http.Request, v1 http.Handler) {
	c := &call{Call: compat.New(w, r, v1, "Bearer "+r.Header.Get(headerKey)), translator: d}
	out, err := c.serve()
	if err != nil {
		c.refuse(err)
		return
	}
	write(w, http.StatusOK, out)
}

func (c *call) serve() (any, error) {
	p := c.R.URL.Path
	if rest, ok := strings.CutPrefix(p, prefix); ok && (rest == "" || rest[0] == '/') {
		name, op, _ := strings.Cut(strings.TrimPrefix(c.R.URL.EscapedPath()[len(prefix):], "/"), "/")
		session, err := url.PathUnescape(name)
		if err != nil || session == "" {
			return nil, &compat.Fault{Status: http.StatusNotFound, Message: "the address of a runtime is " + prefix + "/SESSION"}
		}
		c.session, p = session, "/"+op
	}
	do, ok := operations[c.R.Method+" "+p]
	if ok {
		return do(c)
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if _, ok := operations[method+" "+p]; ok {
			return nil, &compat.Fault{Status: http.StatusMethodNotAllowed, Message: "this path has no method " + c.R.Method, Header: http.Header{"Allow": {method}}}
		}
	}
	return nil, &compat.Fault{Status: http.StatusNotFound, Message: "this server has no such path of the protocol"}
}

// isAlive reports that the caller may use the server. It makes no sandbox, because the
// client waits only for a moment.
func isAlive(c *call) (any, error) {
	if err := c.Do(c.R.Context(), http.MethodGet, api.Prefix+"/sandboxes", url.Values{"limit": {"1"}}, nil, nil); err != nil {
		return nil, err
	}
	return map[string]any{"is_alive": true, "message": ""}, nil
}

// sandbox makes the sandbox of the call ready.
func (c *call) sandbox() error {
	var made api.Sandbox
	if err := c.Do(c.R.Context(), http.MethodPost, api.Prefix+"/sandboxes", nil, api.CreateSandbox{Session: c.session}, &made); err != nil {
		return err
	}
	c.box = made.Name
	return nil
}

// body reads the body of a request, which is JSON. A field that the protocol has not is
// left out, as the protocol's own server does.
func (c *call) body(v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(c.W, c.R.Body, maxJSON))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return unprocessable("the body is not as the protocol has it: " + err.Error())
	}
	return nil
}

// A raised is an exception of the protocol.
type raised struct {
	class   string
	message string
	extra   map[string]any
}

func (e *raised) Error() string { return e.message }

// Classes of exceptions that clients have.
const (
	classAny      = "swerex.exceptions.SwerexException"
	classExit     = "swerex.exceptions.NonZeroExitCodeError"
	classNoExit   = "swerex.exceptions.NoExitCodeError"
	classSyntax   = "swerex.exceptions.BashIncorrectSyntaxError"
	classTimeout  = "swerex.exceptions.CommandTimeoutError"
	classExists   = "swerex.exceptions.SessionExistsError"
	classNone     = "swerex.exceptions.SessionDoesNotExistError"
	classNotFound = "builtins.FileNotFoundError"
	classDenied   = "builtins.PermissionError"
	classFolder   = "builtins.IsADirectoryError"
	classValue    = "builtins.ValueError"
)

func raise(class, message string) *raised { return &raised{class: class, message: message} }

func unprocessable(message string) *compat.Fault {
	return &compat.Fault{Status: http.StatusUnprocessableEntity, Message: message}
}

// refuse answers with an error: an exception where the client can raise it, and else
// the status with a detail.
func (c *call) refuse(err error) {
	if e, ok := errors.AsType[*raised](err); ok {
		c.raise(e)
		return
	}
	f, ok := errors.AsType[*compat.Fault](err)
	switch {
	case ok && f.Code != "" && f.Status != http.StatusUnauthorized:
		c.raise(&raised{class: classAny, message: string(f.Code) + ": " + f.Message, extra: map[string]any{"code": f.Code, "field": f.Field, "status": f.Status}})
		return
	case ok:
	default:
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			f = &compat.Fault{Status: http.StatusRequestEntityTooLarge, Message: "the body of the request is too large"}
		} else {
			f = &compat.Fault{Status: http.StatusInternalServerError, Message: "something went wrong inside"}
		}
	}
	for name, values := range f.Header {
		c.W.Header()[name] = values
	}
	write(c.W, f.Status, map[string]string{"detail": f.Message})
}

func (c *call) raise(e *raised) {
	if e.extra == nil {
		e.extra = map[string]any{}
	}
	write(c.W, http.StatusNetworkAuthenticationRequired, map[string]any{"swerexception": map[string]any{
		"message": e.message, "class_path": e.class, "traceback": "", "extra_info": e.extra,
	}})
}

// fileError makes an error of /v1 about a file the exception that Python has for it.
func fileError(err error) error {
	f, ok := errors.AsType[*compat.Fault](err)
	if !ok {
		return err
	}
	switch f.Code {
	case sandbox.CodeNotFound:
		return raise(classNotFound, f.Message)
	case sandbox.CodeCapabilityBlocked, sandbox.CodeDenyTool, sandbox.CodePermissionDeny:
		return raise(classDenied, f.Message)
	case sandbox.CodeValidation:
		return raise(classFolder, f.Message)
	}
	return err
}

// write answers with JSON.
func write(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the translator's own values
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(data) // an error means that the client has gone
}
