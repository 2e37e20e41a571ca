package page

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

// A liar is a browser under an attacker's control: it answers arbitrarily, and
// sends false events. It implements [browser.Container].
type liar struct {
	*httptest.Server
	dir      string // the workspace
	settings browser.Settings

	mu      sync.Mutex
	answers map[string]string // by method, in place of the usual ones; "" is none at all
	asked   []command
	heard   chan struct{} // receives a value for every command
	conn    *websocket.Conn
}

// A command is one sent by the session.
type command struct {
	ID      int64           `json:"id"`
	Session string          `json:"sessionId"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

func newLiar(t testing.TB) *liar {
	t.Helper()
	l := &liar{dir: t.TempDir(), answers: map[string]string{}, heard: make(chan struct{}, 1)}
	l.settings = browser.Settings{CDPPort: 9222, Schemes: []string{"http", "https"}, Limits: browser.Limits{
		Navigation: 5 * time.Second, Navigations: 100, Redirects: 5, PageBytes: 8 << 20,
		ScreenshotPixels: 1 << 20, ScreenshotsPerMinute: 1000, TransferBytes: 4 << 20,
	}}
	l.settings.Rules.AllowedDomains = []string{"site.test"}
	l.Server = httptest.NewServer(http.HandlerFunc(l.serve))
	t.Cleanup(l.Server.Close)
	return l
}

func (l *liar) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/json/version" {
		_, _ = w.Write([]byte(`{"webSocketDebuggerUrl":"ws://x/devtools/browser/ab-12"}`))
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1)
	l.mu.Lock()
	l.conn = conn
	l.mu.Unlock()
	for {
		_, data, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		var c command
		_ = json.Unmarshal(data, &c)
		l.mu.Lock()
		l.asked = append(l.asked, c)
		answer, reported := l.answers[c.Method]
		l.mu.Unlock()
		select {
		case l.heard <- struct{}{}:
		default:
		}
		if !reported {
			answer = usual(c.Method)
		}
		if answer != "" {
			l.say(map[string]any{"id": c.ID, "sessionId": c.Session}, answer)
		}
	}
}

// usual returns the answer of a well-behaved browser.
func usual(method string) string {
	switch method {
	case "Target.createBrowserContext":
		return `"result":{"browserContextId":"P"}`
	case "Target.createTarget":
		return `"result":{"targetId":"T"}`
	case "Target.attachToTarget":
		return `"result":{"sessionId":"S"}`
	case "Page.createIsolatedWorld":
		return `"result":{"executionContextId":1}`
	}
	return `"result":{}`
}

// say sends a message: a head, and more of it as JSON without braces.
func (l *liar) say(head map[string]any, rest string) {
	data, _ := json.Marshal(head)
	data = append(append(data[:len(data)-1], ','), rest+"}"...)
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	_ = conn.Write(context.Background(), websocket.MessageText, data)
}

// event sends an event to the session of the page.
func (l *liar) event(method, params string) {
	l.say(map[string]any{"sessionId": "S", "method": method}, `"params":`+params)
}

// commands returns the commands of a method so far.
func (l *liar) commands(method string) (out []command) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.asked {
		if c.Method == method {
			out = append(out, c)
		}
	}
	return out
}

// await waits until at least n commands of a method, or of another, were given.
func (l *liar) await(t testing.TB, n int, methods ...string) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		have := 0
		for _, m := range methods {
			have += len(l.commands(m))
		}
		if have >= n {
			return
		}
		select {
		case <-l.heard:
		case <-late:
			t.Fatalf("%d of %d commands %v came", have, n, methods)
		}
	}
}

func (l *liar) file(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (l *liar) open(t testing.TB) *session {
	t.Helper()
	return l.openWith(t, Options{})
}

func (l *liar) openWith(t testing.TB, o Options) *session {
	t.Helper()
	s, err := Open(t.Context(), l, browser.Rights{Write: true}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(*session)
}

func (l *liar) Name() string               { return "liar" }
func (l *liar) Settings() browser.Settings { return l.settings }
func (l *liar) Close() error               { return nil }

func (l *liar) Workspace(context.Context) (browser.Workspace, error) {
	return browser.Workspace{Dir: l.dir, UID: os.Getuid(), GID: os.Getgid()}, nil
}

func (l *liar) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, l.Listener.Addr().String())
}

func (l *liar) OpenEgress(context.Context, int) (netip.AddrPort, func(), bool, error) {
	return netip.AddrPort{}, func() {}, false, nil
}

func (l *liar) Start(context.Context, sandbox.Command) (sandbox.Process, error) {
	return nil, sandbox.Errorf(sandbox.CodeUnsupported, "start", "nothing runs here")
}
