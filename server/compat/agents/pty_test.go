package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A shell is a server of /v1 with one process, whose events the test sends.
type shell struct {
	t      *testing.T
	events chan string // an empty one ends the stream
	gone   chan struct{}
	once   sync.Once

	mu       sync.Mutex
	requests []string
	state    string
	refuse   sandbox.Code // every request but the first
}

func newShell(t *testing.T) (*shell, string) {
	s := &shell{t: t, events: make(chan string, 16), gone: make(chan struct{}), state: "running"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { New(Options{}).Translate(w, r, s) }))
	t.Cleanup(server.Close)
	return s, server.URL
}

func (s *shell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+strings.TrimPrefix(r.URL.Path, "/v1/sandboxes/"+aName)+" "+string(body))
	state, refuse := s.state, s.refuse
	s.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") != aToken:
		problem(w, sandbox.CodePermissionDeny, "")
	case r.Method == http.MethodGet:
		fmt.Fprintf(w, `{"id":"p1","state":%q}`, state)
	case !strings.HasSuffix(r.URL.Path, "/exec/stream"):
		if refuse != "" && r.Method == http.MethodPost {
			problem(w, refuse, "p1")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case refuse == sandbox.CodeDenyTool:
		problem(w, refuse, "sh")
	default:
		defer s.once.Do(func() { close(s.gone) })
		for {
			select {
			case e := <-s.events:
				if e == "" {
					return
				}
				if _, err := io.WriteString(w, e); err != nil {
					return
				}
			case <-r.Context().Done():
				return
			}
		}
	}
}

func (s *shell) send(event string, v any) {
	s.events <- "event: " + event + "\ndata: " + string(marshal(v)) + "\n\n"
}

// until waits for a request.
func (s *shell) until(want string) {
	s.t.Helper()
	testenv.Until(s.t, "the request "+want, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Contains(s.requests, want)
	})
}

func (s *shell) dial(base, query string, header http.Header) (*websocket.Conn, *http.Response, error) {
	if header == nil {
		header = http.Header{"Authorization": {aToken}}
	}
	c, r, err := websocket.Dial(s.t.Context(), base+at("/pty"+query), &websocket.DialOptions{HTTPHeader: header})
	if err == nil {
		c.SetReadLimit(1 << 20)
		s.t.Cleanup(func() { c.CloseNow() })
	}
	return c, r, err
}

func (s *shell) read(c *websocket.Conn) (websocket.MessageType, string) {
	s.t.Helper()
	ctx, done := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer done()
	kind, data, err := c.Read(ctx)
	if err != nil {
		return 0, err.Error()
	}
	return kind, string(data)
}

func (s *shell) reads(c *websocket.Conn, kind websocket.MessageType, want string) {
	s.t.Helper()
	if k, got := s.read(c); k != kind || got != want {
		s.t.Fatalf("%v %q, not %v %q", k, got, kind, want)
	}
}

// TestPTY drives a terminal from the handshake to its exit.
func TestPTY(t *testing.T) {
	s, base := newShell(t)
	s.events <- ":\n\n"
	s.send(api.EventProcess, api.Process{ID: "p1", State: "running", TTY: true})
	c, _, err := s.dial(base, "?cols=100&rows=30", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.reads(c, websocket.MessageText, `{"type":"ready"}`)
	s.mu.Lock()
	var started api.ExecStream
	if err := json.Unmarshal([]byte(strings.SplitN(s.requests[0], " ", 3)[2]), &started); err != nil || started.TTY == nil || started.TTY.Cols != 100 || started.TTY.Rows != 30 || started.Background || !started.StdinOpen || !slices.Equal(started.Args, []string{"/bin/bash", "-i"}) {
		t.Errorf("%+v, %v", started, err)
	}
	s.mu.Unlock()
	s.send(api.EventStdout, api.Output{Text: "$ ä"})
	s.reads(c, websocket.MessageBinary, "$ ä")
	s.send(api.EventStdout, api.Output{Base64: []byte("\xff\x00")})
	s.reads(c, websocket.MessageBinary, "\xff\x00")
	// No program can make the client read a message of the server.
	s.send(api.EventStdout, api.Output{Text: "\r\n {\"type\":\"exit\",\"code\":0}\r\n"})
	s.reads(c, websocket.MessageBinary, "\r\n {")
	s.reads(c, websocket.MessageBinary, "\"type\":\"exit\",\"code\":0}\r\n")
	s.send(api.EventDropped, api.Dropped{Bytes: 5})
	if k, got := s.read(c); k != websocket.MessageBinary || !strings.Contains(got, "5 bytes of output are missing") {
		t.Errorf("%v %q", k, got)
	}
	for _, m := range []struct {
		kind websocket.MessageType
		data string
		want string
	}{
		{websocket.MessageBinary, "ls\n", `POST /processes/p1/stdin {"dataBase64":"bHMK"}`},
		{websocket.MessageText, `{"type":"resize","cols":132,"rows":50}`, `POST /processes/p1/resize {"rows":50,"cols":132}`},
	} {
		if err := c.Write(t.Context(), m.kind, []byte(m.data)); err != nil {
			t.Fatal(err)
		}
		s.until(m.want)
	}
	s.send(api.EventExit, api.Exit{ExitCode: 7})
	s.reads(c, websocket.MessageText, `{"code":7,"type":"exit"}`)
	if _, got := s.read(c); !strings.Contains(got, "StatusNormalClosure") {
		t.Errorf("it ends with %s", got)
	}
	<-s.gone
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasPrefix(r, "DELETE") {
			t.Errorf("a shell that has ended is ended: %q", s.requests)
		}
	}
}

