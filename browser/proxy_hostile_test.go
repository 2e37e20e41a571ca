package browser

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A liar is an upstream that sends the same bytes on every connection,
// whatever the request.
type liar struct {
	says string
	hold bool // the connection stays open
}

func (l liar) Close() error { return nil }

func (l liar) Dial(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer func() { _ = theirs.Close() }()
		if _, err := http.ReadRequest(bufio.NewReader(theirs)); err != nil {
			return
		}
		if _, err := io.WriteString(theirs, strings.ReplaceAll(l.says, "\n", "\r\n")); err != nil || !l.hold {
			return
		}
		_, _ = io.Copy(io.Discard, theirs) // until the other end closes
	}()
	return ours, nil
}

// TestHostileAnswers checks that only the known fields of an answer reach the
// client.
func TestHostileAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\nConnection: close\n\n"
	version := func(ws string) string { return ok + `{"Browser":"x","webSocketDebuggerUrl":"` + ws + `"}` }
	tests := []struct {
		name, path, says string
		want             int
	}{
		{"no HTTP", "json/version", "SSH-2.0-x\n\n", 502},
		{"nothing", "json/version", "", 503},
		{"half a head", "json/version", "HTTP/1.1 200 OK\nA: b\n", 503},
		{"half a body", "json/version", "HTTP/1.1 200 OK\nContent-Length: 100\n\n{}", 503},
		{"endless head", "json/version", "HTTP/1.1 200 OK\nA: " + strings.Repeat("x", 1<<20) + "\n\n", 429},
		{"endless body", "json/version", ok + `{"Browser":"` + strings.Repeat("x", 1<<20) + `"}`, 429},
		{"endless body in chunks", "json/version", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n" + strings.Repeat("1\nx\n", 1<<18), 429},
		{"length that lies", "json/version", "HTTP/1.1 200 OK\nContent-Length: 99999999999\n\n" + strings.Repeat("x", 1<<20), 429},
		{"broken chunks", "json/version", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nzz\n", 502},
		{"no JSON", "json/version", ok + "<html>", 502},
		{"null", "json/version", ok + "null", 502},
		{"list for one", "json/version", ok + "[]", 502},
		{"one for a list", "json/list", ok + "{}", 502},
		{"number for a text", "json/version", ok + `{"Browser":1}`, 502},
		{"two values", "json/version", ok + `{} {}`, 502},
		{"deep", "json/protocol", ok + `{"domains":[{"types":[` + strings.Repeat("[", 20_000), 502},
		{"redirect", "json/version", "HTTP/1.1 302 Found\nLocation: http://169.254.169.254/\nConnection: close\n\n", 502},
		{"not found", "json/version", "HTTP/1.1 404 Not Found\nConnection: close\n\n", 404},
		{"upgrade that nobody wants", "json/version", "HTTP/1.1 101 Switching Protocols\nUpgrade: x\nConnection: Upgrade\n\n", 502},
		{"page without a name", "json/list", ok + `[{"title":"x"}]`, 502},
		{"name that leads on", "json/list", ok + `[{"id":"../x"}]`, 502},
		{"parent that leads on", "json/list", ok + `[{"id":"A","parentId":"a b"}]`, 502},
		{"WebSocket of other scheme", "json/version", version("http://localhost/devtools/browser/A"), 502},
		{"WebSocket elsewhere", "json/version", version("ws://localhost/elsewhere/A"), 502},
		{"WebSocket by traversal", "json/version", version("ws://localhost/devtools/browser/../../x"), 502},
		{"WebSocket in escapes", "json/version", version("ws://localhost/devtools/browser/%41"), 502},
		{"WebSocket with a query", "json/version", version("ws://localhost/devtools/browser/A?x"), 502},
		{"WebSocket with a line break", "json/version", version(`ws://localhost/devtools/browser/A\r\nX: y`), 502},
		{"other host", "json/version", version("ws://evil.example:99/devtools/browser/A"), 200},
		{"cookie and headers", "json/version", "HTTP/1.1 200 OK\nConnection: close\nSet-Cookie: a=b\nAccess-Control-Allow-Origin: *\nX-Evil: 1\nContent-Type: text/html\n\n{}", 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := openProxy(t, nil, func(o *ProxyOptions) {
				o.Upstream = func(context.Context) (Upstream, error) { return liar{says: tt.says}, nil }
				o.Limits.AnswerBytes = 64 << 10
			})
			status, head, body := proxySay(t, b, "GET /{T}/"+tt.path+" HTTP/1.1\nHost: {A}\n\n")
			if status != tt.want {
				t.Errorf("status %d, want %d: %.200s", status, tt.want, body)
			}
			for _, word := range []string{"evil", "169.254", "elsewhere", "html"} {
				if strings.Contains(strings.ToLower(fmt.Sprint(head, body)), word) {
					t.Errorf("%q arrives: %v %.200s", word, head, body)
				}
			}
			if len(body) > maxReason+1 {
				t.Errorf("an answer of %d bytes", len(body))
			}
			for _, name := range []string{"Set-Cookie", "Access-Control-Allow-Origin", "Location", "Upgrade"} {
				if head.Get(name) != "" {
					t.Errorf("the header %s arrives", name)
				}
			}
		})
	}
}

