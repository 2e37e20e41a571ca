package remote

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"sync"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

const handlePath = stream.Prefix + "/handles/{handle}"

// A handle is an open sandbox of a client.
type handle struct {
	h   *Handler
	id  string
	sb  sandbox.Sandbox
	ctx context.Context // ends after the handle was closed
	end context.CancelFunc

	places *places // for its connections

	mu        sync.Mutex
	shells    map[string]sandbox.Shell // by ticket
	opening   int                      // shells that are to be
	opened    sandbox.Files            // set by the first call that needs them
	listeners int
}

// serveOpen serves the socket that keeps a handle.
func (h *Handler) serveOpen(w http.ResponseWriter, r *http.Request) {
	p, err := h.provider(r)
	if err != nil {
		api.Write(w, err)
		return
	}
	h.mu.Lock()
	closed := h.closed
	if !closed {
		h.open.Add(1)
		defer h.open.Done()
	}
	h.mu.Unlock()
	if closed {
		api.Write(w, gone("the daemon stops"))
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it has answered
	}
	t := stream.NewTalk(conn, h.o.Stream)
	// The request's context outlives the hand-over, and ends when the daemon cuts
	// its requests off or the caller's token is revoked.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	places, leave := h.seats.of(h.caller(r))
	defer leave()
	reported := h.keep(ctx, cancel, p, places, t)
	t.End(reported)
}

// keep opens the sandbox that the client asks for and keeps it open until the
// client has gone or asks to close it. It reports whether the client was sent
// the result.
func (h *Handler) keep(ctx context.Context, cancel func(), p sandbox.Provider, places *places, t *stream.Talk) bool {
	var s stream.Spec
	if err := t.Receive(ctx, &s); err != nil {
		return t.Send(stream.Opened{Error: document(err)}) == nil
	}
	asked := make(chan struct{})
	go func() { // the end of the client ends the opening, too
		defer cancel()
		var c stream.Closing
		if t.Receive(context.Background(), &c) == nil && c.Close {
			close(asked)
			_ = t.Receive(context.Background(), &c) // pongs, and the end
		}
	}()
	one, err := h.bring(ctx, p, s, places)
	if err != nil {
		return t.Send(stream.Opened{Error: document(err)}) == nil
	}
	_, dials := one.sb.(sandbox.Dialer)
	_, listens := one.sb.(sandbox.Listener)
	_, files := one.sb.(sandbox.FileServer)
	if t.Send(stream.Opened{Handle: one.id, Box: stream.Box(one.sb.Info()), Dial: dials, Listen: listens, Files: files}) == nil {
		select {
		case <-ctx.Done():
		case <-asked:
		}
	}
	return t.Send(stream.Closed{Error: document(one.close())}) == nil
}

// bring opens the sandbox of s.
func (h *Handler) bring(ctx context.Context, p sandbox.Provider, s stream.Spec, places *places) (one *handle, err error) {
	if err := h.lawful(p, s.Spec.Owner, s.Spec.Provider, s.Spec.Name); err != nil {
		return nil, err
	}
	if err := h.oneMore(); err != nil {
		return nil, err
	}
	defer func() { h.opened(one) }()
	sb, err := p.Open(ctx, s.Whole())
	if err != nil {
		return nil, err
	}
	one = &handle{h: h, id: random(), sb: sb, places: places, shells: map[string]sandbox.Shell{}}
	one.ctx, one.end = context.WithCancel(context.Background())
	return one, nil
}

// oneMore reserves a place for a handle, until opened is called with the result.
func (h *Handler) oneMore() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.handles)+h.opening >= maxHandles {
		return &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "open", Message: "too many sandboxes are open", Retryable: true}
	}
	h.opening++
	return nil
}

// opened stores a handle; nil means that the open failed.
func (h *Handler) opened(one *handle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.opening--
	if one != nil {
		h.handles[one.id] = one
	}
}

// close closes the sandbox, which ends what was started through it, and then
// cancels the requests that still wait for that.
func (o *handle) close() error {
	o.h.mu.Lock()
	delete(o.h.handles, o.id)
	o.h.mu.Unlock()
	defer o.end()
	return o.sb.Close()
}

// find returns the handle that r names. The error for an unknown handle must not
// look like one about the sandbox, which may exist.
func (h *Handler) find(r *http.Request) (*handle, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o := h.handles[r.PathValue("handle")]; o != nil {
		return o, nil
	}
	return nil, gone("the handle is closed")
}

func gone(message string) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "serve walls", Message: message, Hint: "open the sandbox again"}
}

// within returns a reply that calls do with an open sandbox.
func (h *Handler) within(do func(*handle, *http.Request) (any, error)) reply {
	return func(r *http.Request) (any, error) {
		o, err := h.find(r)
		if err != nil {
			return nil, err
		}
		ctx, cancel := o.bound(r)
		defer cancel()
		return do(o, r.WithContext(ctx))
	}
}

// socket returns a handler for a function that answers by itself.
func (h *Handler) socket(do func(*handle, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		o, err := h.find(r)
		if err != nil {
			api.Write(w, err)
			return
		}
		do(o, w, r)
	}
}

// bound returns the request's context, which ends with the handle as well.
func (o *handle) bound(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(o.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

func start(o *handle, w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it has answered
	}
	ctx, done := o.bound(r)
	defer done()
	// Serve sends the error to the client; there is no other receiver for it.
	_ = stream.Serve(ctx, conn, o.h.o.Stream, func(ctx context.Context, q stream.Request, c sandbox.Command) (sandbox.Process, error) {
		if q.Line != "" {
			return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "run", Field: "line", Message: "a line needs a shell"}
		}
		return o.sb.Start(ctx, c)
	})
}

func usage(o *handle, r *http.Request) (any, error) {
	u, err := o.sb.Usage(r.Context())
	return stream.Usage(u), err
}

func document(err error) *api.Document {
	if err == nil {
		return nil
	}
	d := api.Of(err)
	return &d
}

func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // does not fail
	return hex.EncodeToString(b[:])
}
