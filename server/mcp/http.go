package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
	"github.com/bulkhead-dev/sandbox/tenant"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// sessionHeader is the header in which a request names its session.
const sessionHeader = "Mcp-Session-Id"

// maxBody is the longest message of a client over HTTP, in bytes.
const maxBody = schema.MaxInput + 64<<10

// A Handler serves the protocol over streamable HTTP. It has to be closed.
type Handler struct {
	*Server
	bind  func(*http.Request) (Binding, error)
	inner *mcp.StreamableHTTPHandler

	waits sync.WaitGroup // for the open sessions

	mu   sync.Mutex
	open map[string]*guest // by the id of the session
	over bool
}

// A guest is a session over HTTP.
type guest struct {
	*session
	id string
}

// Handler returns a handler that serves the protocol over HTTP. It calls bind
// for every request to find the session that the request belongs to. Caller and
// Who of the result have to be the same for all requests of one session: a
// request with others is answered as if the session did not exist. An error of
// bind is answered with the status of its code.
func (s *Server) Handler(bind func(*http.Request) (Binding, error)) *Handler {
	h := &Handler{Server: s, bind: bind, open: map[string]*guest{}}
	h.inner = mcp.NewStreamableHTTPHandler(serverOf, &mcp.StreamableHTTPOptions{
		Logger: s.quiet(), SessionTimeout: s.o.Idle, MaxRequestBodyBytes: maxBody,
		DisableLocalhostProtection: true, // pages of a browser cannot send what bind requires
	})
	return h
}

type guestKey struct{}

// serverOf returns the server of the session that ServeHTTP has found or made.
func serverOf(r *http.Request) *mcp.Server {
	if g, ok := r.Context().Value(guestKey{}).(*guest); ok {
		return g.server
	}
	return nil
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := h.bind(r)
	if err != nil {
		h.refuse(w, err)
		return
	}
	if r.Method != http.MethodPost && r.Header.Get(sessionHeader) == "" {
		h.inner.ServeHTTP(w, r) // which refuses it
		return
	}
	g, err := h.find(r, b)
	if err != nil {
		h.refuse(w, err)
		return
	}
	if r.Header.Get(sessionHeader) == "" {
		defer h.settle(g) // also when the request ends by a panic
	}
	if err := whole(r); err != nil {
		h.refuse(w, err)
		return
	}
	// The SDK calls tools with the context of the request that began the session.
	// The header is the way from a request to its calls.
	id := rand.Text()
	r.Header.Set(requestHeader, id)
	h.requests.Store(id, r.Context())
	defer h.requests.Delete(id)
	h.inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), guestKey{}, g)))
}

// requestHeader is the header of our own that names a request to the SDK. One of a
// client is replaced.
const requestHeader = "X-Sandbox-Mcp-Request"

// whole returns an error where the body of r has an escape that is half a
// character, and leaves the body for the next reader, which refuses bodies
// longer than maxBody.
func whole(r *http.Request) error {
	if r.Method != http.MethodPost {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "read request", Message: "the body cannot be read", Err: err}
	}
	if jsonschema.HasHalf(data) {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "read request", Message: "the message has an escape that is half a character"}
	}
	r.Body = rest{io.MultiReader(bytes.NewReader(data), r.Body), r.Body}
	return nil
}

// rest is a body whose beginning was read and put back.
type rest struct {
	io.Reader
	io.Closer
}

// refuse answers a request that gets no session.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	p := s.problem(err)
	if after := tenant.RetrySeconds(err); after > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(after, 10))
	}
	http.Error(w, string(p.Code)+": "+p.Message, p.Code.HTTPStatus())
}

// find returns the session that a request names, if it belongs to the caller, or
// makes one for a request that names none.
func (h *Handler) find(r *http.Request, b Binding) (*guest, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := r.Header.Get(sessionHeader)
	if id != "" {
		g := h.open[id]
		if g == nil || g.bound.Caller != b.Caller || g.bound.Who != b.Who {
			return nil, &sandbox.Error{Code: sandbox.CodeNotFound, Op: "session", Message: "session not found"}
		}
		return g, nil
	}
	mine, same, ours := 0, 0, 0
	for _, g := range h.open {
		if g.bound.Caller == b.Caller {
			mine++
		}
		if g.bound.Who.Tenant == b.Who.Tenant {
			ours++
			if g.bound.Who == b.Who {
				same++
			}
		}
	}
	switch {
	case h.over:
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "session", Retryable: true, Message: "the program ends"}
	case ours >= h.o.PerTenant || same >= h.o.PerSession || mine >= h.o.PerCaller:
		return nil, &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "session", Message: "too many sessions of the caller or its tenant are open", Hint: "end some of them"}
	case len(h.open) >= h.o.Sessions:
		return nil, &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "session", Retryable: true, Message: "too many sessions are open"}
	}
	g := &guest{id: rand.Text()}
	var err error
	if g.session, err = h.session(b, func() string { return g.id }); err != nil {
		return nil, err
	}
	h.open[g.id] = g
	return g, nil
}

// settle keeps the session that its first request has begun until it ends, and
// forgets a session that did not begin, or began too late for Close to end it.
func (h *Handler) settle(g *guest) {
	for peer := range g.server.Sessions() {
		if !h.keep(g, peer) {
			_ = peer.Close() // Close has begun
			break
		}
		return
	}
	h.forget(g)
}

// keep registers a session so that Close ends it and waits for it. It returns
// false when Close was called already.
func (h *Handler) keep(g *guest, peer *mcp.ServerSession) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return false
	}
	h.waits.Go(func() { h.end(g, peer) })
	return true
}

// end waits for the end of a session, and ends it at the latest when its
// caller's token is no longer valid.
func (h *Handler) end(g *guest, peer *mcp.ServerSession) {
	undo := context.AfterFunc(g.open, func() { peer.Close() })
	_ = peer.Wait() // however it ends
	undo()
	h.forget(g)
}

func (h *Handler) forget(g *guest) {
	h.mu.Lock()
	delete(h.open, g.id)
	h.mu.Unlock()
	g.end()
}

// Close refuses new sessions and ends the open ones, with their calls. A session
// whose first request is under way ends with that request: it may be half made,
// and the SDK cannot end such a session.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.over = true
	all := slices.Collect(maps.Values(h.open))
	h.mu.Unlock()
	for _, g := range all {
		g.end()
	}
	h.waits.Wait()
	return nil
}
