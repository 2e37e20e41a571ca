package console

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// An attempt is a request that must be refused with one of the statuses.
type attempt struct {
	name   string
	method string
	path   string
	body   string
	header []string
	want   []int
}

// TestAttackConsole holds what no page, program and thief gets by the console: each
// attempt is refused, and the control beside each group is not.
func TestAttackConsole(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := strings.TrimPrefix(r.box, "/v1/sandboxes/")
	own, other, reader := r.login("acme", false), r.login("evil", false), r.login("acme", true)
	// Everything that the console's page sends, less what with takes away or changes.
	with := func(b browser, changes ...string) []string {
		h := []string{"Cookie", b.cookie, api.HeaderConsole, b.key, "Origin", r.base, "Sec-Fetch-Site", "same-origin", "Content-Type", "application/json"}
		for i := 0; i+1 < len(changes); i += 2 {
			for at := 0; at < len(h); at += 2 {
				if h[at] == changes[i] {
					h = slices.Delete(h, at, at+2)
					break
				}
			}
			if changes[i+1] != "" {
				h = append(h, changes[i], changes[i+1])
			}
		}
		return h
	}
	socket := func(b browser, changes ...string) []string {
		return with(b, append([]string{api.HeaderConsole, "", "Content-Type", "", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol", protocol + ", " + keyProtocol + b.key}, changes...)...)
	}
	link := func() string { return `{"secret":"` + r.secret("acme", false) + `"}` }
	page := []string{"Origin", r.base, "Content-Type", "application/json"}
	exec, line := r.box+"/exec", `{"line":"id"}`
	name2, _, _ := strings.Cut(own.cookie, "=")
	port := r.host[strings.LastIndexByte(r.host, ':'):]
	no := []int{401, 403}

	groups := map[string][]attempt{
		"login": {
			{"by GET", "GET", "/ui/login", "", nil, []int{405}},
			{"secret in the query", "GET", "/ui/login?secret=" + r.secret("acme", false), "", nil, []int{405}},
			{"no origin", "POST", "/ui/login", link(), []string{"Content-Type", "application/json"}, no},
			{"foreign origin", "POST", "/ui/login", link(), []string{"Origin", "http://evil.example", "Content-Type", "application/json"}, no},
			{"opaque origin", "POST", "/ui/login", link(), []string{"Origin", "null", "Content-Type", "application/json"}, no},
			{"origin of another port", "POST", "/ui/login", link(), []string{"Origin", "http://127.0.0.1:1", "Content-Type", "application/json"}, no},
			{"origin of another loopback name", "POST", "/ui/login", link(), []string{"Origin", "http://localhost" + port, "Content-Type", "application/json"}, no},
			{"origin of a preview", "POST", "/ui/login", link(), []string{"Origin", "http://8000-aaaaaaaaaaaaaaaa.localhost" + port, "Content-Type", "application/json"}, no},
			{"origin with a user", "POST", "/ui/login", link(), []string{"Origin", "http://" + r.host + "@evil.example", "Content-Type", "application/json"}, no},
			{"two origins", "POST", "/ui/login", link(), []string{"Origin", r.base, "Origin", "http://evil.example", "Content-Type", "application/json"}, no},
			{"cross site", "POST", "/ui/login", link(), append([]string{"Sec-Fetch-Site", "cross-site"}, page...), no},
			{"same site", "POST", "/ui/login", link(), append([]string{"Sec-Fetch-Site", "same-site"}, page...), no},
			{"typed address", "POST", "/ui/login", link(), append([]string{"Sec-Fetch-Site", "none"}, page...), no},
			{"form", "POST", "/ui/login", "secret=x", []string{"Origin", r.base, "Content-Type", "application/x-www-form-urlencoded"}, []int{422}},
			{"plain text", "POST", "/ui/login", link(), []string{"Origin", r.base, "Content-Type", "text/plain"}, []int{422}},
			{"wrong secret", "POST", "/ui/login", `{"secret":"AAAAAAAAAAAAAAAAAAAAAAAAAA"}`, page, no},
			{"no secret", "POST", "/ui/login", `{"secret":""}`, page, []int{422}},
			{"unknown field", "POST", "/ui/login", `{"secret":"A","role":"admin"}`, page, []int{422}},
			{"two secrets", "POST", "/ui/login", `{"secret":"A","secret":"B"}`, page, []int{422}},
			{"long body", "POST", "/ui/login", `{"secret":"` + strings.Repeat("A", 4096) + `"}`, page, []int{422}},
			{"no JSON", "POST", "/ui/login", `<x>`, page, []int{422}},
			{"name that resolves to us", "POST", "/ui/login", link(), []string{"Host", "evil.example", "Origin", "http://evil.example", "Content-Type", "application/json"}, no},
			{"name that begins with ours", "POST", "/ui/login", link(), []string{"Host", "localhost.evil.example", "Origin", "http://localhost.evil.example", "Content-Type", "application/json"}, no},
			{"listed name without TLS", "POST", "/ui/login", link(), []string{"Host", "sandbox.example", "Origin", "http://sandbox.example", "Content-Type", "application/json"}, no},
		},
		"page": {
			{"name that resolves to us", "GET", "/ui/", "", []string{"Host", "evil.example"}, no},
			{"decimal address", "GET", "/ui/", "", []string{"Host", "2130706433"}, no},
			{"address in IPv6", "GET", "/ui/", "", []string{"Host", "[::ffff:127.0.0.1]"}, no},
			{"host of a preview", "GET", "/ui/", "", []string{"Host", "8000-aaaaaaaaaaaaaaaa.localhost" + port}, no},
			{"as script of another site", "GET", "/ui/", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"}, no},
			{"in a frame of another site", "GET", "/ui/", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, no},
			{"in a frame of a sibling", "GET", "/ui/", "", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, no},
			{"posted to from another site", "POST", "/ui/", "", []string{"Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, no},
			{"file above", "GET", "/ui/../v1/console", "", nil, []int{400, 404}},
			{"file above, escaped", "GET", "/ui/%2e%2e/v1/console", "", nil, []int{404}},
			{"file above, slash escaped", "GET", "/ui/..%2f..%2fetc%2fpasswd", "", nil, []int{404}},
			{"file above, backslash", "GET", "/ui/..%5cindex.html", "", nil, []int{404}},
			{"two slashes", "GET", "/ui//evil.example/", "", nil, []int{404}},
			{"NUL", "GET", "/ui/%00", "", nil, []int{404}},
			{"other case", "GET", "/UI/", "", nil, no},
			{"near miss", "GET", "/uix", "", nil, no},
			{"folder", "GET", "/ui/assets/", "", nil, []int{404}},
			{"changed", "DELETE", "/ui/index.html", "", nil, []int{405}},
		},
		"theft": {
			{"cookie alone", "GET", "/v1/console", "", []string{"Cookie", own.cookie}, no},
			{"cookie alone, as another port's page sends it", "POST", exec, line, []string{"Cookie", own.cookie, "Origin", "http://127.0.0.1:8000", "Content-Type", "application/json"}, no},
			{"key alone", "GET", "/v1/console", "", []string{api.HeaderConsole, own.key}, no},
			{"key of another login", "GET", "/v1/console", "", with(own, api.HeaderConsole, other.key), no},
			{"cookie of another login", "GET", "/v1/console", "", with(own, "Cookie", other.cookie), no},
			{"key in the query", "GET", "/v1/console?Sandbox-Console=" + own.key, "", with(own, api.HeaderConsole, ""), no},
			{"key as bearer", "GET", "/v1/console", "", with(own, "Authorization", "Bearer "+own.key), no},
			{"cookie as key", "GET", "/v1/console", "", with(own, api.HeaderConsole, strings.TrimPrefix(own.cookie, name2+"=")), no},
			{"two keys", "GET", "/v1/console", "", append(with(own), api.HeaderConsole, other.key), no},
			{"cookie of another port's name", "GET", "/v1/console", "", with(own, "Cookie", "sandbox-console-1="+strings.TrimPrefix(own.cookie, name2+"=")), no},
			{"key as a subprotocol without a WebSocket", "GET", "/v1/console", "", with(own, api.HeaderConsole, "", "Sec-WebSocket-Protocol", keyProtocol+own.key), no},
			{"empty cookie and key", "GET", "/v1/console", "", with(own, "Cookie", name2+"=", api.HeaderConsole, ""), no},
			{"many cookies before it", "GET", "/v1/console", "", with(own, "Cookie", strings.Repeat(name2+"=x; ", 20)+own.cookie), no},
			{"at the tools", "POST", "/mcp", "{}", with(own), no},
			{"at the metrics", "GET", "/metrics", "", with(own), no},
			{"at the readiness", "GET", "/readyz", "", with(own), no},
			{"at the document", "GET", "/openapi.json", "", with(own), no},
			{"port of a sandbox by path", "GET", r.box + "/ports/8000/", "", with(own), no},
			{"port of a sandbox by path, deeper", "GET", r.box + "/ports/8000/a/b", "", with(own), no},
			{"tunnel to a port", "GET", r.box + "/ports/8000", "", socket(own), no},
			{"link for another login", "POST", "/v1/console/links", "{}", with(own), no},
			{"two slashes", "GET", "//v1/console", "", with(own), no},
			{"above", "GET", "/ui/../v1/console", "", with(own), []int{400, 401, 403, 404}},
			{"host of a preview", "GET", "/v1/console", "", with(own, "Host", "8000-aaaaaaaaaaaaaaaa.localhost"+port), no},
			{"name that resolves to us", "GET", "/v1/console", "", with(own, "Host", "evil.example", "Origin", "http://evil.example"), no},
		},
		"forgery": {
			{"no origin", "POST", exec, line, with(own, "Origin", "", "Sec-Fetch-Site", ""), no},
			{"foreign origin", "POST", exec, line, with(own, "Origin", "https://evil.example"), no},
			{"opaque origin, as of a page by path", "POST", exec, line, with(own, "Origin", "null", "Sec-Fetch-Site", "cross-site"), no},
			{"origin of a preview", "POST", exec, line, with(own, "Origin", "http://8000-aaaaaaaaaaaaaaaa.localhost"+port, "Sec-Fetch-Site", "same-site"), no},
			{"other scheme", "POST", exec, line, with(own, "Origin", "file://"+r.host), no},
			{"same site", "POST", exec, line, with(own, "Sec-Fetch-Site", "same-site"), no},
			{"cross site", "POST", exec, line, with(own, "Sec-Fetch-Site", "cross-site"), no},
			{"typed address", "POST", exec, line, with(own, "Origin", "", "Sec-Fetch-Site", "none"), no},
			{"two sites", "POST", exec, line, append(with(own), "Sec-Fetch-Site", "same-origin"), no},
			{"form of another page", "POST", exec, "line=id", with(own, api.HeaderConsole, "", "Content-Type", "application/x-www-form-urlencoded", "Origin", "http://evil.example"), no},
			{"removal", "DELETE", r.box, "", with(own, "Origin", "http://evil.example"), no},
			{"write", "PUT", r.box + "/files/workspace/x", "x", with(own, "Origin", "http://evil.example"), no},
			{"logout", "DELETE", "/v1/console", "", with(own, "Origin", "http://evil.example"), no},
			{"read of another site", "GET", r.box, "", with(own, "Origin", "", "Sec-Fetch-Site", "cross-site"), no},
			{"read of a sibling", "GET", r.box, "", with(own, "Origin", "", "Sec-Fetch-Site", "same-site"), no},
			{"method in a header", "GET", r.box, "", with(reader, "X-HTTP-Method-Override", "DELETE", "Origin", "http://evil.example"), no},
		},
		"sockets": {
			{"foreign origin", "GET", r.box + "/pty", "", socket(own, "Origin", "http://evil.example"), no},
			{"no origin", "GET", r.box + "/pty", "", socket(own, "Origin", "", "Sec-Fetch-Site", ""), no},
			{"origin of a preview", "GET", r.box + "/attach", "", socket(own, "Origin", "http://8000-aaaaaaaaaaaaaaaa.localhost"+port), no},
			{"opaque origin", "GET", r.box + "/attach", "", socket(own, "Origin", "null"), no},
			{"cross site", "GET", r.box + "/pty", "", socket(own, "Sec-Fetch-Site", "cross-site"), no},
			{"no key", "GET", r.box + "/pty", "", socket(own, "Sec-WebSocket-Protocol", protocol), no},
			{"wrong key", "GET", r.box + "/pty", "", socket(own, "Sec-WebSocket-Protocol", protocol+", "+keyProtocol+other.key), no},
			{"no cookie", "GET", r.box + "/pty", "", socket(own, "Cookie", ""), no},
			{"another tenant by subprotocol", "GET", r.box + "/pty", "", socket(other, "Sec-WebSocket-Protocol", protocol+", "+keyProtocol+other.key+", "+tenantProtocol+"acme"), no},
			{"another tenant's sandbox", "GET", r.box + "/pty", "", socket(other), []int{404}},
			{"to look on alone", "GET", r.box + "/pty", "", socket(reader), no},
			{"attach to look on alone", "GET", r.box + "/attach", "", socket(reader), no},
			{"lend to look on alone", "GET", "/v1/lend", "", socket(reader), no},
		},
		"tenants": {
			{"sandbox", "GET", r.box, "", with(other), []int{404}},
			{"command", "POST", exec, line, with(other), []int{404}},
			{"file", "GET", r.box + "/files/workspace?list", "", with(other), []int{404}},
			{"header", "GET", r.box, "", with(other, "Sandbox-Tenant", "acme"), no},
			{"list of all", "GET", "/v1/sandboxes?all=true", "", with(other), no},
			{"events of all", "GET", "/v1/events?all=true", "", with(other), no},
			{"settings", "POST", "/v1/explain", "{}", with(other), no},
			{"token of an admin", "POST", "/v1/tokens", `{"role":"admin"}`, with(other), no},
			{"token of another tenant", "POST", "/v1/tokens", `{"role":"tenant","tenant":"acme"}`, with(other), no},
		},
	}
	n := 0
	for group, attempts := range groups {
		for _, a := range attempts {
			n++
			res := r.send(a.method, a.path, a.body, a.header...)
			if !slices.Contains(a.want, res.status) {
				t.Errorf("%s: %s: %d instead of %v: %.300s", group, a.name, res.status, a.want, res.body)
			}
			if res.header.Get("Set-Cookie") != "" || strings.Contains(res.body, name) && res.status < 400 {
				t.Errorf("%s: %s: the answer has something: %v %.300s", group, a.name, res.header, res.body)
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d attempts were made", n)
	}
	// Not one of them has ended the logins, and what the page sends is answered.
	for _, b := range []browser{own, other, reader} {
		if res := r.by(b, "GET", "/v1/console", ""); res.status != 200 {
			t.Errorf("control: %d %s", res.status, res.body)
		}
	}
	if res := r.by(own, "POST", exec, line); res.status != 200 {
		t.Errorf("control: a command: %d %s", res.status, res.body)
	}
	if res := r.by(own, "GET", r.box, ""); res.status != 200 || !strings.Contains(res.body, name) {
		t.Errorf("control: the sandbox: %d %s", res.status, res.body)
	}
	ctx, done := context.WithTimeout(t.Context(), 20*time.Second)
	defer done()
	conn, res, err := websocket.Dial(ctx, "ws://"+r.host+r.box+"/attach", &websocket.DialOptions{
		HTTPHeader: http.Header{"Cookie": {own.cookie}, "Origin": {r.base}}, Subprotocols: []string{protocol, keyProtocol + own.key},
	})
	if err != nil || conn.Subprotocol() != protocol {
		t.Fatalf("control: a WebSocket: %v %v", err, res)
	}
	conn.CloseNow()
}

// TestAttackReadOnly holds that a login that only reads is refused by every route that
// could change something, whatever is asked of it.
func TestAttackReadOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("root", true)
	n := 0
	for _, route := range r.Server.Routes() {
		if route.Role == "" {
			continue
		}
		path := strings.NewReplacer("{name}", strings.TrimPrefix(r.box, "/v1/sandboxes/"), "{path...}", "workspace/x", "{id}", "x", "{pid}", "1", "{port}", "80", "{tool}", "exec", "{ref}", "x").Replace(route.Path)
		if reads := route.Method == http.MethodGet && !route.Socket; reads || route.Safe || !strings.HasPrefix(path, "/v1/") {
			continue
		}
		n++
		res := r.by(b, route.Method, path, "", "Sandbox-Tenant", "acme")
		var p api.Problem
		if err := json.Unmarshal([]byte(res.body), &p); err != nil || res.status != 403 || p.Field != "readOnly" && !strings.Contains(path, "/ports/") {
			t.Errorf("%s %s: %d %s", route.Method, path, res.status, res.body)
		}
	}
	for _, mount := range []string{r.box + "/handles/x", "/mcp", r.box + "/ports/80/x"} {
		if res := r.by(b, "GET", mount, ""); res.status < 400 {
			t.Errorf("GET %s: %d", mount, res.status)
		}
	}
	if n < 25 {
		t.Errorf("only %d routes were tried", n)
	}
	if res := r.by(b, "GET", "/v1/sandboxes?all=true", ""); res.status != 200 || !strings.Contains(res.body, "acme") {
		t.Errorf("control: %d %s", res.status, res.body)
	}
	if res := r.by(b, "POST", "/v1/explain", "{}"); res.status != 200 {
		t.Errorf("control: explain: %d %s", res.status, res.body)
	}
	safe := []string{}
	for _, route := range r.Server.Routes() {
		if route.Safe {
			safe = append(safe, route.ID)
		}
	}
	slices.Sort(safe)
	if !slices.Equal(safe, []string{"endConsole", "explain"}) {
		t.Errorf("routes that change nothing: %v", safe)
	}
}

// TestLinkWorksOnce holds that the second use of a link fails, ends the login of the
// first, and is on record.
func TestLinkWorksOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secret := r.secret("acme", false)
	b := r.open(secret)
	stream := make(chan int, 1)
	go func() { stream <- len(r.by(b, "GET", "/v1/events", "").body) }() // ends with the login
	for range 2 {
		if res := r.send("POST", "/ui/login", `{"secret":"`+secret+`"}`, "Origin", r.base, "Content-Type", "application/json"); res.status != 401 && res.status != 403 {
			t.Fatalf("the second use: %d %s", res.status, res.body)
		}
	}
	if res := r.by(b, "GET", "/v1/console", ""); res.status != 401 {
		t.Errorf("the first login: %d %s", res.status, res.body)
	}
	select {
	case v := <-r.recorded:
		if v.Type != violation.LoginMisuse || v.Tenant != "acme" || !v.Type.Known() || strings.Contains(v.Message+v.Resource, secret) {
			t.Errorf("the record is %+v", v)
		}
	case <-time.After(10 * time.Second):
		t.Error("there is no record")
	}
	select {
	case <-stream:
	case <-time.After(10 * time.Second):
		t.Error("the stream of the login goes on")
	}
}

// TestLoginEnds holds what ends a login.
func TestLoginEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	alive := func(b browser, header ...string) bool {
		t.Helper()
		res := r.by(b, "GET", "/v1/console", "", header...)
		if res.status != 200 && res.status != 401 {
			t.Fatalf("%d %s", res.status, res.body)
		}
		return res.status == 200
	}
	late := r.secret("acme", false)
	r.wait(linkLife)
	if res := r.send("POST", "/ui/login", `{"secret":"`+late+`"}`, "Origin", r.base, "Content-Type", "application/json"); res.status != 401 && res.status != 403 {
		t.Errorf("a link after its time: %d", res.status)
	}
	b := r.login("acme", false)
	for range 3 { // its user is there
		r.wait(idleLife - time.Second)
		if !alive(b) {
			t.Fatal("a login has ended that is used")
		}
	}
	r.wait(idleLife - time.Second)
	if !alive(b, api.HeaderBackground, "1") {
		t.Error("a login has ended too early")
	}
	r.wait(time.Second) // what the page does by itself does not count
	if alive(b) {
		t.Error("a login goes on that was not used")
	}
	b = r.login("acme", false)
	for range int(maxLife/(idleLife/2)) - 1 {
		r.wait(idleLife / 2)
		if !alive(b) {
			t.Fatal("a login has ended before its time")
		}
	}
	r.wait(idleLife / 2)
	if alive(b) {
		t.Error("a login goes on after its time")
	}
	b = r.login("acme", false)
	if res := r.by(b, "DELETE", "/v1/console", ""); res.status != 204 || alive(b) {
		t.Errorf("the logout: %d", res.status)
	}
	secret, id, err := r.Tokens.Create(token.Claims{Role: token.Tenant, Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	pending := r.secret(secret, false)
	b = r.login(secret, false)
	if _, err := r.Tokens.Revoke(id); err != nil {
		t.Fatal(err)
	}
	if alive(b) {
		t.Error("a login goes on whose token is revoked")
	}
	if res := r.send("POST", "/ui/login", `{"secret":"`+pending+`"}`, "Origin", r.base, "Content-Type", "application/json"); res.status != 401 && res.status != 403 {
		t.Errorf("a link of a revoked token: %d", res.status)
	}
	for range mostLinks {
		r.secret("evil", false)
	}
	r.Want(429, "evil", "POST", "/v1/console/links", "{}")
	r.secret("acme", false) // which is another caller
	first := r.login("acme", false)
	for range mostLogins {
		r.login("acme", false)
		r.wait(time.Millisecond)
	}
	if alive(first) {
		t.Error("there are more logins than are allowed")
	}
}

// TestFilesOfTheConsole holds the headers of everything that is served below /ui.
func TestFilesOfTheConsole(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name := range r.console.files {
		res := r.send("GET", "/ui/"+name, "")
		h := res.header
		policy := h.Get("Content-Security-Policy")
		framed := name == displayPage
		if res.status != 200 || h.Get("X-Content-Type-Options") != "nosniff" || (h.Get("X-Frame-Options") != "DENY") != framed || h.Get("Referrer-Policy") != "no-referrer" ||
			h.Get("Cross-Origin-Opener-Policy") != "same-origin" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: %d %v", name, res.status, h)
		}
		parts := []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "script-src 'self';", "require-trusted-types-for 'script'"}
		if framed { // by the page of the console alone, in an origin of its own, and it requests nothing
			parts = []string{"default-src 'none'; script-src 'sha256-", "sandbox allow-scripts;", "frame-ancestors 'self';", "base-uri 'none'", "require-trusted-types-for 'script'"}
			if strings.Contains(policy, "allow-same-origin") || strings.Contains(policy, "connect-src") || strings.Contains(policy, "script-src 'self'") || h.Get("X-Frame-Options") != "SAMEORIGIN" {
				t.Errorf("%s: the policy is %q", name, policy)
			}
			if foreign := r.send("GET", "/ui/"+name, "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"); foreign.status != 403 {
				t.Errorf("%s: in a frame of another page: %d", name, foreign.status)
			}
		}
		for _, part := range parts {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q lacks %s", name, policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || strings.Contains(policy, "http") {
			t.Errorf("%s: the policy is %q", name, policy)
		}
		again := r.send("GET", "/ui/"+name, "", "If-None-Match", h.Get("ETag"))
		if again.status != 304 {
			t.Errorf("%s: again: %d", name, again.status)
		}
		if lasting := strings.HasPrefix(name, "assets/"); lasting != strings.Contains(h.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: cached as %q", name, h.Get("Cache-Control"))
		}
	}
	if res := r.send("GET", "/ui", ""); res.status != 308 || res.header.Get("Location") != "/ui/" {
		t.Errorf("/ui: %d %v", res.status, res.header)
	}
	// A link from a mail or another page opens the page, and does nothing else.
	if res := r.send("GET", "/ui/", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"); res.status != 200 {
		t.Errorf("a followed link: %d %s", res.status, res.body)
	}
	// Behind a proxy with TLS the cookie is of this host alone.
	res := r.send("POST", "/ui/login", `{"secret":"`+r.secret("acme", false)+`"}`, "Host", "sandbox.example", "Origin", "https://sandbox.example", "Content-Type", "application/json")
	cookie := res.header.Get("Set-Cookie")
	if res.status != 200 || !strings.HasPrefix(cookie, "__Host-sandbox-console=") || !strings.Contains(cookie, "; Secure") || !strings.Contains(cookie, "; HttpOnly") || !strings.Contains(cookie, "; SameSite=Strict") || !strings.Contains(cookie, "; Path=/;") || strings.Contains(cookie, "Domain") {
		t.Errorf("with TLS: %d %q", res.status, cookie)
	}
}
