package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
)

// proxyWithin is how long tests wait.
const proxyWithin = time.Minute

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), proxyWithin)
	t.Cleanup(cancel)
	return ctx
}

func TestAnswers(t *testing.T) {
	c := newChromium(t)
	b := openProxy(t, c, nil)
	ws := "ws://{A}/{T}/devtools/page/" + pageID
	pageJSON := `{"description":"","id":"` + pageID + `","title":"A <b>page</b>","type":"page","url":"about:blank","webSocketDebuggerUrl":"` + ws + `"}`
	versionJSON := `{"Browser":"Chrome/156.0","Protocol-Version":"1.3","User-Agent":"UA","webSocketDebuggerUrl":"ws://{A}/{T}/devtools/browser/` + browserID + `"}`
	tests := []struct{ name, request, asked, want string }{
		{"version", "GET /{T}/json/version", "GET /json/version", versionJSON},
		{"version as Playwright asks", "GET /{T}/json/version/", "GET /json/version", versionJSON},
		{"list", "GET /{T}/json/list", "GET /json/list", "[" + pageJSON + "]"},
		{"list, short", "GET /{T}/json", "GET /json", "[" + pageJSON + "]"},
		{"list, with a stroke", "GET /{T}/json/", "GET /json", "[" + pageJSON + "]"},
		{"new", "PUT /{T}/json/new", "PUT /json/new", pageJSON},
		{"new with an address", "PUT /{T}/json/new?https://a.example/?q=1&r=%20#x", "PUT /json/new?https://a.example/?q=1&r=%20#x", pageJSON},
		{"protocol", "GET /{T}/json/protocol", "GET /json/protocol",
			`{"version":{"major":"1","minor":"3"},"domains":[{"domain":"Page","commands":[{"name":"navigate"}]}]}`},
	}
	fill := strings.NewReplacer("{T}", b.Token(), "{A}", b.server.Addr().String())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := len(c.seen())
			status, head, body := proxySay(t, b, tt.request+" HTTP/1.1\nHost: {A}\nCookie: secret=1\nX-Mine: 2\n\n")
			if status != 200 || head.Get("Content-Type") != "application/json; charset=UTF-8" {
				t.Fatalf("status %d, type %q: %s", status, head.Get("Content-Type"), body)
			}
			var got, want any
			if err := errors.Join(json.Unmarshal([]byte(body), &got), json.Unmarshal([]byte(fill.Replace(tt.want)), &want)); err != nil {
				t.Fatal(err)
			}
			g, _ := json.Marshal(got)
			w, _ := json.Marshal(want)
			if !bytes.Equal(g, w) {
				t.Errorf("got  %s\nwant %s", g, w)
			}
			asked := c.seen()[before:]
			if len(asked) != 1 || asked[0] != tt.asked+"\nHost: localhost\nAccept-Encoding: identity\r\nConnection: close\r\n" {
				t.Errorf("the browser was asked %q", asked)
			}
		})
	}
	if c.opens != c.closes || c.opens != len(tests) {
		t.Errorf("upstreams: %d opened, %d closed, %d requests", c.opens, c.closes, len(tests))
	}
}

// TestTextAnswers checks that what is not JSON is not the browser's text.
func TestTextAnswers(t *testing.T) {
	b := openProxy(t, newChromium(t), nil)
	for request, want := range map[string]string{
		"GET /{T}/json/activate/" + pageID: "Target activated\n",
		"PUT /{T}/json/close/" + pageID:    "Target is closing\n",
	} {
		if status, _, body := proxySay(t, b, request+" HTTP/1.1\nHost: {A}\n\n"); status != 200 || body != want {
			t.Errorf("%s: %d %q", request, status, body)
		}
	}
}

// TestNameOfClient checks that URLs have the host that the client used.
func TestNameOfClient(t *testing.T) {
	b := openProxy(t, newChromium(t), nil)
	_, port, _ := strings.Cut(b.server.Addr().String(), ":")
	for _, host := range []string{"localhost:" + port, "[::1]:" + port, "127.8.9.1:" + port} {
		_, _, body := proxySay(t, b, "GET /json/version HTTP/1.1\nHost: "+host+"\nAuthorization: bearer {T}\n\n")
		if want := "ws://" + host + "/" + b.Token() + "/devtools/browser/" + browserID; !strings.Contains(body, want) {
			t.Errorf("%s is not in %s", want, body)
		}
	}
}

