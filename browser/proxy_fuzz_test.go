package browser

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
)

func mustAddr(s string) netip.Addr { return netip.MustParseAddr(s) }

func head(method, target, host string, header map[string][]string) guardHead {
	return guardHead{Method: method, Target: target, Host: host, Peer: mustAddr("127.0.0.1"), Header: header}
}

// FuzzProxyClassify checks the common properties of all accepted requests.
func FuzzProxyClassify(f *testing.F) {
	const text = "0123456789abcdef0123456789abcdef"
	for _, target := range []string{
		"/" + text + "/json/version", "/" + text + "/json/new?http://a/" + text, "/json/list", "/" + text + "/devtools/page/A",
		"/" + text + "/devtools/../json", "//" + text + "/json", "http://127.0.0.1:80/" + text + "/json", "/" + text + "/json/close/%2e",
	} {
		f.Add("GET", target, "127.0.0.1:80", "Bearer "+text, "", "")
		f.Add("PUT", target, "localhost:80", "", "null", "websocket")
		f.Add("GET", target, "[::1]:80", "Bearer x", "", "websocket")
	}
	tok, err := newToken(text)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, target, host, bearer, origin, upgrade string) {
		header := map[string][]string{
			"Connection": {"Upgrade"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="},
		}
		for name, value := range map[string]string{"Authorization": bearer, "Origin": origin, "Upgrade": upgrade} {
			if value != "" {
				header[name] = []string{value}
			}
		}
		if upgrade == "" {
			delete(header, "Connection")
		}
		want, refusal := proxyClassify(head(method, target, host, header), tok, guardRules{Port: 80})
		if refusal != nil {
			if want != (proxyWish{}) && want.key == "" && want.kind != socket {
				t.Errorf("refused, and yet wanted: %+v", want)
			}
			return
		}
		path, _, _ := strings.Cut(want.target, "?")
		switch {
		case origin != "":
			t.Error("a page was let in")
		case !strings.Contains(target, text) && !strings.Contains(bearer, text):
			t.Error("nobody showed the token")
		case strings.Contains(want.target, text):
			t.Errorf("the token goes to the browser: %q", want.target)
		case strings.ContainsAny(want.target, " \r\n\t\x00"), strings.ContainsAny(path, "%\\.;?#"), strings.Contains(path, "//"):
			t.Errorf("the browser is asked %q", want.target)
		case !strings.HasPrefix(path, "/json") && !strings.HasPrefix(path, "/devtools/"):
			t.Errorf("the browser is asked %q", want.target)
		case !strings.HasSuffix(host, ":80"):
			t.Errorf("host %q was let in", host)
		case want.kind == socket != (upgrade != ""):
			t.Errorf("upgrade %q became %+v", upgrade, want)
		case method != "GET" && method != "PUT":
			t.Errorf("method %q was let in", method)
		}
	})
}

// FuzzRebuild checks that no output of a browser leads a client elsewhere.
func FuzzRebuild(f *testing.F) {
	for _, s := range []string{
		`{"Browser":"x","webSocketDebuggerUrl":"ws://a/devtools/browser/B"}`, `[{"id":"A","webSocketDebuggerUrl":"ws://a/devtools/page/A"}]`,
		`{"id":"A","devtoolsFrontendUrl":"http://evil"}`, `null`, `[null]`, `{"webSocketDebuggerUrl":"wss://evil/devtools/page/A"}`,
		`{"webSocketDebuggerUrl":"ws://a/devtools/page/A\r\nX: y"}`, `{"version":{"major":"1"},"domains":[{"types":[{}]}]}`,
	} {
		f.Add([]byte(s))
	}
	const place = "ws://127.0.0.1:80/T"
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, k := range []proxyKind{version, list, opened, protocol} {
			got, err := rebuild(k, body, place)
			if err != nil {
				continue
			}
			if !json.Valid(got) {
				t.Fatalf("kind %d: no JSON: %q", k, got)
			}
			var pages []page
			if k == list {
				_ = json.Unmarshal(got, &pages)
			} else if k != protocol {
				pages = make([]page, 1)
				_ = json.Unmarshal(got, &pages[0])
			}
			for _, p := range pages {
				if rest, ok := strings.CutPrefix(p.WebSocket, place); p.WebSocket != "" && (!ok || !strings.HasPrefix(rest, "/devtools/") ||
					!isID(rest[strings.LastIndexByte(rest, '/')+1:])) {
					t.Fatalf("kind %d: a client is led to %q", k, p.WebSocket)
				}
			}
			if k != protocol && bytes.Contains(got, []byte("devtoolsFrontendUrl\":")) {
				t.Fatalf("kind %d: the front end is in %q", k, got)
			}
		}
	})
}
