package codex

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// v1 is a server of /v1 that has one sandbox and nothing in it.
func v1(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/sandboxes") {
		_, _ = io.WriteString(w, `{"name":"sbx-x"}`)
		return
	}
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, `{"code":"SANDBOX.NOT_FOUND","status":404,"detail":"nothing is there"}`)
}

// talk sends frames to a connection and returns the answers, one for each.
func talk(t *testing.T, frames ...string) []string {
	t.Helper()
	d := New(Options{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.Translate(w, r, http.HandlerFunc(v1)) }))
	defer s.Close()
	conn, _, err := websocket.Dial(t.Context(), s.URL+"/codex/s", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	var out []string
	for _, f := range frames {
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(f)); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(f, `"initialized"`) && len(out) > 0 {
			continue
		}
		_, data, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(data))
	}
	return out
}

const (
	first  = `{"id":1,"method":"initialize","params":{"clientName":"x"}}`
	second = `{"method":"initialized"}`
)

func TestOrderOfMessages(t *testing.T) {
	for _, tt := range []struct {
		frames []string
		want   string
	}{
		{[]string{first}, `"sessionId":"sbx-x"`},
		{[]string{second}, `"id":-1`},
		{[]string{`{`}, `-32600`},
		{[]string{`{"id":1,"method":"fs/readFile"}`}, `come first`},
		{[]string{first, first}, `was sent before`},
		{[]string{`{"id":1,"method":"initialize","params":{"resumeSessionId":"a"}}`}, `cannot be resumed`},
		{[]string{first, second, `{"id":2,"method":"fs/nothing"}`}, `-32601`},
		{[]string{first, second, `{"id":"a","method":"fs/readFile","params":{"path":"/workspace/x"}}`}, `-32004`},
		{[]string{first, second, `{"id":2,"method":"fs/readFile","params":{"path":"relative"}}`}, `-32602`},
		{[]string{first, second, `{"id":2,"method":"fs/readFile","params":{"path":"file://other/x"}}`}, `-32602`},
		{[]string{first, second, `{"id":2,"method":"fs/readFile"}`}, `-32602`},
		{[]string{first, second, `{"id":2,"method":"process/start","params":{"processId":"p","argv":[]}}`}, `-32602`},
		{[]string{first, second, `{"id":2,"method":"process/start","params":{"processId":"p","argv":["a"],"arg0":"b"}}`}, `arg0`},
		{[]string{first, second, `{"id":2,"method":"process/start","params":{"processId":"p","argv":["a"],"sandbox":{"x":1}}}`}, `danger-full-access`},
		{[]string{first, second, `{"id":2,"method":"process/start","params":{"processId":"p","argv":["a"],"enforceManagedNetwork":true}}`}, `enforceManagedNetwork`},
		{[]string{first, second, `{"id":2,"method":"fs/writeFile","params":{"path":"/workspace/x","dataBase64":"","sandbox":{}}}`}, `danger-full-access`},
		{[]string{first, second, `{"id":2,"method":"process/read","params":{"processId":"p"}}`}, `-32600`},
		{[]string{first, second, `{"id":2,"method":"process/write","params":{"processId":"p","chunk":"eA=="}}`}, `unknownProcess`},
		{[]string{first, second, `{"id":2,"method":"process/terminate","params":{"processId":"p"}}`}, `"running":false`},
	} {
		answers := talk(t, tt.frames...)
		if got := answers[len(answers)-1]; !strings.Contains(got, tt.want) {
			t.Errorf("%v is answered with %s, want %s", tt.frames, got, tt.want)
		}
	}
}

// TestOutputOfProcessIsBounded holds that the oldest output is dropped.
func TestOutputOfProcessIsBounded(t *testing.T) {
	p := &process{changed: make(chan struct{})}
	ctx, end := context.WithCancel(t.Context())
	end() // the connection is gone: nothing is sent
	emitted := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(emitted)
		conn, err := websocket.Accept(w, r, nil)
		if err == nil {
			defer conn.CloseNow()
			c := &connection{conn: conn, ctx: ctx, end: end, processes: map[string]*process{}}
			for range 5 {
				c.emit(p, "stdout", make([]byte, maxKept/2))
			}
		}
	}))
	conn, _, err := websocket.Dial(t.Context(), server.URL, nil)
	if err == nil {
		_, _, _ = conn.Read(t.Context()) // until it is closed
		conn.CloseNow()
		<-emitted
	}
	server.Close()
	if p.kept != maxKept || len(p.chunks) != 2 || p.chunks[1].Seq != 5 {
		t.Errorf("%d bytes in %d chunks are kept", p.kept, len(p.chunks))
	}
}

// FuzzMessages sends anything as a request: there is an answer, with an id.
func FuzzMessages(f *testing.F) {
	for name := range methods {
		f.Add(name, `{"path":"/workspace/a","processId":"p","argv":["a"]}`)
	}
	f.Add("process/read", `{"processId":"p","waitMs":-1,"afterSeq":9e99}`)
	f.Add("fs/copy", `{"sourcePath":"file:///a%00","destinationPath":"//"}`)
	f.Fuzz(func(t *testing.T, method, params string) {
		frame, err := json.Marshal(map[string]any{"id": 7, "method": method, "params": json.RawMessage(params)})
		if err != nil || method == "" {
			return
		}
		answers := talk(t, first, second, string(frame))
		var m struct{ ID *json.RawMessage }
		if err := json.Unmarshal([]byte(answers[len(answers)-1]), &m); err != nil || m.ID == nil {
			t.Errorf("%s is answered with %v", frame, answers)
		}
	})
}
