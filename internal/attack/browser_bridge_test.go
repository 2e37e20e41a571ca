package attack_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// knocks are requests that the CDP proxy of a real browser refuses, as bytes
// on the wire. {T} is the token, {A} the address of the proxy, {P} its port,
// {B} the path of the browser's WebSocket without the token.
var knocks = map[string]struct {
	request string
	want    int // status
}{
	"no token":                          {"GET /json/version HTTP/1.1\nHost: {A}\n\n", 401},
	"no token, list of pages":           {"GET /json/list HTTP/1.1\nHost: {A}\n\n", 401},
	"no token, new page":                {"PUT /json/new?about:blank HTTP/1.1\nHost: {A}\n\n", 401},
	"no token, WebSocket":               {"GET {B} HTTP/1.1\nHost: {A}\n{W}\n", 401},
	"wrong token":                       {"GET /AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/json/version HTTP/1.1\nHost: {A}\n\n", 401},
	"wrong token, WebSocket":            {"GET /AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA{B} HTTP/1.1\nHost: {A}\n{W}\n", 401},
	"wrong token in the header":         {"GET /json/version HTTP/1.1\nHost: {A}\nAuthorization: Bearer x\n\n", 401},
	"right token and a wrong one":       {"GET /{T}/json/version HTTP/1.1\nHost: {A}\nAuthorization: Bearer x\n\n", 401},
	"token in the query":                {"GET /json/version?token={T} HTTP/1.1\nHost: {A}\n\n", 401},
	"token in a cookie":                 {"GET /json/version HTTP/1.1\nHost: {A}\nCookie: token={T}\n\n", 401},
	"token as password":                 {"GET /json/version HTTP/1.1\nHost: {A}\nAuthorization: Basic {T}\n\n", 401},
	"token in the protocol":             {"GET {B} HTTP/1.1\nHost: {A}\nSec-WebSocket-Protocol: {T}\n{W}\n", 401},
	"foreign name":                      {"GET /{T}/json/version HTTP/1.1\nHost: evil.test:{P}\n\n", 421},
	"name that begins with localhost":   {"GET /{T}/json/version HTTP/1.1\nHost: localhost.evil.test:{P}\n\n", 421},
	"name with a dot at the end":        {"GET /{T}/json/version HTTP/1.1\nHost: localhost.:{P}\n\n", 421},
	"name below localhost":              {"GET /{T}/json/version HTTP/1.1\nHost: a.localhost:{P}\n\n", 421},
	"address of the metadata":           {"GET /{T}/json/version HTTP/1.1\nHost: 169.254.169.254:{P}\n\n", 421},
	"other port":                        {"GET /{T}/json/version HTTP/1.1\nHost: 127.0.0.1:9222\n\n", 421},
	"no port":                           {"GET /{T}/json/version HTTP/1.1\nHost: 127.0.0.1\n\n", 421},
	"foreign name, WebSocket":           {"GET /{T}{B} HTTP/1.1\nHost: evil.test:{P}\n{W}\n", 421},
	"two names":                         {"GET /{T}/json/version HTTP/1.1\nHost: {A}\nHost: evil.test\n\n", 400},
	"foreign origin":                    {"GET /{T}/json/version HTTP/1.1\nHost: {A}\nOrigin: http://evil.test\n\n", 403},
	"foreign origin, WebSocket":         {"GET /{T}{B} HTTP/1.1\nHost: {A}\nOrigin: http://evil.test\n{W}\n", 403},
	"null origin, WebSocket":            {"GET /{T}{B} HTTP/1.1\nHost: {A}\nOrigin: null\n{W}\n", 403},
	"file as origin, WebSocket":         {"GET /{T}{B} HTTP/1.1\nHost: {A}\nOrigin: file://\n{W}\n", 403},
	"extension as origin, WebSocket":    {"GET /{T}{B} HTTP/1.1\nHost: {A}\nOrigin: chrome-extension://mhjfbmdgcfjbbpaeojofohoefgiehjai\n{W}\n", 403},
	"tools as origin, WebSocket":        {"GET /{T}{B} HTTP/1.1\nHost: {A}\nOrigin: devtools://devtools\n{W}\n", 403},
	"its own origin":                    {"GET /{T}/json/version HTTP/1.1\nHost: {A}\nOrigin: http://{A}\n\n", 403},
	"fetch of another site":             {"GET /{T}/json/version HTTP/1.1\nHost: {A}\nSec-Fetch-Site: cross-site\n\n", 403},
	"fetch of another port":             {"GET /{T}/json/version HTTP/1.1\nHost: {A}\nSec-Fetch-Site: same-site\n\n", 403},
	"preflight":                         {"OPTIONS /{T}/json/version HTTP/1.1\nHost: {A}\nOrigin: http://evil.test\nAccess-Control-Request-Method: PUT\nAccess-Control-Request-Private-Network: true\n\n", 403},
	"new page by GET":                   {"GET /{T}/json/new?about:blank HTTP/1.1\nHost: {A}\n\n", 405},
	"page with a body":                  {"POST /{T}/json/version HTTP/1.1\nHost: {A}\nContent-Length: 2\n\nab", 400},
	"absolute target":                   {"GET http://127.0.0.1:9222/{T}/json/version HTTP/1.1\nHost: {A}\n\n", 400},
	"tunnel":                            {"CONNECT 127.0.0.1:9222 HTTP/1.1\nHost: {A}\n\n", 400},
	"request within a request":          {"GET /{T}/json/version HTTP/1.1\nHost: {A}\nContent-Length: 40\nTransfer-Encoding: chunked\n\n0\n\nGET /{T}/json/list HTTP/1.1\nHost: {A}\n\n", 400},
	"name in the line and in the field": {"GET //{A}/{T}/json/version HTTP/1.1\nHost: {A}\n\n", 401},
	"path behind dots":                  {"GET /{T}/devtools/../json/version HTTP/1.1\nHost: {A}\n\n", 404},
	"front end of the tools":            {"GET /{T}/devtools/inspector.html HTTP/1.1\nHost: {A}\n\n", 404},
}

