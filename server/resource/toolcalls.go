// This file holds the resource that lists the tools of a session and calls them,
// as an agent would.

package resource

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
	"github.com/bulkhead-dev/sandbox/tools"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// toolcallsKits makes the tools of sessions; *tools.Tools is one.
type toolcallsKits interface {
	For(ctx context.Context, s tools.Session) (*tools.Kit, error)
}

// A toolcallsResource has the routes.
type toolcallsResource struct {
	finder Finder
	kits   toolcallsKits
}

// NewToolCalls returns the resource.
func NewToolCalls(finder Finder, kits toolcallsKits) toolcallsResource {
	return toolcallsResource{finder, kits}
}

// Routes implements [Resource].
func (s toolcallsResource) Routes() []Route {
	const tag, path = "tools", "/v1/sandboxes/{name}/tools"
	ask := Param{Name: "ask", Type: Boolean, Doc: "Ask for an approval where a rule stops it that an approval opens, see /v1/approvals"}
	sub := Param{Name: "subagent", Type: Boolean, Doc: "A sub-agent asks, for which there is a stricter list"}
	return takingSettings([]Route{
		{ID: "listTools", Method: "GET", Path: path, Tag: tag, Role: token.Session, Summary: "List the tools of the session", Response: api.ToolList{}, Do: s.list},
		{
			ID: "callTool", Method: "POST", Path: path + "/{tool}", Tag: tag, Role: token.Session, Summary: "Call a tool",
			Doc:     "The body is the tool's input, see inputSchema. With Accept: text/event-stream the answer is a stream that tells how far the tool is, and ends with its answer.",
			Request: map[string]any{}, Response: api.ToolAnswer{}, Query: []Param{ask, sub}, Body: schema.MaxInput, Timeout: Endless, Stream: true,
			Events: []Event{
				{Name: api.EventProgress, Data: api.ToolProgress{}, Doc: "How far it is"},
				{Name: api.EventAnswer, Data: api.ToolAnswer{}, Doc: "What it has to say; the last event"},
				{Name: api.EventError, Data: api.Problem{}, Doc: "Why it has nothing to say; the last event"},
			},
			Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusNotImplemented, http.StatusGatewayTimeout}, Do: s.call,
		},
	})
}

// kit returns the tools of the sandbox's session.
func (s toolcallsResource) kit(c *Call) (*tools.Kit, error) {
	at, err := Sandboxed(c, s.finder)
	if err != nil {
		return nil, err
	}
	if c.Settings != nil && c.Path("tool") == "browser" {
		// The browser of a session is one for all its calls.
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "browser", Field: api.HeaderSettings, Message: "a browser has the settings of its session alone", Hint: "leave the settings of the call out"}
	}
	return s.kits.For(c.Context(), tools.Session{Who: at.Who, Flags: c.Settings, Ask: c.True("ask"), Subagent: c.True("subagent")})
}

func (s toolcallsResource) list(c *Call) (any, error) {
	kit, err := s.kit(c)
	if err != nil {
		return nil, err
	}
	out := api.ToolList{Items: []api.Tool{}}
	for _, t := range kit.Tools() {
		out.Items = append(out.Items, api.Tool{
			Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.Schema(), OutputSchema: t.OutputSchema(),
			ReadOnly: t.ReadOnly, Destructive: t.Destructive, Idempotent: t.Idempotent, OpenWorld: t.OpenWorld,
		})
	}
	return out, nil
}

func (s toolcallsResource) call(c *Call) (any, error) {
	input, err := c.Raw()
	if err != nil {
		return nil, err
	}
	kit, err := s.kit(c)
	if err != nil {
		return nil, err
	}
	release, err := c.Admitted(c.Context())
	if err != nil {
		return nil, err
	}
	defer release()
	if !c.Accepts(api.ContentEvents) {
		a, err := kit.Call(c.Context(), c.Path("tool"), input, nil)
		if err != nil {
			return nil, err
		}
		return answer(a)
	}
	p := &progress{c: c}
	a, err := kit.Call(c.Context(), c.Path("tool"), input, p.tell)
	if err != nil && !p.begun() {
		return nil, err
	}
	var reported api.ToolAnswer
	if err == nil {
		reported, err = answer(a)
	}
	e := p.begin()
	defer e.Close()
	if err != nil {
		_ = e.Send(api.EventError, c.Problem(c.Why(err))) // or the caller has gone
		return Sent{}, nil
	}
	_ = e.Send(api.EventAnswer, reported) // as above, or there is no room for it and the answer is cut
	return Sent{}, nil
}

// answer returns the answer of a tool in the form for callers.
func answer(a tools.Answer) (api.ToolAnswer, error) {
	out := api.ToolAnswer{Text: a.Text, Pictures: []api.Picture{}, Failed: a.Failed}
	for _, p := range a.Pictures {
		out.Pictures = append(out.Pictures, api.Picture{MIME: p.MIME, Data: p.Data})
	}
	if a.Data == nil {
		return out, nil
	}
	data, err := json.Marshal(a.Data)
	out.Data = data
	return out, err
}

// progress sends how far a tool is.
type progress struct {
	c      *Call
	mu     sync.Mutex
	events *Events // nil until there is an event to send
}

func (p *progress) begun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events != nil
}

func (p *progress) begin() *Events {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.events == nil {
		p.events = p.c.Events()
	}
	return p.events
}

func (p *progress) tell(t tools.Progress) {
	_ = p.begin().Send(api.EventProgress, api.ToolProgress{Message: t.Message, Bytes: t.Bytes, Lines: t.Lines}) // the request's context ends when the client has gone
}
