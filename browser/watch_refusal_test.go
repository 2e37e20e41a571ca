package browser

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// watchRefusals are requests that are refused, as bytes on the wire.
var watchRefusals = []struct {
	name, request string
	want          int // status
}{
	{"no cookie", "GET {B}vnc.html HTTP/1.1\nHost: {A}\n\n", 401},
	{"no cookie, root", "GET / HTTP/1.1\nHost: {A}\n\n", 401},
	{"no cookie, icon", "GET /favicon.ico HTTP/1.1\nHost: {A}\n\n", 401},
	{"no cookie, display", strings.ReplaceAll(asSocket, "{C}", ""), 401},
	{"no cookie, other method", "POST {B}vnc.html HTTP/1.1\nHost: {A}\nContent-Length: 0\n\n", 401},
	{"cookie of another watch", "GET {B}vnc.html HTTP/1.1\nHost: {A}\nCookie: sandbox-watch=AAAAAAAAAAAAAAAAAAAAAAAAAA\n\n", 401},
	{"cookie by other name", "GET {B}vnc.html HTTP/1.1\nHost: {A}\nCookie: sandbox={C}\n\n", 401},
	{"cookie in the query", "GET {B}vnc.html?sandbox-watch={C} HTTP/1.1\nHost: {A}\n\n", 401},
	{"cookie as token", "GET {B}vnc.html HTTP/1.1\nHost: {A}\nAuthorization: Bearer {C}\n\n", 401},
	{"cookie with more", "GET {B}vnc.html HTTP/1.1\nHost: {A}\nCookie: sandbox-watch={C}x\n\n", 401},
	{"link that is wrong", "GET /open/AAAAAAAAAAAAAAAAAAAAAAAAAA HTTP/1.1\nHost: {A}\n\n", 401},
	{"link with a query", "GET /open/{L}?x HTTP/1.1\nHost: {A}\n\n", 401},
	{"link with a stroke", "GET /open/{L}/ HTTP/1.1\nHost: {A}\n\n", 401},
	{"link in other case", "GET /OPEN/{L} HTTP/1.1\nHost: {A}\n\n", 401},
	{"link in the query", "GET /open?{L} HTTP/1.1\nHost: {A}\n\n", 401},
	{"link by head", "HEAD /open/{L} HTTP/1.1\nHost: {A}\n\n", 405},
	{"link by post", "POST /open/{L} HTTP/1.1\nHost: {A}\nContent-Length: 0\n\n", 405},
	{"link by options", "OPTIONS /open/{L} HTTP/1.1\nHost: {A}\n\n", 405},
	{"link in advance", "GET /open/{L} HTTP/1.1\nHost: {A}\nSec-Purpose: prefetch\n\n", 403},
	{"link from a page", "GET /open/{L} HTTP/1.1\nHost: {A}\nSec-Fetch-Site: cross-site\n\n", 403},
	{"link with an origin", "GET /open/{L} HTTP/1.1\nHost: {A}\nOrigin: https://evil.example\n\n", 403},
	{"link by a foreign name", "GET /open/{L} HTTP/1.1\nHost: evil.example:{P}\n\n", 421},
	{"link to another port", "GET /open/{L} HTTP/1.1\nHost: 127.0.0.1:1\n\n", 421},
	{"link as absolute target", "GET http://{A}/open/{L} HTTP/1.1\nHost: {A}\n\n", 400},
	{"link with a body", "GET /open/{L} HTTP/1.1\nHost: {A}\nContent-Length: 1\n\nx", 400},
	{"link upgraded", "GET /open/{L} HTTP/1.1\nHost: {A}\nUpgrade: h2c\nConnection: Upgrade\n\n", 501},

	{"foreign name", strings.Replace(asFile, "{A}", "evil.example:{P}", 1), 421},
	{"foreign origin", strings.Replace(asFile, "\n\n", "\nOrigin: https://evil.example\n\n", 1), 403},
	{"null origin", strings.Replace(asFile, "\n\n", "\nOrigin: null\n\n", 1), 403},
	{"fetch from another port", strings.Replace(asFile, "\n\n", "\nSec-Fetch-Site: same-site\n\n", 1), 403},
	{"put", strings.Replace(asFile, "GET", "PUT", 1), 405},
	{"query", strings.Replace(asFile, "vnc.html", "vnc.html?x=1", 1), 400},
	{"empty query", strings.Replace(asFile, "vnc.html", "vnc.html?", 1), 400},
	{"folder", strings.Replace(asFile, "vnc.html", "", 1), 404},
	{"folder below", strings.Replace(asFile, "vnc.html", "app/", 1), 404},
	{"traversal", strings.Replace(asFile, "vnc.html", "../etc/x.html", 1), 404},
	{"traversal in escapes", strings.Replace(asFile, "vnc.html", "%2e%2e/x.html", 1), 404},
	{"two strokes", strings.Replace(asFile, "vnc.html", "/vnc.html", 1), 404},
	{"hidden file", strings.Replace(asFile, "vnc.html", ".x.html", 1), 404},
	{"kind that is not shown", strings.Replace(asFile, "vnc.html", "utils/novnc_proxy", 1), 404},
	{"script of a server", strings.Replace(asFile, "vnc.html", "cgi-bin/x.py", 1), 404},
	{"other folder", strings.Replace(asFile, "{B}", "/", 1), 404},
	{"file that is not there", strings.Replace(asFile, "vnc.html", "x.html", 1), 404},
	{"path too long", strings.Replace(asFile, "vnc.html", strings.Repeat("x", 200)+".html", 1), 404},
	{"file upgraded", strings.Replace(asFile, "\n\n", "\nUpgrade: websocket\nConnection: Upgrade\n\n", 1), 501},

	{"display without origin", strings.Replace(asSocket, "Origin: http://{A}\n", "", 1), 403},
	{"display for another origin", strings.Replace(asSocket, "Origin: http://{A}", "Origin: https://{A}", 1), 403},
	{"display for another port", strings.Replace(asSocket, "Origin: http://{A}", "Origin: http://127.0.0.1:1", 1), 403},
	{"display for another name of us", strings.Replace(asSocket, "Origin: http://{A}", "Origin: http://localhost:{P}", 1), 403},
	{"display for null", strings.Replace(asSocket, "Origin: http://{A}", "Origin: null", 1), 403},
	{"display for two origins", strings.Replace(asSocket, "Origin: http://{A}", "Origin: http://{A}\nOrigin: http://{A}", 1), 403},
	{"display as a file", strings.Replace(asFile, "vnc.html", "websockify", 1), 403},
	{"display of old version", strings.Replace(asSocket, "Version: 13", "Version: 8", 1), 400},
	{"display by other protocol", strings.Replace(asSocket, "Upgrade: websocket", "Upgrade: h2c", 1), 501},
	{"display with a query", strings.Replace(asSocket, "websockify", "websockify?token=x", 1), 400},
}

