package server

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// knock sends the head of a request to a port of the host, and returns the
// status and the body.
func (w *world) knock(at, head string) (int, http.Header, string) {
	w.t.Helper()
	conn, err := net.DialTimeout("tcp", at, time.Minute)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer conn.Close()
	must(w.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, strings.ReplaceAll(w.fill(head), "\n", "\r\n"))
	must(w.t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(w.t, err)
	defer res.Body.Close()
	if res.StatusCode == http.StatusSwitchingProtocols {
		return res.StatusCode, res.Header, ""
	}
	body, err := io.ReadAll(res.Body)
	must(w.t, err)
	return res.StatusCode, res.Header, string(body)
}

const shake = "Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n"

// bridges sends requests to the CDP proxy of B with the keys of A, and to that
// of A with B's.
func (w *world) bridges(t *testing.T) {
	const host = "Host: {at b}\n"
	for name, k := range map[string]struct {
		at, head string
		want     int
	}{
		"without a key":                    {"b", "GET /json/version HTTP/1.1\n" + host + "\n", 401},
		"with A's key":                     {"b", "GET /{key of a}/json/version HTTP/1.1\n" + host + "\n", 401},
		"with A's key, to the page of B":   {"b", "GET /{key of a}/{page of b} HTTP/1.1\n" + host + shake + "\n", 401},
		"with A's key as a bearer":         {"b", "GET /json/list HTTP/1.1\n" + host + "Authorization: Bearer {key of a}\n\n", 401},
		"with A's token of the daemon":     {"b", "GET /json/list HTTP/1.1\n" + host + "Authorization: Bearer {token of a}\n\n", 401},
		"with B's token of the daemon":     {"b", "GET /json/list HTTP/1.1\n" + host + "Authorization: Bearer {token of b}\n\n", 401},
		"with the key in the query":        {"b", "GET /json/list?token={key of b} HTTP/1.1\n" + host + "\n", 401},
		"from a page":                      {"b", "GET /{key of b}/json/list HTTP/1.1\n" + host + "Origin: http://workspace.invalid\n\n", 403},
		"by another name":                  {"b", "GET /{key of b}/json/list HTTP/1.1\nHost: evil.example:{port of b}\n\n", 421},
		"with B's key at A's":              {"a", "GET /{key of b}/json/version HTTP/1.1\nHost: {at a}\n\n", 401},
		"with B's key at A's, to B's page": {"a", "GET /{key of b}/{page of b} HTTP/1.1\nHost: {at a}\n" + shake + "\n", 401},
		"with B's key at the daemon":       {"", "GET /v1/sandboxes/{box}/browser HTTP/1.1\nHost: {host}\nAuthorization: Bearer {key of b}\n\n", 401},
		"control/key of B":                 {"b", "GET /{key of b}/json/version HTTP/1.1\n" + host + "\n", 200},
		"control/key of B as a bearer":     {"b", "GET /json/version HTTP/1.1\n" + host + "Authorization: Bearer {key of b}\n\n", 200},
		"control/page of B":                {"b", "GET /{key of b}/{page of b} HTTP/1.1\n" + host + shake + "\n", 101},
		"control/key of A at A's":          {"a", "GET /{key of a}/{page of a} HTTP/1.1\nHost: {at a}\n" + shake + "\n", 101},
	} {
		t.Run(name, func(t *testing.T) {
			at := w.addr
			if k.at != "" {
				at = w.ids["at "+k.at]
			}
			status, _, body := w.knock(at, k.head)
			if status != k.want {
				t.Errorf("%d, want %d: %s", status, k.want, body)
			}
			if k.want >= 400 && strings.Contains(body, w.ids["key of b"]) {
				t.Errorf("it tells the key: %s", body)
			}
		})
	}
}

// link requests a new link to the display of the tenant who, which ends the
// earlier one.
func (w *world) link(who string) {
	w.t.Helper()
	box := map[string]string{"a": "mine", "b": "box"}[who]
	reported := is[api.Browser](w.t, w.send(w.tokens[who], "POST", "/v1/sandboxes/"+w.ids[box]+"/browser", `{"watch":true}`), 200)
	w.linked(who, reported.WatchURL)
}

// linked stores the parts of the link to the display of the tenant who.
func (w *world) linked(who, address string) {
	w.t.Helper()
	u, err := url.Parse(address)
	must(w.t, err)
	w.ids["watch of "+who], w.ids["once of "+who] = u.Host, u.Path
}

// displays sends requests to the display of B, before its person has connected
// and after.
func (w *world) displays(t *testing.T) {
	cookies := map[string]string{}
	folder := map[string]string{}
	enter := func(who string) (int, string) {
		status, header, body := w.knock(w.ids["watch of "+who], "GET {once of "+who+"} HTTP/1.1\nHost: {watch of "+who+"}\n\n")
		if c, _, ok := strings.Cut(header.Get("Set-Cookie"), ";"); ok {
			cookies[who] = c
			u, err := url.Parse(header.Get("Location"))
			must(t, err)
			folder[who] = u.Path[:strings.LastIndex(u.Path, "/")+1]
		}
		return status, body
	}
	knock := func(name, head string, want int) {
		t.Helper()
		if status, _, body := w.knock(w.ids["watch of b"], head); status != want {
			t.Errorf("%s: %d, want %d: %s", name, status, want, body)
		}
	}
	const host = " HTTP/1.1\nHost: {watch of b}\n"
	w.link("a") // those of the beginning are good for a minute, which may be over
	if status, body := enter("a"); status/100 != 3 || cookies["a"] == "" {
		t.Fatalf("control: A's own link is answered %d %s", status, body)
	}
	w.link("b")
	knock("A's link at B's display", "GET {once of a}"+host+"\n", 401)
	knock("A's cookie at B's display", "GET "+folder["a"]+"vnc.html"+host+"Cookie: "+cookies["a"]+"\n\n", 401)
	knock("A's token of the daemon", "GET /vnc.html"+host+"Authorization: Bearer {token of a}\n\n", 401)
	knock("the key of B's bridge", "GET /vnc.html"+host+"Authorization: Bearer {key of b}\n\n", 401)
	knock("B's link by a page", "GET {once of b}"+host+"Origin: http://workspace.invalid\n\n", 403)
	knock("B's link by another name", "GET {once of b} HTTP/1.1\nHost: evil.example\n\n", 421)
	if status, body := enter("b"); status/100 != 3 || cookies["b"] == "" {
		t.Fatalf("control: B's own link is answered %d %s", status, body)
	}
	knock("B's link when B has come", "GET {once of b}"+host+"\n", 401)
	knock("B's page without B's cookie", "GET "+folder["b"]+"vnc.html"+host+"\n", 401)
	knock("B's page with A's cookie", "GET "+folder["b"]+"vnc.html"+host+"Cookie: "+cookies["a"]+"\n\n", 401)
	knock("B's display without B's cookie", "GET "+folder["b"]+"websockify"+host+"Origin: http://{watch of b}\n"+shake+"\n", 401)
	knock("control: B's page", "GET "+folder["b"]+"vnc.html"+host+"Cookie: "+cookies["b"]+"\n\n", 200)
}

// A driver is a program that uses the plain DevTools protocol.
type driver struct {
	t    *testing.T
	ctx  context.Context
	conn *websocket.Conn
	last int
}

func (w *world) driver(t *testing.T, at string) *driver {
	ctx, done := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(done)
	conn, _, err := websocket.Dial(ctx, w.fill(at), nil)
	must(t, err)
	t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(64 << 20)
	return &driver{t: t, ctx: ctx, conn: conn}
}

// call returns the whole answer.
func (d *driver) call(session, method string, params any) string {
	d.t.Helper()
	d.last++
	m := map[string]any{"id": d.last, "method": method, "params": params}
	if session != "" {
		m["sessionId"] = session
	}
	must(d.t, d.conn.Write(d.ctx, websocket.MessageText, []byte(text(d.t, m))))
	for {
		_, data, err := d.conn.Read(d.ctx)
		must(d.t, err)
		var head struct{ ID int }
		if json.Unmarshal(data, &head) == nil && head.ID == d.last {
			return string(data)
		}
	}
}

// get returns a field of the result of an answer.
func (d *driver) get(answer string, path ...string) any {
	var v any
	must(d.t, json.Unmarshal([]byte(answer), &v))
	for _, name := range append([]string{"result"}, path...) {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// byProtocol has A drive its own browser by the plain protocol, where no limit
// of a session applies, and look for data of B.
func (w *world) byProtocol(t *testing.T) {
	a, b := w.driver(t, "{bridge of a}"), w.driver(t, "{bridge of b}")
	// A CDP proxy serves one browser, whatever page is requested.
	if got := w.driver(t, "ws://{at a}/{key of a}/{page of b}").call("", "Target.getTargets", map[string]any{}); strings.Contains(got, secret) || !strings.Contains(got, "page of mine") {
		t.Errorf("the id of B's browser leads A to %s", got)
	}
	targets := a.call("", "Target.getTargets", map[string]any{})
	if !strings.Contains(targets, "page of mine") || strings.Contains(targets, secret) {
		t.Errorf("A sees %s", targets)
	}
	if theirs := b.call("", "Target.getTargets", map[string]any{}); !strings.Contains(theirs, secret) {
		t.Errorf("control: B does not see its own page: %s", theirs)
	} else if m := b.get(theirs, "targetInfos").([]any); len(m) > 0 {
		for _, one := range m {
			info := one.(map[string]any)
			if got := a.call("", "Target.attachToTarget", map[string]any{"targetId": info["targetId"], "flatten": true}); a.get(got, "sessionId") != nil {
				t.Errorf("A is in a page of B: %s", got)
			}
		}
	}
	for name, address := range map[string]string{
		"B's bridge": "{http of b}/json/version", "B's display": "http://{watch of b}/vnc.html", "the daemon": "http://{host}/readyz", "B's container": "http://{browser of b}:9222/json/version",
		"the host's file": "file://{folder}/secret.html", "a file inside": "file:///etc/passwd", "its own port": "http://127.0.0.1:9222/json/version", "B's page": "http://workspace.invalid/secret.html",
	} {
		made := a.call("", "Target.createTarget", map[string]any{"url": w.fill(address)})
		target, _ := a.get(made, "targetId").(string)
		if target == "" {
			continue // it opens none
		}
		session, _ := a.get(a.call("", "Target.attachToTarget", map[string]any{"targetId": target, "flatten": true}), "sessionId").(string)
		// The answer arrives when a page is there, the requested one or an error
		// page; a page that navigates on interrupts the wait, which begins
		// again.
		a.call(session, "Page.navigate", map[string]any{"url": w.fill(address)})
		const loaded = "new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done)).then(() => document.documentElement.textContent)"
		shown := ""
		w.until("the page of "+name+" has loaded", func() bool {
			shown = a.call(session, "Runtime.evaluate", map[string]any{"expression": loaded, "awaitPromise": true, "returnByValue": true})
			return a.get(shown, "result", "type") == "string"
		})
		for _, tell := range []string{secret, "webSocketDebuggerUrl", "root:x:0", "noVNC_", `"ready"`} {
			if strings.Contains(shown, tell) {
				t.Errorf("%s shows %s", name, shown)
			}
		}
		a.call("", "Target.closeTarget", map[string]any{"targetId": target})
	}
	made := a.call("", "Target.createTarget", map[string]any{"url": "about:blank"})
	session, _ := a.get(a.call("", "Target.attachToTarget", map[string]any{"targetId": a.get(made, "targetId"), "flatten": true}), "sessionId").(string)
	if got := a.call(session, "Runtime.evaluate", map[string]any{"expression": "'so' + 'me'", "returnByValue": true}); !strings.Contains(got, "some") {
		t.Errorf("control: nothing is evaluated: %s", got)
	}
}

// fromInside has code in A's sandbox connect to B's browser and its proxies.
func (w *world) fromInside(t *testing.T) {
	knock := func(before, host, port string) string {
		line := before + "python3 -c 'import socket; socket.create_connection((\"" + w.fill(host) + "\", " + w.fill(port) + "), 5); print(\"open\")' 2>&1; true"
		return w.exec(w.tokens["a"], w.ids["mine"], line).Stdout
	}
	for name, at := range map[string][2]string{
		"B's browser": {"{browser of b}", "9222"}, "B's display": {"{browser of b}", "6080"}, "A's browser": {"{browser of a}", "9222"}, "B's bridge": {"127.0.0.1", "{port of b}"},
		"B's bridge at the host": {"172.17.0.1", "{port of b}"}, "one's own port of the protocol": {"127.0.0.1", "9222"},
	} {
		if got := knock("", at[0], at[1]); !strings.Contains(got, "Traceback") || strings.Contains(got, "open\n") {
			t.Errorf("%s: %s", name, got)
		}
	}
	// The loop in the first line waits until the server listens; the last line
	// reports whether the connection succeeded.
	const listening = "python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 & " +
		"for i in $(seq 300); do python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8123), 5)' 2>/dev/null && break; sleep 0.2; done; "
	if got := knock(listening, "127.0.0.1", "8123"); !strings.Contains(got, "open") {
		t.Errorf("control: a port of its own: %s", got)
	}
}

// afterToken holds that connections to a browser end with the token that asked
// for them, and those of others do not.
func (w *world) afterToken(t *testing.T) {
	minted := w.mint(w.tokens["b"], api.CreateToken{Role: "session", Session: sessionB, TTLSeconds: 3600})
	reported := is[api.Browser](t, w.send(minted.Secret, "POST", "/v1/sandboxes/"+w.ids["box"]+"/browser", `{"watch":true}`), 200)
	u, err := url.Parse(reported.WatchURL)
	must(t, err)
	up := func(at string) bool {
		conn, err := net.DialTimeout("tcp", at, 10*time.Second)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	if !up(u.Host) {
		t.Error("control: nobody listens for the person")
	}
	is[api.Revoked](t, w.send(w.tokens["b"], "DELETE", "/v1/tokens/"+minted.ID, ""), 200)
	w.until("the display is shut when its token was taken back", func() bool { return !up(u.Host) })
	if !up(w.ids["at b"]) {
		t.Error("the bridge of another token has ended, too")
	}
}
