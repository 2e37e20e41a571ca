package browser

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// proxyRefusals are requests that must not reach the browser, as bytes on the
// wire. {T} is the token, {A} the address of the proxy, {P} its port.
var proxyRefusals = []struct {
	name, request string
	want          int // status
}{
	{"no token", "GET /json/version HTTP/1.1\nHost: {A}\n\n", 401},
	{"no token, root", "GET / HTTP/1.1\nHost: {A}\n\n", 401},
	{"no token, path that does not exist", "GET /nothing/here HTTP/1.1\nHost: {A}\n\n", 401},
	{"no token, WebSocket", "GET /devtools/browser/" + browserID + " HTTP/1.1\nHost: {A}\nUpgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n", 401},
	{"no token, method that is not allowed", "DELETE /json/version HTTP/1.1\nHost: {A}\n\n", 401},
	{"token in the query", "GET /json/version?token={T} HTTP/1.1\nHost: {A}\n\n", 401},
	{"token twice, once in the query", "GET /{T}/json/version?token={T} HTTP/1.1\nHost: {A}\n\n", 401},
	{"token within the address of a page", "PUT /{T}/json/new?https://a.example/{T} HTTP/1.1\nHost: {A}\n\n", 401},
	{"token in a cookie", "GET /json/version HTTP/1.1\nHost: {A}\nCookie: token={T}\n\n", 401},
	{"token as user", "GET /json/version HTTP/1.1\nHost: {A}\nAuthorization: Basic {T}\n\n", 401},
	{"token without scheme", "GET /json/version HTTP/1.1\nHost: {A}\nAuthorization: {T}\n\n", 401},
	{"wrong token", "GET /AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/json/version HTTP/1.1\nHost: {A}\n\n", 401},
	{"right token, then a wrong one", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nAuthorization: Bearer x\n\n", 401},
	{"two tokens in headers", "GET /json/version HTTP/1.1\nHost: {A}\nAuthorization: Bearer {T}\nAuthorization: Bearer x\n\n", 401},
	{"beginning of the token", "GET /{T-}/json/version HTTP/1.1\nHost: {A}\n\n", 401},
	{"token and more", "GET /{T}A/json/version HTTP/1.1\nHost: {A}\n\n", 401},
	{"token in other case", "GET /{t}/json/version HTTP/1.1\nHost: {A}\n\n", 401},
	{"token in escapes", "GET /%{X}/json/version HTTP/1.1\nHost: {A}\n\n", 401},
	{"two strokes before the token", "GET //{T}/json/version HTTP/1.1\nHost: {A}\n\n", 401},
	{"token later in the path", "GET /json/{T}/version HTTP/1.1\nHost: {A}\n\n", 401},
	{"token alone", "GET /{T} HTTP/1.1\nHost: {A}\n\n", 401},
	{"tab in the header", "GET /json/version HTTP/1.1\nHost: {A}\nAuthorization: Bearer\t{T}\n\n", 401},

	{"foreign host", "GET /{T}/json/version HTTP/1.1\nHost: attacker.example\n\n", 421},
	{"foreign host with our port", "GET /{T}/json/version HTTP/1.1\nHost: attacker.example:{P}\n\n", 421},
	{"name that means loopback", "GET /{T}/json/version HTTP/1.1\nHost: 127.0.0.1.nip.example:{P}\n\n", 421},
	{"name that begins alike", "GET /{T}/json/version HTTP/1.1\nHost: localhost.attacker.example:{P}\n\n", 421},
	{"trailing dot", "GET /{T}/json/version HTTP/1.1\nHost: localhost.:{P}\n\n", 421},
	{"other port", "GET /{T}/json/version HTTP/1.1\nHost: 127.0.0.1:1\n\n", 421},
	{"no port", "GET /{T}/json/version HTTP/1.1\nHost: 127.0.0.1\n\n", 421},
	{"port in other spelling", "GET /{T}/json/version HTTP/1.1\nHost: 127.0.0.1:0{P}\n\n", 421},
	{"empty host", "GET /{T}/json/version HTTP/1.1\nHost:\n\n", 421},
	{"no host, old protocol", "GET /{T}/json/version HTTP/1.0\n\n", 421},
	{"no host, new protocol", "GET /{T}/json/version HTTP/1.1\n\n", 400},
	{"two hosts", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nHost: attacker.example\n\n", 400},
	{"any address", "GET /{T}/json/version HTTP/1.1\nHost: 0.0.0.0:{P}\n\n", 421},
	{"private address", "GET /{T}/json/version HTTP/1.1\nHost: 10.0.0.1:{P}\n\n", 421},
	{"short address", "GET /{T}/json/version HTTP/1.1\nHost: 127.1:{P}\n\n", 421},
	{"number as address", "GET /{T}/json/version HTTP/1.1\nHost: 2130706433:{P}\n\n", 421},
	{"address in address", "GET /{T}/json/version HTTP/1.1\nHost: [::ffff:127.0.0.1]:{P}\n\n", 421},
	{"address with zone", "GET /{T}/json/version HTTP/1.1\nHost: [::1%25lo]:{P}\n\n", 421},
	{"user in host", "GET /{T}/json/version HTTP/1.1\nHost: a@{A}\n\n", 400},

	{"foreign origin", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nOrigin: https://evil.example\n\n", 403},
	{"our own origin", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nOrigin: http://{A}\n\n", 403},
	{"null origin", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nOrigin: null\n\n", 403},
	{"file as origin", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nOrigin: file://\n\n", 403},
	{"empty origin", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nOrigin:\n\n", 403},
	{"extension as origin, WebSocket", "GET /{T}/devtools/browser/" + browserID + " HTTP/1.1\nHost: {A}\nOrigin: chrome-extension://abc\nUpgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n", 403},
	{"fetch from another site", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nSec-Fetch-Site: cross-site\n\n", 403},
	{"fetch from another port", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nSec-Fetch-Site: same-site\n\n", 403},
	{"preflight", "OPTIONS /{T}/json/version HTTP/1.1\nHost: {A}\nOrigin: https://evil.example\nAccess-Control-Request-Method: PUT\n\n", 403},

	{"options", "OPTIONS /{T}/json/version HTTP/1.1\nHost: {A}\n\n", 405},
	{"options of everything", "OPTIONS * HTTP/1.1\nHost: {A}\n\n", 400},
	{"post", "POST /{T}/json/version HTTP/1.1\nHost: {A}\nContent-Length: 0\n\n", 405},
	{"post with a body", "POST /{T}/json/version HTTP/1.1\nHost: {A}\nContent-Length: 2\n\nab", 400},
	{"new by get", "GET /{T}/json/new?about:blank HTTP/1.1\nHost: {A}\n\n", 405},
	{"new by post", "POST /{T}/json/new?about:blank HTTP/1.1\nHost: {A}\n\n", 405},
	{"head", "HEAD /{T}/json/version HTTP/1.1\nHost: {A}\n\n", 405},
	{"trace", "TRACE /{T}/json/version HTTP/1.1\nHost: {A}\n\n", 405},
	{"connect", "CONNECT {A} HTTP/1.1\nHost: {A}\n\n", 400},
	{"method in lower case", "get /{T}/json/version HTTP/1.1\nHost: {A}\n\n", 405},

	{"absolute target", "GET http://{A}/{T}/json/version HTTP/1.1\nHost: {A}\n\n", 400},
	{"absolute target elsewhere", "GET http://169.254.169.254/{T}/json/version HTTP/1.1\nHost: {A}\n\n", 400},
	{"path that does not exist", "GET /{T}/json/nothing HTTP/1.1\nHost: {A}\n\n", 404},
	{"root behind the token", "GET /{T}/ HTTP/1.1\nHost: {A}\n\n", 404},
	{"front end of the browser", "GET /{T}/devtools/inspector.html HTTP/1.1\nHost: {A}\n\n", 404},
	{"traversal", "GET /{T}/devtools/../json/version HTTP/1.1\nHost: {A}\n\n", 404},
	{"traversal in escapes", "GET /{T}/devtools/%2e%2e/json/version HTTP/1.1\nHost: {A}\n\n", 404},
	{"point in escapes", "GET /{T}/json/%2e/version HTTP/1.1\nHost: {A}\n\n", 404},
	{"backstroke", "GET /{T}/json\\version HTTP/1.1\nHost: {A}\n\n", 404},
	{"two strokes behind the token", "GET /{T}//json/version HTTP/1.1\nHost: {A}\n\n", 404},
	{"upper case", "GET /{T}/JSON/version HTTP/1.1\nHost: {A}\n\n", 404},
	{"semicolon", "GET /{T}/json/version;x=1 HTTP/1.1\nHost: {A}\n\n", 404},
	{"query", "GET /{T}/json/version?x=1 HTTP/1.1\nHost: {A}\n\n", 400},
	{"name with a stroke", "GET /{T}/json/close/a/b HTTP/1.1\nHost: {A}\n\n", 404},
	{"name with an escaped stroke", "GET /{T}/json/close/a%2fb HTTP/1.1\nHost: {A}\n\n", 404},
	{"name too long", "GET /{T}/json/close/" + strings.Repeat("A", 65) + " HTTP/1.1\nHost: {A}\n\n", 404},
	{"no name", "GET /{T}/json/close/ HTTP/1.1\nHost: {A}\n\n", 404},
	{"character beyond ASCII", "GET /{T}/json/version\xc3\xa9 HTTP/1.1\nHost: {A}\n\n", 400},
	{"page that has gone", "GET /{T}/json/close/ABC HTTP/1.1\nHost: {A}\n\n", 404},

	{"WebSocket path without one", "GET /{T}/devtools/page/" + pageID + " HTTP/1.1\nHost: {A}\n\n", 426},
	{"WebSocket where there is none", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nUpgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n", 501},
	{"upgrade to HTTP/2", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAAQAAP__\nConnection: Upgrade, HTTP2-Settings\n\n", 501},
	{"upgrade to HTTP/2, WebSocket path", "GET /{T}/devtools/page/" + pageID + " HTTP/1.1\nHost: {A}\nUpgrade: h2c\nConnection: Upgrade\n\n", 501},
	{"upgrade to two", "GET /{T}/devtools/page/" + pageID + " HTTP/1.1\nHost: {A}\nUpgrade: websocket\nUpgrade: x\nConnection: Upgrade\n\n", 501},
	{"WebSocket of old version", "GET /{T}/devtools/page/" + pageID + " HTTP/1.1\nHost: {A}\nUpgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 8\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n", 400},
	{"WebSocket with a short key", "GET /{T}/devtools/page/" + pageID + " HTTP/1.1\nHost: {A}\nUpgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAA\n\n", 400},
	{"WebSocket without Connection", "GET /{T}/devtools/page/" + pageID + " HTTP/1.1\nHost: {A}\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n", 400},
	{"WebSocket of a page that has gone", "GET /{T}/devtools/page/ABC HTTP/1.1\nHost: {A}\nUpgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n", 404},

	{"both lengths", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nContent-Length: 5\nTransfer-Encoding: chunked\n\n0\n\n", 400},
	{"two lengths", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nContent-Length: 5\nContent-Length: 0\n\nabcde", 400},
	{"chunks", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nTransfer-Encoding: chunked\n\n0\n\n", 400},
	{"chunks in other words", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nTransfer-Encoding: xchunked\n\n0\n\n", 501},
	{"expectation", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nExpect: 100-continue\n\n", 400},
	{"head that is too long", "GET /{T}/json/version HTTP/1.1\nHost: {A}\nX: " + strings.Repeat("x", 24<<10) + "\n\n", 431},
	{"target that is too long", "PUT /{T}/json/new?" + strings.Repeat("x", 24<<10) + " HTTP/1.1\nHost: {A}\n\n", 431},
	{"other protocol", "GET /{T}/json/version HTTP/3.0\nHost: {A}\n\n", 505},
	{"HTTP/2 at once", "PRI * HTTP/2.0\n\nSM\n\n", 400},
}

func TestProxyRefusals(t *testing.T) {
	c := newChromium(t)
	b := openProxy(t, c, func(o *ProxyOptions) { o.Limits.WrongTokens = len(proxyRefusals) })
	_, port, _ := net.SplitHostPort(b.server.Addr().String())
	other := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return r
	}, b.Token())
	fill := strings.NewReplacer("{P}", port, "{T-}", b.Token()[:len(b.Token())-1], "{t}", other,
		"{X}", hexOf(b.Token()[0])+b.Token()[1:])
	_, _, unauthorized := proxySay(t, b, proxyRefusals[0].request)
	for _, tt := range proxyRefusals {
		t.Run(tt.name, func(t *testing.T) {
			before := len(c.seen())
			status, head, body := proxySay(t, b, fill.Replace(tt.request))
			if status != tt.want {
				t.Errorf("status %d, want %d: %s", status, tt.want, body)
			}
			if status == 401 && body != unauthorized {
				t.Errorf("the answer tells something: %q", body)
			}
			for name := range head {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("the answer has %s", name)
				}
			}
			if strings.Contains(body, b.Token()) || strings.Contains(body, "attacker") {
				t.Errorf("the answer repeats the request: %q", body)
			}
			if head.Get("Connection") != "close" {
				t.Error("the connection stays open")
			}
			asked := len(c.seen()) - before
			if asks := strings.Contains(tt.name, "has gone"); asked > 0 && !asks {
				t.Errorf("the browser was asked %q", c.seen()[before:])
			}
		})
	}
}

func hexOf(b byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[b>>4], digits[b&15]})
}

// TestPeers checks that peers out of range are refused with any token.
func TestPeers(t *testing.T) {
	tok, err := newToken("")
	if err != nil {
		t.Fatal(err)
	}
	h := head("GET", "/"+tok.text+"/json/version", "127.0.0.1:4444", nil)
	rules := guardRules{Port: 4444}
	if _, r := proxyClassify(h, tok, rules); r != nil {
		t.Fatalf("the control is refused: %v", r)
	}
	for _, peer := range []string{"10.0.0.1", "192.0.2.7", "::2", "::ffff:10.0.0.1", "fe80::1%eth0"} {
		h.Peer = mustAddr(peer)
		if _, r := proxyClassify(h, tok, rules); r != badPeer {
			t.Errorf("%s: %v", peer, r)
		}
	}
}

// TestSplitRequest checks that bytes after a refused head are not taken for a
// request.
func TestSplitRequest(t *testing.T) {
	c := newChromium(t)
	b := openProxy(t, c, nil)
	status, _, body := proxySay(t, b, "GET /{T}/json/version HTTP/1.1\nHost: {A}\nContent-Length: 60\n\nGET /{T}/json/list HTTP/1.1\nHost: {A}\n\n")
	if status != http.StatusBadRequest || strings.Contains(body, "HTTP/1.1") || len(c.seen()) > 0 {
		t.Errorf("%d %q, the browser was asked %q", status, body, c.seen())
	}
}