// TestHostileHandshakes checks that a client is connected to a WebSocket only.
func TestHostileHandshakes(t *testing.T) {
	const ok = "HTTP/1.1 101 Switching Protocols\nUpgrade: websocket\nConnection: Upgrade\n"
	tests := []struct {
		name, says string
		want       int
	}{
		{"without proof", ok + "\n", 502},
		{"proof of another key", ok + "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\n\n", 502},
		{"no upgrade", "HTTP/1.1 200 OK\n\n", 502},
		{"redirect", "HTTP/1.1 301 Moved\nLocation: ws://evil.example/\n\n", 502},
		{"no such page", "HTTP/1.1 500 Internal Server Error\n\n", 404},
		{"no HTTP", "\x00\x01\x02\n\n", 502},
		{"endless head", ok + "A: " + strings.Repeat("x", 1<<20) + "\n\n", 429},
		{"nothing", "", 503},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := openProxy(t, nil, func(o *ProxyOptions) {
				o.Upstream = func(context.Context) (Upstream, error) { return liar{says: tt.says}, nil }
			})
			if status, head, body := proxySay(t, b, handshake); status != tt.want || head.Get("Location") != "" {
				t.Errorf("status %d, want %d: %v %.200s", status, tt.want, head, body)
			}
		})
	}
}

// handshake asks for the WebSocket of the page.
const handshake = "GET /{T}/devtools/page/" + pageID + " HTTP/1.1\nHost: {A}\nUpgrade: websocket\nConnection: keep-alive, Upgrade\n" +
	"Sec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n"

// TestSilentBrowser checks that a browser that never answers does not block a
// client forever.
func TestSilentBrowser(t *testing.T) {
	b := openProxy(t, nil, func(o *ProxyOptions) {
		o.Upstream = func(context.Context) (Upstream, error) { return liar{says: "HTTP/1.1 200 OK\n", hold: true}, nil }
		o.Limits.Answer = 50 * time.Millisecond
	})
	for _, request := range []string{"GET /{T}/json/version HTTP/1.1\nHost: {A}\n\n", handshake} {
		if status, _, body := proxySay(t, b, request); status != 504 {
			t.Errorf("status %d, want 504: %s", status, body)
		}
	}
}

// TestListsAreReadInPart checks which lists of pages are accepted.
func TestListsAreReadInPart(t *testing.T) {
	one := `{"id":"` + pageID + `","title":"t","type":"page","url":"about:blank"}`
	many := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]" }
	for name, c := range map[string]struct {
		body string
		n    int // -1 is none
	}{
		"none": {"[]", 0}, "one": {many(1), 1}, "most": {many(maxPages), maxPages}, "too many": {many(maxPages + 1), -1},
		"empty pages": {"[" + strings.Repeat("{},", 100) + "{}]", -1}, "null": {"null", -1}, "a page that is null": {"[null]", -1},
		"no list": {"{}", -1}, "not closed": {"[" + one, -1}, "more behind it": {"[][]", -1}, "nothing": {"", -1},
	} {
		t.Run(name, func(t *testing.T) {
			pages, err := readList([]byte(c.body), "ws://here/token")
			if c.n < 0 && err == nil || c.n >= 0 && (err != nil || len(pages) != c.n) {
				t.Errorf("%d pages, %v", len(pages), err)
			}
		})
	}
}
