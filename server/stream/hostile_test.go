package stream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// lines is a buffer that tests can wait on.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) await(t *testing.T, text string) {
	t.Helper()
	testenv.Success(t, func() error {
		if so := l.String(); !strings.Contains(so, text) {
			return fmt.Errorf("%q did not come; so far %.200q", text, so)
		}
		return nil
	})
}

func (r *rig) send(conn *websocket.Conn, kind websocket.MessageType, text string) {
	r.Helper()
	if err := conn.Write(r.ctx, kind, []byte(text)); err != nil {
		r.Fatal(err)
	}
}

// ending reads all frames to the last and returns the text ones.
func (r *rig) ending(conn *websocket.Conn) []string {
	r.Helper()
	var all []string
	for {
		kind, b, err := conn.Read(r.ctx)
		if err != nil {
			return all
		}
		if kind == websocket.MessageText {
			all = append(all, string(b))
		}
	}
}

// TestPlainClient writes the protocol's frames itself, without a window, as a
// script or a browser does.
func TestPlainClient(t *testing.T) {
	r := newRig(t)
	conn := r.dial()
	conn.SetReadLimit(1 << 20)
	r.send(conn, websocket.MessageText, `{"args":["sh","-c","cat; exit 4"]}`)
	for range 40 { // more than one window
		r.send(conn, websocket.MessageBinary, "\x00"+strings.Repeat("x", 32<<10))
	}
	r.send(conn, websocket.MessageText, `{"type":"stdin-eof"}`)
	n, exit := 0, ""
	for {
		kind, b, err := conn.Read(r.ctx)
		if err != nil {
			if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
				t.Errorf("the socket ended with %v", err)
			}
			break
		}
		if kind == websocket.MessageBinary && b[0] == stream.Stdout {
			n += len(b) - 1
		} else if strings.Contains(string(b), `"exit"`) {
			exit = string(b)
		}
	}
	if n != 40*(32<<10) || !strings.Contains(exit, `"code":4`) {
		t.Errorf("%d bytes came back, the end is %s", n, exit)
	}
}