func TestWatchRefusals(t *testing.T) {
	d := newDisplay(t)
	w := openWatch(t, d, nil)
	_, _, unauthorized := watchSay(t, w, watchRefusals[0].request)
	for _, tt := range watchRefusals {
		t.Run(tt.name, func(t *testing.T) {
			before := d.asked()
			status, head, body := watchSay(t, w, tt.request)
			if status != tt.want {
				t.Errorf("status %d, want %d: %s", status, tt.want, body)
			}
			if status == 401 && body != unauthorized {
				t.Errorf("the answer tells something: %q", body)
			}
			if head.Get("Set-Cookie") != "" || head.Get("Location") != "" || head.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("a refusal gives %v", head)
			}
			if head.Get("X-Frame-Options") != "DENY" || strings.Contains(head.Get("Content-Security-Policy"), "evil") {
				t.Errorf("a refusal has %v", head)
			}
			if d.asked() > before && tt.name != "file that is not there" {
				t.Error("the server inside was asked")
			}
		})
	}
	if status, _, _ := watchSay(t, w, useLink); status != 303 {
		t.Errorf("after all these refusals the link is used up: status %d", status)
	}
	if status, _, _ := watchSay(t, w, asFile); status != 200 {
		t.Errorf("the control is refused: status %d", status)
	}
	if status, _, _ := watchSay(t, w, asSocket); status != 101 {
		t.Errorf("the control is refused: status %d", status)
	}
}

