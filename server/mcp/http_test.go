package mcp_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	servermcp "github.com/bulkhead-dev/sandbox/server/mcp"
	"github.com/bulkhead-dev/sandbox/tenant"
)

// serve serves over HTTP. The headers of a request name its caller.
func (r *rig) serve() (*httptest.Server, *servermcp.Handler) {
	r.t.Helper()
	h := r.Handler(func(q *http.Request) (servermcp.Binding, error) {
		caller := q.Header.Get("Caller")
		if caller == "" {
			return servermcp.Binding{}, &sandbox.Error{Code: sandbox.CodePermissionDeny, Message: "who are you"}
		}
		b := bound("default")
		b.Caller = caller
		if caller == "lost" {
			b.Watch = func(ctx context.Context) (context.Context, func()) {
				ctx, cancel := context.WithCancelCause(ctx)
				undo := context.AfterFunc(r.lost, func() {
					cancel(&sandbox.Error{Code: sandbox.CodePermissionDeny, Message: "the token is not good any more"})
				})
				return ctx, func() { undo(); cancel(nil) }
			}
		}
		b.Who.Tenant = cmp.Or(q.Header.Get("Tenant"), b.Who.Tenant)
		if s := q.Header.Get("Session"); s != "" {
			b.Who.Session = s
		}
		return b, nil
	})
	s := httptest.NewServer(h)
	r.t.Cleanup(func() {
		must(r.t, h.Close())
		s.Close()
	})
	return s, h
}

// headers adds headers to every request.
type headers map[string]string

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for k, v := range h {
		r.Header.Set(k, v)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func (r *rig) dial(s *httptest.Server, h headers) (*mcp.ClientSession, error) {
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(deadline(r.t),
		&mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: &http.Client{Transport: h}, MaxRetries: -1}, nil)
	if err == nil {
		r.t.Cleanup(func() {
			c.Close()
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		})
	}
	return c, err
}