func TestWebSocket(t *testing.T) {
	c := newChromium(t)
	b := openProxy(t, c, nil)
	ctx := soon(t)
	address, err := b.WebSocket(ctx)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Cookie": {"a=b"}, "X-Forwarded-For": {"1.2.3.4"}, "User-Agent": {"mine"}}
	ws, _, err := websocket.Dial(ctx, address, &websocket.DialOptions{
		HTTPHeader: header, Subprotocols: []string{"x"}, CompressionMode: websocket.CompressionContextTakeover,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(-1)
	for _, size := range []int{1, 125, 70_000, 5 << 20} {
		sent := bytes.Repeat([]byte("x"), size)
		got := make(chan []byte, 1)
		go func() {
			_, data, _ := ws.Read(ctx)
			got <- data
		}()
		if err := ws.Write(ctx, websocket.MessageText, sent); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(<-got, sent) {
			t.Fatalf("%d bytes did not come back", size)
		}
	}
	if n := b.Clients(); n != 1 {
		t.Errorf("%d clients, want 1", n)
	}
	heads := c.seen()
	last := heads[len(heads)-1]
	for _, word := range []string{"Cookie", "Forwarded", "mine", "Protocol", "Extensions", "Origin", b.Token()} {
		if strings.Contains(last, word) {
			t.Errorf("%q reached the browser: %s", word, last)
		}
	}
	if err := ws.Close(websocket.StatusNormalClosure, "bye"); err != nil {
		t.Errorf("the end by agreement: %v", err)
	}
}

// TestAddressOutlivesTheBrowser checks that the URL of an ended browser leads
// to the one started after it, and that of a page leads nowhere.
func TestAddressOutlivesTheBrowser(t *testing.T) {
	c := newChromium(t)
	b := openProxy(t, c, nil)
	ctx := soon(t)
	address, err := b.WebSocket(ctx)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(address, browserID, "00000000-1111-2222-3333-444444444444", 1)
	ws, _, err := websocket.Dial(ctx, old, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	if err := ws.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, data, err := ws.Read(ctx); err != nil || string(data) != "hello" {
		t.Errorf("%q, %v", data, err)
	}
	page := strings.Replace(address, "/browser/"+browserID, "/page/00000000-1111-2222-3333-444444444444", 1)
	if _, resp, err := websocket.Dial(ctx, page, nil); err == nil || resp == nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("a page that has gone: %v", err)
	}
	// A browser that reports an id it does not have is not asked forever.
	c.set(func() {
		c.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/json/version" {
				http.NotFound(w, r)
				return true
			}
			return false
		}
	})
	if _, resp, err := websocket.Dial(ctx, old, nil); err == nil || resp == nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("a browser that lies: %v", err)
	}
}

// TestBrowserDies checks that clients notice the end of the browser, and that
// the next request opens the browser again.
func TestBrowserDies(t *testing.T) {
	c := newChromium(t)
	b := openProxy(t, c, nil)
	ctx := soon(t)
	address, err := b.WebSocket(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c.set(func() {
		c.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/devtools/") {
				return false
			}
			ws, err := websocket.Accept(w, r, nil)
			if err == nil {
				_, _, _ = ws.Read(r.Context())
				_ = ws.CloseNow() // as a process that was killed
			}
			return true
		}
	})
	ws, _, err := websocket.Dial(ctx, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	if err := ws.Write(ctx, websocket.MessageText, []byte("die")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.Read(ctx); err == nil || ctx.Err() != nil {
		t.Fatalf("the client does not notice: %v", err)
	}
	opens := 0
	c.set(func() { opens = c.opens })
	if _, err := b.WebSocket(ctx); err != nil {
		t.Fatal(err)
	}
	c.set(func() {
		if c.opens != opens+1 {
			t.Errorf("the browser was opened %d times, want %d", c.opens, opens+1)
		}
	})
}

func TestRemovedWhenUsed(t *testing.T) {
	c := newChromium(t)
	b := openProxy(t, c, nil)
	c.set(func() { c.fail = proxyGone() })
	if status, _, _ := proxySay(t, b, "GET /{T}/json/version HTTP/1.1\nHost: {A}\n\n"); status != 404 {
		t.Errorf("status %d, want 404", status)
	}
	waitDone(t, b)
}

// TestRemovedWhileIdle checks that an idle proxy ends when its container is
// removed.
func TestRemovedWhileIdle(t *testing.T) {
	ends := make(chan error)
	calls := make(chan struct{}, 10)
	c := newChromium(t)
	b := openProxy(t, c, func(o *ProxyOptions) {
		o.Gone = func(ctx context.Context) error {
			calls <- struct{}{}
			select {
			case err := <-ends:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	ctx := soon(t)
	<-calls
	ends <- errors.New("the guest died")
	for len(calls) == 0 { // the watch begins again with the next client
		if _, err := b.WebSocket(ctx); err != nil {
			t.Fatal(err)
		}
	}
	ends <- nil
	waitDone(t, b)
	if n := b.Clients(); n != 0 {
		t.Errorf("%d clients are left", n)
	}
}

func waitDone(t *testing.T, b *Proxy) {
	t.Helper()
	select {
	case <-b.Done():
	case <-time.After(proxyWithin):
		t.Fatal("the bridge does not end")
	}
}

// TestClose checks that nothing outlives a proxy: no client, no opening of a
// browser that never starts, no watch (goleak detects them).
func TestClose(t *testing.T) {
	c := newChromium(t)
	opening := make(chan struct{})
	hang := false
	b := openProxy(t, c, func(o *ProxyOptions) {
		o.Gone = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		o.Upstream = func(ctx context.Context) (Upstream, error) {
			if hang {
				close(opening)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return c.upstream(ctx)
		}
	})
	ctx := soon(t)
	address, err := b.WebSocket(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ws, _, err := websocket.Dial(ctx, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	hang = true
	failed := make(chan error, 1)
	go func() {
		resp, err := http.Get(b.URL() + "json/version")
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	<-opening
	b.Close()
	<-failed
	if _, _, err := ws.Read(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("the client does not notice: %v", err)
	}
	if _, err := b.WebSocket(ctx); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("a closed bridge gives an address, or %v", err)
	}
	b.Close()
	http.DefaultClient.CloseIdleConnections()
}
