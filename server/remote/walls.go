// This file serves the providers of this machine to programs on other machines
// that have their own orchestrator: sandbox.Provider over HTTP. Package
// client has the client. The service is for administrators alone: its callers can
// make sandboxes of any kind that the hardening rules accept, and mount any
// folder that the rules do not refuse. The handler checks no caller; the server
// that mounts it does.
//
//	GET    /v1/walls/providers                               names and features
//	GET    …/providers/{provider}/sandboxes?instance&tenant&kind&name
//	POST   …/providers/{provider}/sandboxes                  a Spec: create
//	GET    …/providers/{provider}/sandbox?name               inspect
//	DELETE …/providers/{provider}/sandbox?name
//	POST   …/providers/{provider}/sandbox/pause?name, …/unpause?name
//	POST   …/providers/{provider}/probe
//	DELETE …/calls/{call}                                    cancels the call that HeaderCall named
//	GET    …/providers/{provider}/open                       WebSocket: a Spec, then Opened; the handle
//	GET    …/handles/{handle}/start                          WebSocket of package stream
//	POST   …/handles/{handle}/shells, DELETE …/shells/{ticket}
//	GET    …/handles/{handle}/shells/{ticket}/run            WebSocket of package stream
//	GET    …/handles/{handle}/usage
//	GET    …/handles/{handle}/dial?network&addr              WebSocket of stream.Conn
//	GET    …/handles/{handle}/listen?network&addr            WebSocket of stream.ServeForward
//	       …/handles/{handle}/files/…                        remote files, see package resource
//
// A handle lives as long as its WebSocket and no longer: when the client's
// connection ends, for any reason, its commands end. Handles are random, so that
// only the client that opened one can use it.
//
// # Owners
//
// A Spec names the instance that owns the sandbox. The daemon's own orchestrator
// takes a sandbox that carries its instance and is not in its records for an
// orphan, and removes it; so a remote orchestrator must have another instance,
// and one that the daemon was configured with ([Options.Instances]). The
// sandboxes of other instances can be listed and inspected, as `list --foreign`
// shows them, but not created, opened, paused, unpaused or removed. To take over
// what another installation has left (to adopt it) is therefore a decision of
// the operator of the daemon, who declares its instance.
//
// # Connections
//
// Dialled addresses and listeners are inside the sandbox, and use the sandbox's
// own functions for them; the handler opens no port or socket of the host.
// Connections that a listener accepts come from a program in the sandbox, so the
// number of connections is bounded for one open sandbox, for one caller, and in
// all. Dialling beyond that is CodeBudgetExceeded, and incoming connections
// wait. A listener ends with its handle, and with the client.

package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// Bounds of what clients can open.
const (
	maxHandles   = 4096
	maxShells    = 256     // of one handle
	maxListeners = 64      // of one handle
	maxBody      = 4 << 20 // of a Spec
)

// Options configure a handler.
type Options struct {
	Providers *provider.Set

	// Instances reports whether sandboxes of that instance may be made and
	// changed here. Nil is none.
	Instances func(instance string) bool

	// Caller returns the caller of a request, for the bounds that apply to each
	// caller. Nil treats all requests as one caller's.
	Caller func(*http.Request) string

	// Connections bounds the open connections; zero values are defaults.
	Connections Connections

	Stream stream.Options
}

// A Handler is an http.Handler for all paths below [stream.Prefix]. It is safe for
// concurrent use.
type Handler struct {
	o   Options
	mux *http.ServeMux

	ctx context.Context // ends with Close
	end context.CancelFunc

	mu      sync.Mutex
	handles map[string]*handle
	opening int                           // handles that are to be
	calls   map[string]context.CancelFunc // by the value of HeaderCall
	open    sync.WaitGroup
	closed  bool

	seats *seats
}

// NewWalls returns a handler. Close ends what it has open.
func NewWalls(o Options) *Handler {
	h := &Handler{o: o, mux: http.NewServeMux(), handles: map[string]*handle{}, calls: map[string]context.CancelFunc{}, seats: newSeats(o.Connections)}
	h.ctx, h.end = context.WithCancel(context.Background())
	h.routes()
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(stream.HeaderWalls, "1")
	h.mux.ServeHTTP(w, r)
}

// Close closes all handles, which ends their commands, and waits for that.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.end()
	h.open.Wait()
	return nil
}

// A reply carries out one request and returns what is answered as JSON; nil is
// 204.
type reply func(r *http.Request) (any, error)

func (h *Handler) routes() {
	const one = stream.Prefix + "/providers/{provider}"
	for pattern, do := range map[string]reply{
		"GET " + stream.Prefix + "/providers":       h.list,
		"DELETE " + stream.Prefix + "/calls/{call}": h.callOff,
		"POST " + one + "/probe":                    h.probe,
		"GET " + one + "/sandboxes":                 h.boxes,
		"POST " + one + "/sandboxes":                h.create,
		"GET " + one + "/sandbox":                   h.inspect,
		"DELETE " + one + "/sandbox":                h.change(sandbox.Provider.Remove),
		"POST " + one + "/sandbox/pause":            h.change(pause),
		"POST " + one + "/sandbox/unpause":          h.change(unpause),
		"GET " + handlePath + "/usage":              h.within(usage),
		"POST " + handlePath + "/shells":            h.within(openShell),
		"DELETE " + handlePath + "/shells/{ticket}": h.within(closeShell),
	} {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			v, err := do(r)
			api.Answer(w, v, err)
		})
	}
	h.mux.HandleFunc("GET "+one+"/open", h.serveOpen)
	h.mux.HandleFunc("GET "+handlePath+"/start", h.socket(start))
	h.mux.HandleFunc("GET "+handlePath+"/shells/{ticket}/run", h.socket(runLine))
	h.mux.HandleFunc("GET "+handlePath+"/dial", h.socket(dial))
	h.mux.HandleFunc("GET "+handlePath+"/listen", h.socket(listen))
	resource.Mount(h.mux, handlePath+"/files", h.files, nil)
	h.mux.HandleFunc(stream.Prefix+"/", func(w http.ResponseWriter, _ *http.Request) {
		api.Write(w, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "find route", Message: "there is no such route"})
	})
}

// body reads the request's JSON into v.
func body(r *http.Request, v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "read request", Message: "the body is too large", Err: large}
	}
	if err == nil && jsonschema.HasHalf(data) {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "read request", Message: "the body has an escape that is half a character"}
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err == nil {
		err = d.Decode(v)
	}
	if err != nil {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "read request", Message: "the body is no JSON that is understood here: " + err.Error()}
	}
	return nil
}