const handshake = "Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n"

// TestBridge holds that the CDP proxy of a real browser answers those alone who have
// its token, and what it refuses to them.
func TestBridge(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	t.Run("knocks", func(t *testing.T) { knocksAt(t, r) })
	t.Run("token of another", func(t *testing.T) { tokenOfAnother(t, r) })
}

// knocksAt checks which requests the CDP proxy of a real browser refuses.
func knocksAt(t *testing.T, r *rig) {
	s, err := r.Serve(patient(t), r.of("a"))
	must(t, err)
	defer s.Close()
	u, err := url.Parse(s.WebSocketDebuggerURL)
	must(t, err)
	fill := strings.NewReplacer("{T}", s.Token, "{A}", u.Host, "{P}", u.Port(), "{B}", strings.TrimPrefix(u.Path, "/"+s.Token), "{W}", handshake, "\n", "\r\n")
	knock := func(t *testing.T, request string) (int, string) {
		// The inserted texts have line ends of their own.
		return say(t, u.Host, strings.ReplaceAll(strings.ReplaceAll(fill.Replace(request), "\r\n", "\n"), "\n", "\r\n"))
	}
	for name, k := range knocks {
		t.Run(name, func(t *testing.T) {
			status, body := knock(t, k.request)
			if status != k.want {
				t.Errorf("status %d, want %d: %s", status, k.want, body)
			}
			if strings.Contains(body, "HeadlessChrome") || strings.Contains(body, s.Token) || strings.Contains(body, "HTTP/1.1") {
				t.Errorf("the answer tells %q", body)
			}
		})
	}
	for name, request := range map[string]string{
		"token in the path":   "GET /{T}/json/version HTTP/1.1\nHost: {A}\n\n",
		"token in the header": "GET /json/version HTTP/1.1\nHost: localhost:{P}\nAuthorization: Bearer {T}\n\n",
	} {
		t.Run("control/"+name, func(t *testing.T) {
			if status, body := knock(t, request); status != 200 || !strings.Contains(body, "HeadlessChrome") {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	t.Run("control/WebSocket", func(t *testing.T) {
		if status, body := knock(t, "GET /{T}{B} HTTP/1.1\nHost: {A}\n{W}\n"); status != http.StatusSwitchingProtocols {
			t.Errorf("%d %s", status, body)
		}
	})
}

// say sends a request and returns the status of the response, and the bytes
// after the head until the connection ends or is silent.
func say(t testing.TB, address, request string) (status int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, request)
	must(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp.StatusCode, ""
	}
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(b)
}

// tokenOfAnother checks that the CDP proxy of one scope refuses the token
// of another scope, and that a token ends with its proxy.
func tokenOfAnother(t *testing.T, r *rig) {
	one, err := r.Serve(patient(t), r.of("a"))
	must(t, err)
	defer one.Close()
	two, err := r.Serve(patient(t), r.of("b"))
	must(t, err)
	defer two.Close()
	u, err := url.Parse(one.HTTPURL)
	must(t, err)
	ask := func(token string) int {
		status, _ := say(t, u.Host, "GET /"+token+"/json/version HTTP/1.1\r\nHost: "+u.Host+"\r\n\r\n")
		return status
	}
	if got := ask(one.Token); got != 200 {
		t.Errorf("the control: %d", got)
	}
	if got := ask(two.Token); got != 401 {
		t.Errorf("the token of another: %d", got)
	}
	must(t, one.Close())
	if conn, err := net.Dial("tcp", u.Host); err == nil {
		conn.Close()
		t.Error("the bridge listens after its end")
	}
	again, err := r.Serve(patient(t), r.of("a"))
	must(t, err)
	defer again.Close()
	if again.Token == one.Token {
		t.Error("the token is the same again")
	}
}
