package browser

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
)

const (
	browserID = "5c0a1c2e-9f6e-4b0a-8d4f-0a6f6a4b2c11"
	pageID    = "E3B0C44298FC1C149AFBF4C8996FB924"
)

// A chromium answers as Chromium does, as far as these tests need, and records
// its requests.
type chromium struct {
	*httptest.Server
	mu     sync.Mutex
	heads  []string // of requests: method, target, host and headers
	opens  int      // of the upstream
	closes int
	fail   error // that opening the upstream fails with
	answer func(w http.ResponseWriter, r *http.Request) bool
}

func newChromium(t *testing.T) *chromium {
	t.Helper()
	c := &chromium{}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(func() {
		c.CloseClientConnections()
		c.Close()
	})
	return c
}

func (c *chromium) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	var head strings.Builder
	head.WriteString(r.Method + " " + r.RequestURI + "\nHost: " + r.Host + "\n")
	_ = r.Header.Write(&head)
	c.heads = append(c.heads, head.String())
	answer := c.answer
	c.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	item := `{"description":"","devtoolsFrontendUrl":"https://elsewhere.example/inspector.html","id":"` + pageID +
		`","title":"A <b>page</b>","type":"page","url":"about:blank","unknown":1,` +
		`"webSocketDebuggerUrl":"ws://localhost/devtools/page/` + pageID + `"}`
	switch path := r.URL.Path; {
	case path == "/json/version":
		_, _ = io.WriteString(w, `{"Browser":"Chrome/156.0","Protocol-Version":"1.3","User-Agent":"UA","unknown":"x",`+
			`"webSocketDebuggerUrl":"ws://localhost/devtools/browser/`+browserID+`"}`)
	case path == "/json" || path == "/json/list":
		_, _ = io.WriteString(w, "["+item+"]")
	case path == "/json/new" && r.Method == "PUT":
		_, _ = io.WriteString(w, item)
	case path == "/json/protocol":
		_, _ = io.WriteString(w, `{"version":{"major":"1","minor":"3"},"domains":[{"domain":"Page","commands":[{"name":"navigate"}],"x":1}]}`)
	case path == "/json/activate/"+pageID, path == "/json/close/"+pageID:
		_, _ = io.WriteString(w, "whatever\x1b[31m")
	case path == "/devtools/page/"+pageID, path == "/devtools/browser/"+browserID:
		echo(w, r)
	default:
		http.NotFound(w, r)
	}
}

// echo sends back every message.
func echo(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(-1)
	for {
		kind, data, err := ws.Read(r.Context())
		if err != nil || ws.Write(r.Context(), kind, data) != nil {
			return
		}
	}
}

func (c *chromium) upstream(context.Context) (Upstream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return nil, c.fail
	}
	c.opens++
	return held{c}, nil
}

func (c *chromium) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *chromium) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.heads...)
}

// A held is an Upstream of a chromium.
type held struct{ c *chromium }

func (h held) Dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", h.c.Listener.Addr().String())
}

func (h held) Close() error {
	h.c.set(func() { h.c.closes++ })
	return nil
}

// openProxy opens a proxy to c with options modified by change.
func openProxy(t *testing.T, c *chromium, change func(*ProxyOptions)) *Proxy {
	t.Helper()
	o := ProxyOptions{Upstream: c.upstream, Limits: ProxyLimits{HeaderTimeout: proxyWithin}}
	if change != nil {
		change(&o)
	}
	b, err := OpenProxy(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// proxySay sends bytes to a proxy on a connection of their own and returns the
// response. {T} and {A} in them are the token and the address of the proxy.
func proxySay(t *testing.T, b *Proxy, bytes string) (status int, head http.Header, body string) {
	t.Helper()
	c, err := net.Dial("tcp", b.server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	fill := strings.NewReplacer("{T}", b.Token(), "{A}", b.server.Addr().String(), "\n", "\r\n")
	if _, err := io.WriteString(c, fill.Replace(bytes)); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(bytes, " ")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.Close {
		resp.Header.Set("Connection", "close") // ReadResponse takes it out
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp.StatusCode, resp.Header, ""
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(raw)
}

// proxyGone is the error of an upstream whose container was removed.
func proxyGone() error { return sandbox.Errorf(sandbox.CodeNotFound, "open", "no such container") }