// TestHostileServer checks that only files of the server inside reach a
// viewer.
func TestHostileServer(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   int
	}{
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://evil.example/", http.StatusFound)
		}, 502},
		{"too large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, fileBytes+1)) }, 502},
		{"as large as it may be", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, fileBytes)) }, 200},
		{"failure", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "evil", 500) }, 502},
		{"asks for a password", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", "Basic realm=evil")
			w.WriteHeader(401)
		}, 502},
		{"breaks", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 502},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDisplay(t)
			d.answer = tt.answer
			w := openWatch(t, d, nil)
			status, head, body := watchSay(t, w, asFile)
			if status != tt.want || head.Get("Location") != "" || head.Get("WWW-Authenticate") != "" || strings.Contains(body, "evil") {
				t.Errorf("status %d, want %d: %v %.100s", status, tt.want, head, body)
			}
			if tt.want != 200 {
				if status, _, _ := watchSay(t, w, asSocket); status != 502 {
					t.Errorf("the display: status %d, want 502", status)
				}
			}
		})
	}
}

// FuzzWatchClassify checks the common properties of all accepted requests.
func FuzzWatchClassify(f *testing.F) {
	s := secrets{link: "LLLLLLLLLL", folder: "FFFFFFFFFF", cookie: "CCCCCCCCCC"}
	for _, target := range []string{"/open/LLLLLLLLLL", "/FFFFFFFFFF/vnc.html", "/FFFFFFFFFF/../x.js", "/FFFFFFFFFF/websockify", "/FFFFFFFFFF/a//b.js"} {
		f.Add("GET", target, "localhost:80", "sandbox-watch=CCCCCCCCCC", "", "")
		f.Add("GET", target, "127.0.0.1:80", "a=b; sandbox-watch=\"CCCCCCCCCC\"", "http://127.0.0.1:80", "websocket")
	}
	f.Fuzz(func(t *testing.T, method, target, host, cookie, origin, upgrade string) {
		h := guardHead{Method: method, Target: target, Host: host, Peer: netip.MustParseAddr("::1"), Header: map[string][]string{
			"Cookie": {cookie}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="},
		}}
		if origin != "" {
			h.Header["Origin"] = []string{origin}
		}
		if upgrade != "" {
			h.Header["Upgrade"], h.Header["Connection"] = []string{upgrade}, []string{"upgrade"}
		}
		want, refusal := watchClassify(h, s, guardRules{Port: 80, Pages: true})
		switch {
		case refusal != nil:
		case method != "GET":
			t.Errorf("method %q was let in", method)
		case origin != "" && origin != "http://"+host:
			t.Errorf("origin %q was let in", origin)
		case want.kind == link && target != "/open/LLLLLLLLLL":
			t.Errorf("%q counts as the link", target)
		case want.kind != link && !strings.Contains(cookie, s.cookie):
			t.Errorf("cookie %q was let in", cookie)
		case want.kind == file && (want.path != strings.TrimPrefix(target, "/FFFFFFFFFF") || strings.Contains(want.path, "..") ||
			strings.ContainsAny(want.path, "%\\ ?#\r\n") || strings.Contains(want.path, "//") || want.mime == "" || upgrade != ""):
			t.Errorf("the server inside is asked %q", want.path)
		case want.kind == display && (origin == "" || !strings.EqualFold(upgrade, "websocket")):
			t.Errorf("origin %q sees the display by %q", origin, upgrade)
		}
	})
}