func TestHostileRequests(t *testing.T) {
	r := newRig(t)
	for name, first := range map[string]string{
		"no JSON": "{", "another value": "[]", "unknown member": `{"args":["true"],"root":true}`,
		"trailing": `{"args":["true"]} {}`, "negative time": `{"args":["true"],"graceSeconds":-1}`,
		"a window of its own": `{"args":["true"],"window":1073741824}`, "base64 that is none": `{"args":[{"base64":"%"}]}`,
		"a wrong type": `{"args":"true"}`, "a member twice": `{"args":["true"],"args":["false"]}`, "a member in other letters": `{"args":["true"],"ARGS":["false"]}`,
		"null": `{"args":null,"line":"true"}`, "a variable twice": `{"args":["true"],"env":{"A":"1","A":"2"}}`, "no UTF-8": "{\"args\":[\"rm\",\"\xff\"]}",
		"more in what only the route knows": `{"args":["true"],"extra":{"ask":true,"ask":false}}`,
	} {
		conn := r.dial()
		r.send(conn, websocket.MessageText, first)
		all := r.ending(conn)
		if len(all) != 1 || !strings.Contains(all[0], string(sandbox.CodeValidation)) {
			t.Errorf("%s: answered %q", name, all)
		}
		if err := r.awaitServed(); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(r.seen) != 0 {
		t.Errorf("started %+v", r.seen)
	}
}

// TestHostileFrames holds that a client that violates the protocol is cut off
// and its command ended.
func TestHostileFrames(t *testing.T) {
	r := newRig(t)
	windowed := `{"args":["sleep","1000"],"window":131072}`
	for name, tt := range map[string]struct {
		request string
		kind    websocket.MessageType
		frame   string
	}{
		"data for stdout":       {windowed, websocket.MessageBinary, "\x01x"},
		"an empty frame":        {windowed, websocket.MessageBinary, ""},
		"no JSON":               {windowed, websocket.MessageText, "kill"},
		"an unknown control":    {windowed, websocket.MessageText, `{"type":"reboot"}`},
		"an unknown member":     {windowed, websocket.MessageText, `{"type":"kill","of":"all"}`},
		"credit out of nothing": {windowed, websocket.MessageText, `{"type":"credit","channel":1,"bytes":4294967295}`},
		"credit for stdin":      {windowed, websocket.MessageText, `{"type":"credit","channel":0,"bytes":1}`},
		"credit for channel 9":  {windowed, websocket.MessageText, `{"type":"credit","channel":9,"bytes":1}`},
		"credit without window": {`{"args":["sleep","1000"]}`, websocket.MessageText, `{"type":"credit","channel":1,"bytes":1}`},
		"a huge control":        {windowed, websocket.MessageText, `{"type":"` + strings.Repeat("x", stream.MaxControl) + `"}`},
	} {
		conn := r.dial()
		r.send(conn, websocket.MessageText, tt.request)
		r.send(conn, tt.kind, tt.frame)
		r.ending(conn)
		_ = r.awaitServed()
		if n := len(r.engine.Processes(r.name)); n != 0 {
			t.Errorf("%s: %d processes run on", name, n)
		}
	}
}

// TestInputBeyondWindow holds that a client cannot make the daemon buffer input
// beyond the window.
func TestInputBeyondWindow(t *testing.T) {
	r := newRig(t)
	conn := r.dial()
	r.send(conn, websocket.MessageText, `{"args":["sleep","1000"],"window":131072}`)
	chunk := append([]byte{stream.Stdin}, make([]byte, stream.MaxData)...)
	for range 20 {
		if conn.Write(r.ctx, websocket.MessageBinary, chunk) != nil {
			break // cut, as it must be
		}
	}
	r.ending(conn)
	_ = r.awaitServed()
	r.awaitRunning(0)
}

// TestSilentPeer holds that a client that has disappeared without closing the
// connection does not keep its command running. It does not read, so it sends no
// pong.
func TestSilentPeer(t *testing.T) {
	r := newRig(t)
	r.o.Beat = 20 * time.Millisecond
	conn := r.dial()
	r.send(conn, websocket.MessageText, `{"args":["sleep","1000"]}`)
	_ = r.awaitServed()
	r.awaitRunning(0)
	// A client that reads counts as alive, however long it sends nothing. On a
	// busy machine its pongs take their time.
	r.o.Beat = 2 * time.Second
	p := r.open(r.ctx, sh("sleep 5"))
	if exit, err := r.wait(p); err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
}

// TestPeerGoesBehindItsInput holds that the end of a socket ends a command that
// does not read its input, also where so much input is under way that the server
// has stopped reading.
func TestPeerGoesBehindItsInput(t *testing.T) {
	r := newRig(t)
	r.o.Beat = 2 * time.Second // in which it answers also on a busy machine
	conn := r.dial()
	r.send(conn, websocket.MessageText, `{"args":["sleep","1000"]}`)
	r.awaitRunning(1)
	go func() { // alive: it answers what it is asked
		for {
			if _, _, err := conn.Read(r.ctx); err != nil {
				return
			}
		}
	}()
	full, cancel := context.WithTimeout(r.ctx, 7*time.Second)
	defer cancel()
	chunk := append([]byte{stream.Stdin}, make([]byte, stream.MaxData)...)
	for full.Err() == nil {
		if conn.Write(full, websocket.MessageBinary, chunk) != nil {
			break
		}
		if len(r.engine.Processes(r.name)) == 0 {
			t.Fatal("the command of a client that is there has ended")
		}
	}
	conn.CloseNow() // as the write that was given up has done
	_ = r.awaitServed()
	r.awaitRunning(0)
}

// TestLyingServer holds that the client reports success only when the server has
// sent a valid exit.
func TestLyingServer(t *testing.T) {
	tests := map[string][]string{
		"nothing":             {},
		"started and gone":    {`{"type":"started"}`},
		"output and gone":     {`{"type":"started"}`, "\x01all is well\n"},
		"exit without start":  {`{"type":"exit","exit":{"code":0}}`},
		"exit without status": {`{"type":"started"}`, `{"type":"exit"}`},
		"no JSON":             {`{"type":"started"}`, `exit 0`},
		"unknown event":       {`{"type":"started"}`, `{"type":"success"}`},
		"started twice":       {`{"type":"started"}`, `{"type":"started"}`},
		"too much":            {`{"type":"started"}`, "\x01" + strings.Repeat("x", 60<<10), "\x01" + strings.Repeat("x", 60<<10), "\x01" + strings.Repeat("x", 60<<10)},
		"unknown channel":     {`{"type":"started"}`, "\x07x"},
		"error without code":  {`{"type":"started"}`, `{"type":"error","error":{"code":"OK"}}`},
	}
	for name, frames := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				conn, err := websocket.Accept(w, q, nil)
				if err != nil {
					return
				}
				defer conn.CloseNow()
				conn.Read(q.Context())
				for _, f := range frames {
					kind := websocket.MessageText
					if f[0] < ' ' {
						kind = websocket.MessageBinary
					}
					conn.Write(q.Context(), kind, []byte(f))
				}
			}))
			defer server.Close()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			conn, _, err := websocket.Dial(ctx, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			open := make(chan struct{})
			p, err := stream.Open(ctx, conn, stream.Options{}, stream.Request{}, sandbox.Command{Stdout: &counter{open: open}})
			close(open)
			if err == nil {
				_, err = p.Wait()
			}
			if sandbox.CodeOf(err) != sandbox.CodeUnavailable {
				t.Errorf("got %v, want %s", err, sandbox.CodeUnavailable)
			}
		})
	}
}

func FuzzRequest(f *testing.F) {
	f.Add(`{"args":["a",{"base64":"/w=="}],"env":{"A":"b"},"tty":{"rows":1,"cols":2},"timeoutSeconds":1e300}`)
	f.Fuzz(func(t *testing.T, text string) {
		var q stream.Request
		if json.Unmarshal([]byte(text), &q) != nil {
			return
		}
		c := q.Command()
		back, err := stream.RequestOf(c)
		if err != nil {
			t.Fatalf("what came as JSON cannot go as JSON: %v", err)
		}
		b, err := json.Marshal(back)
		if err != nil {
			t.Fatal(err)
		}
		var again stream.Request
		if err := json.Unmarshal(b, &again); err != nil {
			t.Fatal(err)
		}
		if len(again.Args) != len(q.Args) || again.Dir != q.Dir {
			t.Errorf("%q came back as %q", text, b)
		}
	})
}
