package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// relay is a connection to a loopback port inside a box.
type relay struct {
	io.Reader
	io.WriteCloser
	cmd *exec.Cmd
	end *sync.Once
}

func (r relay) Close() (err error) {
	r.end.Do(func() {
		err = r.WriteCloser.Close()
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
	})
	return err
}
func (relay) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (relay) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (relay) SetDeadline(time.Time) error      { return nil }
func (relay) SetReadDeadline(time.Time) error  { return nil }
func (relay) SetWriteDeadline(time.Time) error { return nil }

// dial connects through a process of the engine, which ends when one of the
// two sides is closed.
func (b *box) dial(port int) (net.Conn, error) {
	cmd := exec.Command("docker", "exec", "--interactive", b.name, "bash", "-c",
		fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d || exit; { cat <&3; kill 0; } & cat >&3; kill $!", port))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return relay{out, in, cmd, &sync.Once{}}, nil
}

// cdp drives the browser of a box by the bare protocol.
type cdp struct {
	t    testing.TB
	ctx  context.Context
	conn *websocket.Conn
	last int
}

// drive connects to the browser.
func (b *box) drive() *cdp {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	b.t.Cleanup(cancel)
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return b.dial(9222) },
	}}
	answer, err := client.Get("http://127.0.0.1:9222/json/version")
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	var version struct{ WebSocketDebuggerURL string }
	if err := json.NewDecoder(answer.Body).Decode(&version); err != nil {
		b.t.Fatal(err)
	}
	conn, _, err := websocket.Dial(ctx, version.WebSocketDebuggerURL, &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		b.t.Fatal(err)
	}
	conn.SetReadLimit(64 << 20)
	b.t.Cleanup(func() { _ = conn.CloseNow() })
	return &cdp{t: b.t, ctx: ctx, conn: conn}
}

// a message of the protocol, of either direction.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// call does one thing and waits for the answer, which it puts into result.
func (c *cdp) call(session, method string, params map[string]any, result any) error {
	c.t.Helper()
	c.last++
	if params == nil {
		params = map[string]any{}
	}
	text, err := json.Marshal(message{ID: c.last, Session: session, Method: method, Params: params})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.conn.Write(c.ctx, websocket.MessageText, text); err != nil {
		c.t.Fatal(err)
	}
	for {
		_, text, err := c.conn.Read(c.ctx)
		if err != nil {
			c.t.Fatalf("%s: %v", method, err)
		}
		var m message
		if err := json.Unmarshal(text, &m); err != nil {
			c.t.Fatal(err)
		}
		switch {
		case m.ID != c.last:
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case result != nil:
			return json.Unmarshal(m.Result, result)
		default:
			return nil
		}
	}
}

// must is call, and fails the test on an error.
func (c *cdp) must(session, method string, params map[string]any, result any) {
	c.t.Helper()
	if err := c.call(session, method, params, result); err != nil {
		c.t.Fatal(err)
	}
}

// page opens a tab at an address and returns its session.
func (c *cdp) page(address string) string {
	c.t.Helper()
	var target struct{ TargetID string }
	c.must("", "Target.createTarget", map[string]any{"url": address}, &target)
	var session struct{ SessionID string }
	c.must("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	return session.SessionID
}

// open navigates a page and returns the error that the browser gives.
func (c *cdp) open(session, address string) string {
	c.t.Helper()
	var r struct{ ErrorText string }
	c.must(session, "Page.navigate", map[string]any{"url": address}, &r)
	return r.ErrorText
}

// settled waits until a page has loaded, and returns its address and text.
func (c *cdp) settled(session string) string {
	c.t.Helper()
	for {
		var r struct{ Result struct{ Value string } }
		err := c.call(session, "Runtime.evaluate", map[string]any{"returnByValue": true, "awaitPromise": true,
			"expression": `new Promise(done => {
				const tell = () => done(location.href + " " + (document.body ? document.body.innerText : ""));
				document.readyState === "complete" ? setTimeout(tell, 50) : addEventListener("load", () => setTimeout(tell, 50));
			})`}, &r)
		// A page that is being replaced does not answer.
		if err == nil && r.Result.Value != "" {
			return r.Result.Value
		}
		if c.ctx.Err() != nil {
			c.t.Fatal(err)
		}
	}
}

// event waits for one of a kind and returns a field of it.
func (c *cdp) event(method, field string) string {
	c.t.Helper()
	for {
		_, text, err := c.conn.Read(c.ctx)
		if err != nil {
			c.t.Fatalf("waiting for %s: %v", method, err)
		}
		var m struct {
			Method string
			Params map[string]any
		}
		if err := json.Unmarshal(text, &m); err != nil {
			c.t.Fatal(err)
		}
		if m.Method == method {
			value, _ := m.Params[field].(string)
			return value
		}
	}
}