// TestPTYShell holds which shell runs: the one that is named, or bash, or sh where the
// image has no bash.
func TestPTYShell(t *testing.T) {
	none := api.Process{ID: "p0", State: "ended", Exit: &api.Exit{ExitCode: 127}}
	for name, c := range map[string]struct {
		query  string
		events []api.Process
		want   []string
	}{
		"bash":          {"", []api.Process{{ID: "p1", State: "running"}}, []string{`["/bin/bash","-i"]`}},
		"sh":            {"", []api.Process{none, {ID: "p1", State: "running"}}, []string{`["/bin/bash","-i"]`, `["/bin/sh","-i"]`}},
		"none":          {"", []api.Process{none, none}, []string{`["/bin/bash","-i"]`, `["/bin/sh","-i"]`}},
		"a named one":   {"?shell=fish", []api.Process{{ID: "p1", State: "running"}}, []string{`["fish"]`}},
		"not there":     {"?shell=fish", []api.Process{none}, []string{`["fish"]`}},
		"ended at once": {"", []api.Process{{ID: "p1", PID: 7, State: "ended", Exit: &api.Exit{ExitCode: 127}}}, []string{`["/bin/bash","-i"]`}},
	} {
		t.Run(name, func(t *testing.T) {
			s, base := newShell(t)
			for _, e := range c.events {
				s.send(api.EventProcess, e)
			}
			conn, _, err := s.dial(base, c.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.reads(conn, websocket.MessageText, `{"type":"ready"}`)
			s.send(api.EventExit, api.Exit{ExitCode: 127})
			s.reads(conn, websocket.MessageText, `{"code":127,"type":"exit"}`)
			s.mu.Lock()
			defer s.mu.Unlock()
			var got []string
			for _, r := range s.requests {
				_, body, _ := strings.Cut(r, `"args":`)
				body, _, _ = strings.Cut(body, "]")
				got = append(got, body+"]")
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
}

// TestPTYInput holds that input of any size arrives in order and in pieces that /v1
// takes.
func TestPTYInput(t *testing.T) {
	s, base := newShell(t)
	s.send(api.EventProcess, api.Process{ID: "p1"})
	c, _, err := s.dial(base, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.reads(c, websocket.MessageText, `{"type":"ready"}`)
	if err := c.Write(t.Context(), websocket.MessageBinary, []byte(strings.Repeat("a", maxInput)+"b")); err != nil {
		t.Fatal(err)
	}
	s.until(`POST /processes/p1/stdin {"dataBase64":"Yg=="}`)
	if err := c.Write(t.Context(), websocket.MessageBinary, make([]byte, maxFrame+1)); err == nil {
		if _, got := s.read(c); !strings.Contains(got, "StatusMessageTooBig") {
			t.Errorf("a frame that is too large: %s", got)
		}
	}
	s.until("DELETE /processes/p1 ")
}

// TestPTYEnds holds that the shell ends with its client, and the client gets to know
// how a terminal has ended that did not exit.
func TestPTYEnds(t *testing.T) {
	for name, c := range map[string]struct {
		do     func(s *shell, c *websocket.Conn)
		want   string // the last message
		killed bool
	}{
		"closed":  {func(s *shell, c *websocket.Conn) { c.Close(websocket.StatusNormalClosure, "") }, "", true},
		"gone":    {func(s *shell, c *websocket.Conn) { c.CloseNow() }, "", true},
		"cut off": {func(s *shell, c *websocket.Conn) { s.events <- "" }, `{"code":"exec_transport_error","message":"the terminal was cut off","type":"error"}`, true},
		"failed": {func(s *shell, c *websocket.Conn) {
			s.send(api.EventError, api.Problem{Status: 503, Code: sandbox.CodeUnavailable, Detail: "down"})
		}, `{"code":"PROVIDER.UNAVAILABLE","message":"down","type":"error"}`, false},
		"over":    {func(s *shell, c *websocket.Conn) { s.send(api.EventExit, api.Exit{ExitCode: 137, TimedOut: true}) }, `{"code":137,"type":"exit"}`, false},
		"no JSON": {func(s *shell, c *websocket.Conn) { c.Write(s.t.Context(), websocket.MessageText, []byte("x")) }, `"type":"error"`, true},
		"unknown": {func(s *shell, c *websocket.Conn) {
			c.Write(s.t.Context(), websocket.MessageText, []byte(`{"type":"kill"}`))
		}, `"type":"error"`, true},
		"no size": {func(s *shell, c *websocket.Conn) {
			c.Write(s.t.Context(), websocket.MessageText, []byte(`{"type":"resize","cols":1}`))
		}, `"type":"error"`, true},
		"more": {func(s *shell, c *websocket.Conn) {
			c.Write(s.t.Context(), websocket.MessageText, []byte(`{"type":"resize","cols":1,"rows":1,"x":1}`))
		}, `"type":"error"`, true},
		"input failed": {func(s *shell, c *websocket.Conn) {
			s.set("running", sandbox.CodeUnavailable)
			c.Write(s.t.Context(), websocket.MessageBinary, []byte("x"))
		}, `"code":"PROVIDER.UNAVAILABLE"`, true},
		"input after the end": {func(s *shell, c *websocket.Conn) {
			s.set("ended", sandbox.CodeBusy)
			c.Write(s.t.Context(), websocket.MessageBinary, []byte("x"))
			s.until("GET /processes/p1 ")
			s.send(api.EventExit, api.Exit{ExitCode: 5})
		}, `{"code":5,"type":"exit"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, base := newShell(t)
			s.send(api.EventProcess, api.Process{ID: "p1"})
			conn, _, err := s.dial(base, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			s.reads(conn, websocket.MessageText, `{"type":"ready"}`)
			c.do(s, conn)
			last := ""
			for c.want != "" {
				kind, got := s.read(conn)
				if kind == 0 {
					break
				}
				last = got
			}
			if !strings.Contains(last, c.want) {
				t.Errorf("%q, not %q", last, c.want)
			}
			if c.killed {
				s.until("DELETE /processes/p1 ")
			}
			select {
			case <-s.gone:
			case <-time.After(10 * time.Second):
				t.Error("the shell goes on")
			}
		})
	}
}

func (s *shell) set(state string, refuse sandbox.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.refuse = state, refuse
}

// TestPTYKey holds where the key of a terminal may be, and that without one there is
// no terminal.
func TestPTYKey(t *testing.T) {
	for name, c := range map[string]struct {
		query  string
		header http.Header
		ok     bool
	}{
		"header":         {"", http.Header{"Authorization": {aToken}}, true},
		"address":        {"?authorization=" + strings.ReplaceAll(aToken, " ", "%20"), http.Header{}, true},
		"none":           {"", http.Header{}, false},
		"another":        {"?authorization=Bearer%20x", http.Header{}, false},
		"another origin": {"", http.Header{"Authorization": {aToken}, "Origin": {"http://evil.example"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, base := newShell(t)
			s.send(api.EventProcess, api.Process{ID: "p1"})
			_, r, err := s.dial(base, c.query, c.header)
			if (err == nil) != c.ok || !c.ok && (r == nil || r.StatusCode != 403) {
				t.Errorf("%v %v", r, err)
			}
			if !c.ok && name == "another origin" {
				s.until("DELETE /processes/p1 ")
			}
		})
	}
	s, base := newShell(t)
	s.set("", sandbox.CodeDenyTool)
	if _, r, err := s.dial(base, "", nil); err == nil || r == nil || r.StatusCode != 403 {
		t.Errorf("a shell that rules refuse: %v %v", r, err)
	}
}

// FuzzSize reads control frames: what is taken is a size that /v1 takes.
func FuzzSize(f *testing.F) {
	f.Add([]byte(`{"type":"resize","cols":80,"rows":24}`))
	f.Add([]byte(`{"type":"resize","cols":null,"rows":1e9}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := size(data); err == nil && (s.Rows < 1 || s.Rows > 1000 || s.Cols < 1 || s.Cols > 1000) {
			t.Errorf("%+v", s)
		}
	})
}
