package attack

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// paths returns spellings of paths outside of /pub, or within /admin, for one
// server or another.
func paths() []string {
	return []string{
		"/admin", "/ADMIN", "/admin/", "/admin/x", "//admin", "/./admin", "/pub/../admin", "/pub/..;/admin", "/pub/%2e%2e/admin", "/pub/%2E./admin",
		"/pub/.%2e/admin", "/pub/%252e%252e/admin", "/pub%2f..%2fadmin", "/pub%2F../admin", "/pub%5c..%5cadmin", "/pub\\..\\admin", "/pub/..\\admin",
		"/pub//../admin", "/pub/.../admin", "/pub/..%00/admin", "/pub/%00", "/pub/%0a", "/pub%20/../admin", "/%61dmin", "/%41dmin", "/adm%69n",
		"/admin%2f", "/admin;x", "/;/admin", "/pub;/../admin", "/pub/..%c0%af/admin", "/pub/%c0%ae%c0%ae/admin", "/pub/%u002e%u002e/admin", "/admin?x",
		"/admin%3fx", "/pub/..?x=/pub/", "/%2e%2e/admin", "/../admin", "/pub/../../admin", "/pub/%zz", "/pub/%", "/pub/%2", "/admin.", "/admin%20", "/admin::$DATA",
		"/%ef%bc%8fadmin", "/admi%ef%bd%8e", "/pub/%ef%bc%8e%ef%bc%8e/admin",
	}
}

// TestPaths checks that for a host with path rules no other path is reached,
// nor a denied one.
func TestPaths(t *testing.T) {
	var port int
	r := egressNewRig(t, setup{})
	port = r.net.Port("http")
	only := egressNewRig(t, setup{rules: []string{fmt.Sprintf("GET,HEAD http://only.test:%d/pub", port), fmt.Sprintf("127.0.0.1:%d", port)}})
	but := egressNewRig(t, setup{rules: []string{"but.test", fmt.Sprintf("127.0.0.1:%d", port)}, denied: []string{fmt.Sprintf("http://but.test:%d/admin", port)}})
	seen := make(chan string, 1000)
	for _, host := range []string{"only.test", "but.test"} {
		r.net.Handle(host, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { seen <- q.Method + " " + q.RequestURI }))
	}
	for what, tt := range map[string]struct {
		rig  *egressRig
		host string
	}{"allowed": {only, "only.test"}, "denied": {but, "but.test"}} {
		at := fmt.Sprintf("%s:%d", tt.host, port)
		tunnel := func() *talk { return tt.rig.connect(at) }
		direct := func() *talk { return newTalk(tt.rig.dial()) }
		for way, w := range map[string]struct {
			open func() *talk
			url  string
		}{"direct": {direct, "http://" + at}, "tunnel": {tunnel, ""}} {
			for _, path := range paths() {
				if what == "denied" && strings.HasPrefix(path, "/pub/..?") {
					continue // the root, which is not denied
				}
				for _, upgrade := range []string{"", "Connection: Upgrade\r\nUpgrade: websocket\r\n"} {
					k := w.open()
					fmt.Fprintf(k, "GET %s%s HTTP/1.1\r\nHost: %s\r\n%s\r\n", w.url, path, at, upgrade)
					if status, body, _ := k.answer("GET"); status != 403 && status != 400 {
						t.Errorf("%s by %s: %s: %d %s", what, way, path, status, body)
					}
					k.Close()
				}
			}
		}
		tt.rig.holds()
	}
	for _, head := range []string{
		"POST /pub", "get /pub", "Get /pub", "GETX /pub", "GET,HEAD /pub", "DELETE /pub/x", "OPTIONS /pub", "TRACE /pub", "PROPFIND /pub", "GET /public", "GET /Pub", "GET /", "GET /pu", "HEAD /x/pub",
	} {
		method, path, _ := strings.Cut(head, " ")
		k := newTalk(only.dial())
		fmt.Fprintf(k, "%s http://only.test:%d%s HTTP/1.1\r\nHost: only.test:%d\r\n\r\n", method, port, path, port)
		if status, body, _ := k.answer(method); status != 403 && status != 400 {
			t.Errorf("%s: %d %s", head, status, body)
		}
	}
	if len(seen) != 0 {
		t.Errorf("the host was asked for %q", <-seen)
	}
	for _, path := range []string{"/pub", "/pub/x", "/pub?a=/../admin", "/pub/a%20b", "/pub/..x/y", "/pub/?//"} {
		k := newTalk(only.dial())
		fmt.Fprintf(k, "GET http://only.test:%d%s HTTP/1.1\r\nHost: only.test:%d\r\n\r\n", port, path, port)
		if status, body, _ := k.answer("GET"); status != 200 {
			t.Errorf("%s: %d %s", path, status, body)
		} else if got := <-seen; got != "GET "+path {
			t.Errorf("%s: the host was asked for %q", path, got)
		}
	}
	k := only.connect(fmt.Sprintf("only.test:%d", port)) // TLS to a host of plain HTTP
	k.Write(whole(sni("only.test")))
	if b, _ := io.ReadAll(k.br); len(b) == 0 || b[0] != 21 {
		t.Errorf("TLS to a host of which some plain requests are allowed: %q", b)
	}
}

// TestRefusalText checks that a program's input cannot inject anything into
// the refusal.
func TestRefusalText(t *testing.T) {
	r := egressNewRig(t, setup{})
	for _, text := range []string{
		"GET http://a\x1b[2J/ HTTP/1.1\r\n\r\n", "CONNECT \"<script>.test:80 HTTP/1.1\r\n\r\n", "CONNECT \xff\xfe:80 HTTP/1.1\r\n\r\n",
		"CONNECT " + strings.Repeat("a.", 100) + "other.test:80 HTTP/1.1\r\n\r\n", "GET http://other.test/%0d%0aX-Injected:%20y HTTP/1.1\r\nHost: other.test\r\n\r\n",
		"X\x1bY http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n", "GET http://other.test/" + strings.Repeat("%1b", 2000) + " HTTP/1.1\r\nHost: other.test\r\n\r\n",
		"CONNECT xn--80ak6aa92e.test:443 HTTP/1.1\r\n\r\n",
	} {
		k := newTalk(r.dial())
		io.WriteString(k, text)
		resp, err := http.ReadResponse(k.br, nil)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		b, _ := io.ReadAll(resp.Body)
		k.Close()
		all := fmt.Sprint(resp.Status, resp.Header, strings.ReplaceAll(string(b), "\n", " "))
		if strings.ContainsFunc(all, func(c rune) bool { return c < ' ' || c > '~' }) || len(all) > 3000 || resp.Header.Get("X-Injected") != "" || resp.Header.Get("X-Sandbox-Rule") == "" || len(resp.Status) > 130 {
			t.Errorf("%q: %s", text, all)
		}
	}
}