// TestHalvesOverHTTP holds that an escape of half a character is refused
// anywhere in a message, and that one of a whole character is not.
func TestHalvesOverHTTP(t *testing.T) {
	r := newRig(t, settingsWith(""))
	s, _ := r.serve()
	for text, want := range map[string]int{`\ud800`: http.StatusUnprocessableEntity, `\ud83d\ude00`: http.StatusOK} {
		body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"` + text + `","version":"1"}}}`
		q, err := http.NewRequestWithContext(deadline(t), http.MethodPost, s.URL, strings.NewReader(body))
		must(t, err)
		for k, v := range map[string]string{"Caller": "a", "Session": "s", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
			q.Header.Set(k, v)
		}
		a, err := http.DefaultClient.Do(q)
		must(t, err)
		a.Body.Close()
		if a.StatusCode != want {
			t.Errorf("%s: %d, want %d", text, a.StatusCode, want)
		}
	}
}

// TestCallsEndWithTheirCaller holds that a call, which outlasts its HTTP
// request, does not outlast the rights of its caller, and neither does the
// session.
func TestCallsEndWithTheirCaller(t *testing.T) {
	r := newRig(t, settingsWith(""))
	var lose func()
	r.lost, lose = context.WithCancel(context.Background())
	defer lose()
	s, h := r.serve()
	begun := make(chan *mcp.CallToolResult, 2)
	for _, caller := range []string{"lost", "kept"} {
		c, err := r.dial(s, headers{"Caller": caller, "Session": caller})
		must(t, err)
		if res := call(t, c, "exec", `{"command":"echo hello"}`); !strings.Contains(text(res), "hello") {
			t.Fatalf("control: %q", text(res))
		}
		ctx := deadline(t)
		go func() {
			res, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "sleep 1000"}})
			if caller == "lost" || err != nil {
				begun <- res
			}
		}()
	}
	testenv.Until(t, "both run", func() bool { return r.inside("sleep 1000") == 2 })
	select {
	case res := <-begun:
		t.Fatalf("control: it ends by itself: %+v", res)
	default:
	}
	lose()
	select {
	case res := <-begun:
		if res == nil || !res.IsError {
			t.Errorf("%+v", res)
		}
	case <-time.After(time.Minute):
		t.Error("the call goes on")
	}
	testenv.Until(t, "it is the one session", func() bool { return h.Open() == 1 })
}

// TestRefusalsSayWhen holds that the refusal of a session contains a time to
// retry, where a retry helps.
func TestRefusalsSayWhen(t *testing.T) {
	r := newRig(t, settingsWith(""))
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"requests":       {(&tenant.Exceeded{Quota: "requests", RetryAfter: 2500 * time.Millisecond}).Wrap("serve"), "3"},
		"sandboxes":      {(&tenant.Exceeded{Quota: "sandboxes", Limit: 1, Used: 1, Want: 1}).Wrap("serve"), ""},
		"down":           {&sandbox.Error{Code: sandbox.CodeUnavailable, Retryable: true}, "1"},
		"down for good":  {&sandbox.Error{Code: sandbox.CodeUnavailable}, ""},
		"too much":       {&sandbox.Error{Code: sandbox.CodeBudgetExceeded}, ""},
		"busy":           {&sandbox.Error{Code: sandbox.CodeBusy, Retryable: true}, ""},
		"no such caller": {&sandbox.Error{Code: sandbox.CodePermissionDeny}, ""},
	} {
		h := r.Handler(func(*http.Request) (servermcp.Binding, error) { return servermcp.Binding{}, tt.err })
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/mcp", nil))
		if got := w.Header().Get("Retry-After"); got != tt.want || w.Code != sandbox.CodeOf(tt.err).HTTPStatus() {
			t.Errorf("%s: status %d, Retry-After %q, want %q", name, w.Code, got, tt.want)
		}
		must(t, h.Close())
	}
}

func TestHTTP(t *testing.T) {
	r := newRig(t, settingsWith(""))
	s, h := r.serve()
	c, err := r.dial(s, headers{"Caller": "alice"})
	must(t, err)
	if res := call(t, c, "exec", `{"command":"echo hello"}`); !strings.Contains(text(res), "hello") {
		t.Errorf("%q", text(res))
	}
	if _, err := r.dial(s, headers{}); err == nil {
		t.Error("somebody without a name got a session")
	}
	if n := h.Open(); n != 1 {
		t.Errorf("%d sessions are open", n)
	}
	must(t, c.Close())
	testenv.Until(t, "the session goes", func() bool { return h.Open() == 0 })
}

// TestSessionsBelongToTheirCallers holds that the id of a session is of no use
// to another caller, nor to the same caller for another sandbox session.
func TestSessionsBelongToTheirCallers(t *testing.T) {
	r := newRig(t, settingsWith(""))
	s, h := r.serve()
	c, err := r.dial(s, headers{"Caller": "alice"})
	must(t, err)
	const list = `{"jsonrpc":"2.0","id":9,"method":"tools/list"}`
	try := func(method, id string, head headers) (int, string) {
		q, err := http.NewRequest(method, s.URL, strings.NewReader(list))
		must(t, err)
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept", "application/json, text/event-stream")
		if id != "" {
			q.Header.Set("Mcp-Session-Id", id)
		}
		res, err := (&http.Client{Transport: head}).Do(q)
		must(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		must(t, err)
		return res.StatusCode, string(body)
	}
	if status, body := try("POST", c.ID(), headers{"Caller": "alice"}); status != 200 || !strings.Contains(body, "exec") {
		t.Fatalf("the caller: %d %q", status, body)
	}
	for _, method := range []string{"POST", "GET", "DELETE"} {
		_, never := try(method, strings.Repeat("A", len(c.ID())), headers{"Caller": "mallory"})
		for name, head := range map[string]headers{
			"another": {"Caller": "mallory"}, "the same for another session": {"Caller": "alice", "Session": "other"},
		} {
			if status, body := try(method, c.ID(), head); status != 404 || body != never {
				t.Errorf("%s by %s: %d %q, not %q", method, name, status, body, never)
			}
		}
		if status, _ := try(method, c.ID(), headers{}); status != 403 {
			t.Errorf("%s by nobody: %d", method, status)
		}
		if status, body := try(method, "", headers{"Caller": "alice"}); status != 400 && (method != "POST" || strings.Contains(body, "exec")) {
			t.Errorf("%s without a session: %d %q", method, status, body)
		}
	}
	if n := h.Open(); n != 1 {
		t.Errorf("%d sessions are open", n)
	}
	if status, _ := try("POST", c.ID(), headers{"Caller": "alice"}); status != 200 {
		t.Errorf("afterwards: %d", status)
	}
}

func TestHTTPSessionsAreBounded(t *testing.T) {
	r := newRig(t, settingsWith(""), func(o *servermcp.Options) { o.PerCaller, o.PerSession, o.PerTenant, o.Sessions = 2, 3, 3, 3 })
	s, h := r.serve()
	open := func(caller string) error {
		_, err := r.dial(s, headers{"Caller": caller})
		return err
	}
	must(t, open("alice"))
	must(t, open("alice"))
	if err := open("alice"); err == nil {
		t.Error("a caller has more than its sessions")
	}
	must(t, open("bob"))
	if err := open("carol"); err == nil {
		t.Error("there are more than all sessions")
	}
	must(t, h.Close())
	testenv.Until(t, "no session is open after the end", func() bool { return h.Open() == 0 }) // one may still be in its first request
	if err := open("bob"); err == nil {
		t.Error("a session was opened after the end")
	}
}

// TestTenantsLeaveRoom holds that a tenant with many tokens has no more sessions
// than one tenant may have, so that there is room for others.
func TestTenantsLeaveRoom(t *testing.T) {
	r := newRig(t, settingsWith(""), func(o *servermcp.Options) { o.PerCaller, o.PerSession, o.PerTenant, o.Sessions = 2, 3, 3, 100 })
	s, _ := r.serve()
	opened := 0
	for i := range 6 {
		if _, err := r.dial(s, headers{"Caller": fmt.Sprint("token ", i), "Tenant": "greedy"}); err == nil {
			opened++
		}
	}
	if opened != 3 {
		t.Errorf("one tenant has %d sessions", opened)
	}
	if _, err := r.dial(s, headers{"Caller": "bob", "Tenant": "other"}); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}

// TestSessionsLeaveRoom holds that one session of a tenant, whose agent can make
// further tokens, leaves room for the tenant's other sessions.
func TestSessionsLeaveRoom(t *testing.T) {
	r := newRig(t, settingsWith(""), func(o *servermcp.Options) { o.PerCaller, o.PerSession, o.PerTenant = 2, 3, 100 })
	s, _ := r.serve()
	opened := 0
	for i := range 6 {
		if _, err := r.dial(s, headers{"Caller": fmt.Sprint("token ", i), "Session": "greedy"}); err == nil {
			opened++
		}
	}
	if opened != 3 {
		t.Errorf("one session has %d", opened)
	}
	if _, err := r.dial(s, headers{"Caller": "bob", "Session": "other"}); err != nil {
		t.Errorf("another session: %v", err)
	}
}

// TestSessionThatBeginsTooLate holds that a session whose first request ends
// after the handler was closed does not stay.
func TestSessionThatBeginsTooLate(t *testing.T) {
	r := newRig(t, settingsWith(""))
	s, h := r.serve()
	body, write := io.Pipe()
	q, err := http.NewRequestWithContext(deadline(t), http.MethodPost, s.URL, body)
	must(t, err)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	q.Header.Set("Caller", "alice")
	ended := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(q)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		ended <- err
	}()
	testenv.Until(t, "the session begins", func() bool { return h.Open() == 1 })
	must(t, h.Close())
	_, err = io.WriteString(write, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	must(t, err)
	must(t, write.Close())
	<-ended // however that ends; goleak holds that nothing of it is left
	testenv.Until(t, "the session goes", func() bool { return h.Open() == 0 })
}
