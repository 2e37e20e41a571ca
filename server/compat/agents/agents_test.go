package agents

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

const (
	aToken = "Bearer sbx_token1"
	aName  = "sbx-agents-000102030405060708090a0b-0123456789abcdef"
)

// A v1 is a server of /v1 that records requests and answers as the test wants.
type v1 struct {
	requests []string
	answer   func(w http.ResponseWriter, r *http.Request)
}

func (a *v1) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	a.requests = append(a.requests, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization")+" "+string(body)))
	if a.answer != nil {
		a.answer(w, r)
		return
	}
	problem(w, sandbox.CodeNotFound, aName)
}

func problem(w http.ResponseWriter, code sandbox.Code, resource string) {
	api.Write(w, &sandbox.Error{Code: code, Op: "test", Resource: resource, Message: "no"})
}

// send sends a request to a translator.
func send(a http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", aToken)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	New(Options{}).Translate(w, r, a)
	return w
}

func at(rest string) string { return "/v1/sandbox/" + aName + rest }

// failureOf reads an error of the protocol.
func failureOf(t *testing.T, w *httptest.ResponseRecorder) failure {
	t.Helper()
	var f failure
	if err := json.Unmarshal(w.Body.Bytes(), &f); err != nil || f.Error == "" || f.Code == "" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("the answer is no error of the protocol: %d %s", w.Code, w.Body)
	}
	return f
}

// TestRefused holds that requests which are not as the protocol has them get its own
// errors, and that none of them reaches /v1.
func TestRefused(t *testing.T) {
	handshake := []string{"Upgrade", "websocket", "Connection", "keep-alive, Upgrade", "Sec-WebSocket-Key", "x", "Sec-WebSocket-Version", "13"}
	for _, c := range []struct {
		name, method, target, body string
		header                     []string
		status                     int
		code                       string
	}{
		{"create: unknown field", "POST", "/v1/sandbox", `{"image":"x"}`, nil, 400, codeInvalid},
		{"create: no object", "POST", "/v1/sandbox", `7`, nil, 400, codeInvalid},
		{"create: two objects", "POST", "/v1/sandbox", `{}{}`, nil, 400, codeInvalid},
		{"create: port", "POST", "/v1/sandbox", `{"exposedPorts":[65536]}`, nil, 400, codeInvalid},
		{"create: time", "POST", "/v1/sandbox", `{"timeoutMs":-1}`, nil, 400, codeInvalid},
		{"create: time of create", "POST", "/v1/sandbox", `{"createTimeoutMs":1e12}`, nil, 400, codeInvalid},
		{"create: buckets", "POST", "/v1/sandbox", `{"mounts":[{}]}`, nil, 501, codeUnsupported},
		{"create: too large", "POST", "/v1/sandbox", `{"mounts":["` + strings.Repeat("a", maxJSON) + `"]}`, nil, 413, codeLarge},
		{"create: method", "GET", "/v1/sandbox", ``, nil, 405, codeInvalid},
		{"create: parameter", "POST", "/v1/sandbox?x=1", ``, nil, 400, codeInvalid},
		{"exec: nothing", "POST", at("/exec"), ``, nil, 400, codeInvalid},
		{"exec: no argv", "POST", at("/exec"), `{"argv":[]}`, nil, 400, codeInvalid},
		{"exec: no program", "POST", at("/exec"), `{"argv":[""]}`, nil, 400, codeInvalid},
		{"exec: numbers", "POST", at("/exec"), `{"argv":[1]}`, nil, 400, codeInvalid},
		{"exec: NUL", "POST", at("/exec"), `{"argv":["a\u0000"]}`, nil, 400, codeInvalid},
		{"exec: user", "POST", at("/exec"), `{"argv":["a"],"user":"root"}`, nil, 400, codeInvalid},
		{"exec: time", "POST", at("/exec"), `{"argv":["a"],"timeout_ms":-1}`, nil, 400, codeInvalid},
		{"exec: folder", "POST", at("/exec"), `{"argv":["a"],"cwd":"/etc"}`, nil, 403, codeInvalid},
		{"exec: folder that climbs", "POST", at("/exec"), `{"argv":["a"],"cwd":"../workspacex"}`, nil, 403, codeInvalid},
		{"exec: empty folder", "POST", at("/exec"), `{"argv":["a"],"cwd":""}`, nil, 400, codeInvalid},
		{"exec: session", "POST", at("/exec"), `{"argv":["a"]}`, []string{"Session-Id", "s"}, 501, codeUnsupported},
		{"exec: too large", "POST", at("/exec"), `{"argv":["` + strings.Repeat("a", maxJSON) + `"]}`, nil, 413, codeLarge},
		{"file: none", "GET", at("/file/"), ``, nil, 400, codeInvalid},
		{"file: none, and no slash", "GET", at("/file"), ``, nil, 400, codeInvalid},
		{"file: outside", "GET", at("/file/etc/passwd"), ``, nil, 403, codeInvalid},
		{"file: climbs", "PUT", at("/file/workspace/../etc/x"), `x`, nil, 403, codeInvalid},
		{"file: climbs in code", "PUT", at("/file/workspace/%2e%2e/etc/x"), `x`, nil, 403, codeInvalid},
		{"file: climbs by an encoded slash", "GET", at("/file/workspace/..%2fetc/x"), ``, nil, 403, codeInvalid},
		{"file: beside", "GET", at("/file/workspacex"), ``, nil, 403, codeInvalid},
		{"file: root", "GET", at("/file//"), ``, nil, 403, codeInvalid},
		{"file: NUL", "GET", at("/file/workspace/a%00"), ``, nil, 400, codeInvalid},
		{"file: method", "DELETE", at("/file/workspace/a"), ``, nil, 405, codeInvalid},
		{"persist: climbs", "POST", at("/persist?excludes=a,b/../.."), ``, nil, 400, codeInvalid},
		{"persist: absolute", "POST", at("/persist?excludes=/workspace/a"), ``, nil, 400, codeInvalid},
		{"persist: twice", "POST", at("/persist?excludes=a&excludes=b"), ``, nil, 400, codeInvalid},
		{"persist: no parameters", "POST", at("/persist?excludes=%zz"), ``, nil, 400, codeInvalid},
		{"persist: half of them", "POST", at("/persist?excludes=a;x=b"), ``, nil, 400, codeInvalid},
		{"persist: NUL", "POST", at("/persist?excludes=a%00"), ``, nil, 400, codeInvalid},
		{"hydrate: nothing", "POST", at("/hydrate"), ``, nil, 400, codeInvalid},
		{"pty: no handshake", "GET", at("/pty"), ``, nil, 400, codeInvalid},
		{"pty: another version", "GET", at("/pty"), ``, slices.Concat(handshake[:6], []string{"Sec-WebSocket-Version", "8"}), 400, codeInvalid},
		{"pty: rows", "GET", at("/pty?rows=0"), ``, handshake, 400, codeInvalid},
		{"pty: cols", "GET", at("/pty?cols=1001"), ``, handshake, 400, codeInvalid},
		{"pty: no number", "GET", at("/pty?cols=1e2"), ``, handshake, 400, codeInvalid},
		{"pty: shell", "GET", at("/pty?shell="), ``, handshake, 400, codeInvalid},
		{"pty: session", "GET", at("/pty?session=a"), ``, handshake, 501, codeUnsupported},
		{"pty: two keys", "GET", at("/pty?authorization=Bearer+x"), ``, handshake, 400, codeInvalid},
		{"mount", "POST", at("/mount"), `{}`, nil, 501, codeUnsupported},
		{"unmount", "POST", at("/unmount"), `{}`, nil, 501, codeUnsupported},
		{"session", "POST", at("/session"), `{}`, nil, 501, codeUnsupported},
		{"end of a session", "DELETE", at("/session/a"), ``, nil, 501, codeUnsupported},
		{"tunnel", "POST", at("/tunnel/80"), ``, nil, 501, codeUnsupported},
		{"no path", "GET", at("/nothing"), ``, nil, 404, codeInvalid},
		{"no deeper path", "GET", at("/running/x"), ``, nil, 404, codeInvalid},
		{"no method", "GET", at(""), ``, nil, 405, codeInvalid},
		{"id", "GET", "/v1/sandbox/.x/running", ``, nil, 400, codeInvalid},
		{"id with a dot", "GET", "/v1/sandbox/a.b/running", ``, nil, 400, codeInvalid},
		{"no id", "GET", "/v1/sandbox//running", ``, nil, 400, codeInvalid},
		{"id in digits that needs none", "GET", "/v1/sandbox/_6162/running", ``, nil, 400, codeInvalid},
		{"id in digits that leads elsewhere", "GET", "/v1/sandbox/_612f2e2e/running", ``, nil, 400, codeInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &v1{}
			w := send(a, c.method, c.target, c.body, c.header...)
			if f := failureOf(t, w); w.Code != c.status || f.Code != c.code {
				t.Errorf("%d %s, not %d %s", w.Code, w.Body, c.status, c.code)
			}
			if len(a.requests) > 0 {
				t.Errorf("/v1 was asked: %q", a.requests)
			}
			if c.status == 405 && w.Header().Get("Allow") == "" {
				t.Error("it does not say which methods there are")
			}
		})
	}
}

// TestTranslated holds which request of /v1 each operation becomes, with the caller's
// own token and no other.
func TestTranslated(t *testing.T) {
	one := "/v1/sandboxes/" + aName
	for _, c := range []struct{ method, target, body, want string }{
		{"DELETE", at(""), "", "DELETE " + one + "?force=true&workspace=true"},
		{"GET", at("/running"), "", "GET " + one},
		{"GET", at("/file/workspace/a%20b/%C3%BC%23"), "", "GET " + one + "/files/workspace/a%20b/%C3%BC%23"},
		{"PUT", at("/file/workspace/./a//b"), "content", "PUT " + one + "/files/workspace/a/b"},
		{"POST", at("/persist"), "", "GET " + one + "/archive?path=%2Fworkspace"},
		{"POST", at("/persist?excludes=a,./b"), "", "GET " + one + "/archive?path=%2Fworkspace"},
		{"POST", at("/hydrate"), "tar", "PUT " + one + "/archive?path=%2Fworkspace"},
		{"POST", at("/exec"), `{"argv":["a","b"],"timeout_ms":1500,"cwd":"x/../y"}`, "POST " + one + "/exec"},
		{"GET", "/v1/sandbox/_6162632e64/running", "", "GET /v1/sandboxes/abc.d"},
	} {
		a := &v1{}
		w := send(a, c.method, c.target, c.body, "Sandbox-Tenant", "other", "Sandbox-Session", "other")
		if len(a.requests) != 1 || !strings.HasPrefix(a.requests[0], c.want+" "+aToken) {
			t.Errorf("%s %s: %q, not %s", c.method, c.target, a.requests, c.want)
			continue
		}
		if c.method == "PUT" && !strings.HasSuffix(a.requests[0], "content") || strings.HasSuffix(c.target, "hydrate") && !strings.HasSuffix(a.requests[0], "tar") {
			t.Errorf("the content is not passed on: %q", a.requests)
		}
		if strings.HasSuffix(c.target, "exec") && !strings.HasSuffix(a.requests[0], `{"args":["a","b"],"dir":"/workspace/y","timeoutSeconds":1.5}`) {
			t.Errorf("%q", a.requests)
		}
		if strings.HasSuffix(c.target, "running") {
			continue
		}
		want := codeNoSandbox
		if f := failureOf(t, w); f.Code != want || w.Code != 404 && !strings.Contains(c.target, "/file/") || w.Code != 410 && strings.Contains(c.target, "/file/") {
			t.Errorf("%s %s: %d %s", c.method, c.target, w.Code, w.Body)
		}
	}
	// Without a token the caller is whoever /v1 takes the connection for.
	a := &v1{}
	r := httptest.NewRequest("GET", at("/running"), nil)
	New(Options{}).Translate(httptest.NewRecorder(), r, a)
	if want := "GET " + one; len(a.requests) != 1 || a.requests[0] != want {
		t.Errorf("%q", a.requests)
	}
}

// TestCreate holds how sandboxes are made.
func TestCreate(t *testing.T) {
	made := func(name string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"name":%q}`, name) }
	}
	a := &v1{answer: made("sbx-1")}
	for _, body := range []string{"", `{}`, `{"exposedPorts":[80],"timeoutMs":100.5,"createTimeoutMs":60000,"mounts":[]}`} {
		a.requests = nil
		if w := send(a, "POST", "/v1/sandbox", body); w.Code != 200 || w.Body.String() != `{"id":"sbx-1"}` {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if len(a.requests) != 1 || !strings.HasPrefix(a.requests[0], "POST /v1/sandboxes "+aToken+` {"session":"agents-`) {
			t.Errorf("%q", a.requests)
		}
	}
	if a.answer = made("a.b"); send(a, "POST", "/v1/sandbox", "").Body.String() != `{"id":"_612e62"}` {
		t.Error("clients refuse ids with dots")
	}
	// The sandbox of a token for one session is that session's.
	a.requests, a.answer = nil, func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); bytes.Contains(b, []byte("session")) {
			api.Write(w, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "x", Field: api.HeaderSession, Message: "no"})
			return
		}
		made("sbx-mine")(w, r)
	}
	if w := send(a, "POST", "/v1/sandbox", ""); w.Body.String() != `{"id":"sbx-mine"}` || len(a.requests) != 2 || !strings.HasSuffix(a.requests[1], " {}") {
		t.Errorf("%s %q", w.Body, a.requests)
	}
	for code, want := range map[sandbox.Code]struct {
		status int
		code   string
	}{
		sandbox.CodeBudgetExceeded: {429, codeCapacity}, sandbox.CodeUnavailable: {503, string(sandbox.CodeUnavailable)},
		sandbox.CodeValidation: {400, codeInvalid}, sandbox.CodeInternal: {500, string(sandbox.CodeInternal)},
	} {
		a.answer = func(w http.ResponseWriter, _ *http.Request) { problem(w, code, "") }
		if w := send(a, "POST", "/v1/sandbox", ""); w.Code != want.status || failureOf(t, w).Code != want.code {
			t.Errorf("%s: %d %s", code, w.Code, w.Body)
		}
	}
}

// TestRunning holds which sandboxes can be used.
func TestRunning(t *testing.T) {
	for text, want := range map[string]bool{
		`{"kind":"sandbox","status":"running"}`: true, `{"kind":"sandbox","status":"stopped"}`: true, `{"kind":"sandbox","status":"paused"}`: true,
		`{"kind":"sandbox","status":"paused","autoResume":false}`: false, `{"kind":"sandbox","status":"missing"}`: false,
		`{"kind":"sandbox","status":"orphan"}`: false, `{"kind":"browser","status":"running"}`: false,
	} {
		a := &v1{answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }}
		if w := send(a, "GET", at("/running"), ""); w.Code != 200 || w.Body.String() != fmt.Sprintf(`{"running":%v}`, want) {
			t.Errorf("%s: %d %s", text, w.Code, w.Body)
		}
	}
	if w := send(&v1{}, "GET", at("/running"), ""); w.Code != 200 || w.Body.String() != `{"running":false}` {
		t.Errorf("of none: %d %s", w.Code, w.Body)
	}
	a := &v1{answer: func(w http.ResponseWriter, _ *http.Request) { problem(w, sandbox.CodeUnavailable, "") }}
	if w := send(a, "GET", at("/running"), ""); w.Code != 503 {
		t.Errorf("it is not known: %d %s", w.Code, w.Body)
	}
}

// TestFileErrors holds that a file which is not there and a sandbox which is not
// there differ, and that what rules close says why.
func TestFileErrors(t *testing.T) {
	a := &v1{answer: func(w http.ResponseWriter, _ *http.Request) { problem(w, sandbox.CodeNotFound, "/workspace/a") }}
	if w := send(a, "GET", at("/file/workspace/a"), ""); w.Code != 404 || failureOf(t, w).Code != codeNoFile {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	a.answer = func(w http.ResponseWriter, _ *http.Request) {
		problem(w, sandbox.CodeCapabilityBlocked, "/workspace/.env")
	}
	if w := send(a, "GET", at("/file/workspace/.env"), ""); w.Code != 403 || failureOf(t, w).Code != string(sandbox.CodeCapabilityBlocked) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	// Clients take content of other types for events.
	a.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: x")
	}
	if w := send(a, "GET", at("/file/workspace/a"), ""); w.Header().Get("Content-Type") != contentBytes || w.Body.String() != "data: x" {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
}

// command answers exec of /v1 with these events.
func commandOf(events ...string) *v1 {
	return &v1{answer: func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != api.ContentEvents {
			problem(w, sandbox.CodeValidation, "Accept")
			return
		}
		for _, e := range events {
			if _, err := io.WriteString(w, e); err != nil {
				return
			}
		}
	}}
}

// TestExec holds how a command is answered.
func TestExec(t *testing.T) {
	e := func(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }
	b := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for _, c := range []struct {
		name string
		v1   *v1
		want string
	}{
		{"output", commandOf(e("stdout", `{"text":"aä"}`), ":\n\n", e("stderr", `{"base64":"/w=="}`), e("exit", `{"exitCode":3}`)),
			e("stdout", b("aä")) + ":\n\n" + e("stderr", b("\xff")) + e("exit", `{"exit_code":3}`)},
		{"over", commandOf(e("stdout", `{"text":"a"}`), e("exit", `{"exitCode":137,"timedOut":true}`)),
			e("stdout", b("a")) + e("error", `{"error":"the time of the command is over, and it was ended","code":"exec_error"}`)},
		{"blocked", commandOf(e("exit", `{"exitCode":126,"blocked":true,"blockedReason":"a rule\nof two lines"}`)),
			e("stderr", b("sandbox: a rule of two lines\n")) + e("exit", `{"exit_code":126}`)},
		{"limit", commandOf(e("exit", `{"exitCode":137,"limit":{"limit":"memory"}}`)),
			e("stderr", b("sandbox: a limit of the sandbox was reached: memory\n")) + e("exit", `{"exit_code":137}`)},
		{"error", commandOf(e("stdout", `{"text":"a"}`), e("error", `{"status":503,"code":"PROVIDER.UNAVAILABLE","detail":"engine\ndown"}`)),
			e("stdout", b("a")) + e("error", `{"error":"engine down","code":"PROVIDER.UNAVAILABLE"}`)},
		{"cut off", commandOf(e("stdout", `{"text":"a"}`)),
			e("stdout", b("a")) + e("error", `{"error":"the output has ended before the command; it is not known how it ended","code":"exec_transport_error"}`)},
		{"begun anew before output", commandOf(e("again", `{}`), e("exit", `{"exitCode":0}`)), e("exit", `{"exit_code":0}`)},
		{"begun anew after output", commandOf(e("stdout", `{"text":"a"}`), e("again", `{}`), e("exit", `{"exitCode":0}`)),
			e("stdout", b("a")) + e("error", `{"error":"the command was begun anew with a permission; run it again","code":"exec_transport_error"}`)},
		{"no JSON", commandOf(":\n\n", e("stdout", `x`)), ":\n\n" + e("error", `{"error":"something went wrong inside","code":"exec_transport_error"}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := send(c.v1, "POST", at("/exec"), `{"argv":["a"]}`)
			if w.Code != 200 || w.Header().Get("Content-Type") != api.ContentEvents || w.Body.String() != c.want {
				t.Errorf("%d %v\n%s\nnot\n%s", w.Code, w.Header(), w.Body, c.want)
			}
		})
	}
	a := &v1{answer: func(w http.ResponseWriter, _ *http.Request) { problem(w, sandbox.CodeDenyTool, "rm") }}
	if w := send(a, "POST", at("/exec"), `{"argv":["rm"]}`); w.Code != 403 || failureOf(t, w).Code != string(sandbox.CodeDenyTool) {
		t.Errorf("refused: %d %s", w.Code, w.Body)
	}
}

// TestRemake holds when a sandbox that has been removed is made anew: for the first
// command of the client for Python alone, and under the same name alone.
func TestRemake(t *testing.T) {
	const begin = `{"argv":["mkdir","-p","--","/workspace"]}`
	for _, c := range []struct {
		name, id, body, made string
		want                 []string // methods and the ends of paths
		status               int
	}{
		{"resumed", aName, begin, `{"name":"` + aName + `","created":true}`, []string{"POST exec", "POST sandboxes", "POST exec"}, 200},
		{"with variables", aName, `{"argv":["env","A=b c","mkdir","-p","--","/workspace"]}`, `{"name":"` + aName + `"}`, []string{"POST exec", "POST sandboxes", "POST exec"}, 200},
		{"another command", aName, `{"argv":["true"]}`, "", []string{"POST exec"}, 404},
		{"another folder", aName, `{"argv":["mkdir","-p","--","/workspace/a"]}`, "", []string{"POST exec"}, 404},
		{"another caller's", aName, begin, `{"name":"sbx-other","created":true}`, []string{"POST exec", "POST sandboxes", "DELETE sbx-other"}, 404},
		{"shared with others", aName, begin, `{"name":"sbx-other"}`, []string{"POST exec", "POST sandboxes"}, 404},
		{"not made here", "sbx-chat-42-0123456789abcdef", begin, "", []string{"POST exec"}, 404},
		{"no hash", "sbx-agents-000102030405060708090a0b-0123456789abcdeg", begin, "", []string{"POST exec"}, 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &v1{}
			there := false
			a.answer = func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/v1/sandboxes":
					there = true
					_, _ = io.WriteString(w, c.made)
				case r.Method == "DELETE":
					w.WriteHeader(204)
				case there:
					_, _ = io.WriteString(w, "event: exit\ndata: {\"exitCode\":0}\n\n")
				default:
					problem(w, sandbox.CodeNotFound, c.id)
				}
			}
			w := send(a, "POST", "/v1/sandbox/"+c.id+"/exec", c.body)
			var got []string
			for _, r := range a.requests {
				method, rest, _ := strings.Cut(r, " ")
				target, _, _ := strings.Cut(rest, " ")
				target, _, _ = strings.Cut(target, "?")
				got = append(got, method+" "+target[strings.LastIndex(target, "/")+1:])
			}
			if w.Code != c.status || !slices.Equal(got, c.want) {
				t.Errorf("%d %q, not %d %q", w.Code, got, c.status, c.want)
			}
			if len(got) > 1 && !strings.Contains(a.requests[1], `{"session":"agents-000102030405060708090a0b"}`) {
				t.Errorf("%q", a.requests)
			}
		})
	}
}

// packed returns a tar archive of files with these names.
func packed(t testing.TB, names ...string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(name)), Typeflag: tar.TypeReg}
		if strings.HasSuffix(name, "/") {
			h.Typeflag, h.Size = tar.TypeDir, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			_, _ = io.WriteString(w, name)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func namesOf(t *testing.T, archive []byte) (names []string) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if content, err := io.ReadAll(r); err != nil || len(content) > 0 && string(content) != h.Name {
			t.Errorf("%s has the content %q, %v", h.Name, content, err)
		}
		names = append(names, h.Name)
	}
}

// TestPersist holds what is in an archive of the workspace, and that one which /v1 has
// cut is cut for the client as well.
func TestPersist(t *testing.T) {
	archive := packed(t, "./", "a/", "a/b", "ab", "c/", "c/d/", "c/d/e", "ü x", strings.Repeat("long/", 60)+"f")
	for excludes, want := range map[string]string{
		"": "./ a/ a/b ab c/ c/d/ c/d/e ü x", "a": "./ ab c/ c/d/ c/d/e ü x", "c/d,./a/b": "./ a/ ab c/ ü x", "a,,c,": "./ ab ü x",
		"%C3%BC%20x": "./ a/ a/b ab c/ c/d/ c/d/e", "none": "./ a/ a/b ab c/ c/d/ c/d/e ü x", "a*": "./ a/ a/b ab c/ c/d/ c/d/e ü x",
	} {
		a := &v1{answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentTar)
			for rest := archive; len(rest) > 0; {
				n := min(700, len(rest))
				_, _ = w.Write(rest[:n])
				rest = rest[n:]
			}
			w.Header().Set(http.TrailerPrefix+"Sandbox-Left-Out", "2")
		}}
		w := send(a, "POST", at("/persist?excludes="+excludes), "")
		names := namesOf(t, w.Body.Bytes())
		if got := strings.Join(names[:len(names)-1], " "); w.Code != 200 || w.Header().Get("Content-Type") != contentBytes || got != want || !strings.HasPrefix(names[len(names)-1], "long/") {
			t.Errorf("without %q: %d %v %q", excludes, w.Code, w.Header(), names)
		}
		if w.Header().Get(http.TrailerPrefix+"Sandbox-Left-Out") != "2" {
			t.Errorf("what was left out is not passed on: %v", w.Header())
		}
	}
	if w := send(&v1{}, "POST", at("/persist?excludes=a"), ""); w.Code != 404 || failureOf(t, w).Code != codeNoSandbox {
		t.Errorf("of none: %d %s", w.Code, w.Body)
	}
	for _, excludes := range []string{"", "a"} {
		for _, abort := range []bool{true, false} {
			if excludes == "" && !abort {
				continue // /v1 aborts what it cuts
			}
			a := &v1{answer: func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(archive[:1024+100])
				if abort {
					panic(http.ErrAbortHandler)
				}
			}}
			func() {
				defer func() {
					if recover() != http.ErrAbortHandler {
						t.Errorf("without %q: a part of an archive is a whole one", excludes)
					}
				}()
				send(a, "POST", at("/persist?excludes="+excludes), "")
			}()
		}
	}
	// One that is cut between two entries looks whole.
	a := &v1{answer: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(archive[:1024])
		panic(http.ErrAbortHandler)
	}}
	r, w := httptest.NewRequest("POST", at("/persist?excludes=x"), nil), httptest.NewRecorder()
	func() {
		defer func() { _ = recover() }()
		New(Options{}).Translate(w, r, a)
	}()
	if n := w.Body.Len(); n >= 2048 {
		t.Errorf("the archive was ended in order: %d bytes", n)
	}
}

// TestHydrate holds that an archive of which entries were left out is an error.
func TestHydrate(t *testing.T) {
	a := &v1{answer: func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Type") != contentTar {
			problem(w, sandbox.CodeValidation, "Content-Type")
			return
		}
		_, _ = io.WriteString(w, `{"path":"/workspace","files":1,"left":[]}`)
	}}
	if w := send(a, "POST", at("/hydrate"), "tar"); w.Code != 200 || w.Body.String() != `{"ok":true}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	a.answer = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"left":[{"path":"l","reason":"it leads out"},{"path":"m","reason":"x"}]}`)
	}
	w := send(a, "POST", at("/hydrate"), "tar")
	if f := failureOf(t, w); w.Code != 403 || f.Code != codeUnpack || !strings.Contains(f.Error, "2 entries") || !strings.Contains(f.Error, "l: it leads out") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestClaims holds which requests are the translator's: none of /v1, and none where the
// settings turn it off.
func TestClaims(t *testing.T) {
	on := true
	d := New(Options{Enabled: func() bool { return on }})
	for target, want := range map[string]bool{
		"/v1/sandbox": true, "/v1/sandbox/a": true, "/v1/sandbox/a/exec": true,
		"/v1/sandboxes": false, "/v1/sandboxes/a": false, "/v1/sandboxx": false, "/v1": false, "/sandbox": false, "/healthz": false, "/v1/openapi.json": false,
	} {
		r := httptest.NewRequest("GET", target, nil)
		if on = true; d.Claims(r) != want {
			t.Errorf("%s is not %v", target, want)
		}
		if on = false; d.Claims(r) {
			t.Errorf("%s is claimed where the settings turn it off", target)
		}
	}
}

// FuzzRequest sends requests to every operation: whatever comes, the answer is one of
// the protocol, and /v1 is asked about the one sandbox alone.
func FuzzRequest(f *testing.F) {
	for _, c := range [][3]string{
		{"POST", "/exec", `{"argv":["a"],"timeout_ms":1,"cwd":"/workspace/x"}`}, {"POST", "/exec", `{"argv":[]}`}, {"GET", "/file/workspace/a", ""},
		{"PUT", "/file/workspace/../../etc", "x"}, {"POST", "/persist?excludes=a,../b", ""}, {"POST", "/hydrate", "x"}, {"DELETE", "", ""},
		{"GET", "/pty?cols=1&rows=2&shell=sh", ""}, {"POST", "/tunnel/1", "{}"}, {"GET", "/file/workspace/%2e%2e%2f", ""},
	} {
		f.Add(c[0], c[1], []byte(c[2]))
	}
	f.Fuzz(func(t *testing.T, method, rest string, body []byte) {
		r, err := http.NewRequest(method, "http://localhost"+at(rest), bytes.NewReader(body))
		if err != nil || !New(Options{}).Claims(r) || !strings.HasPrefix(r.URL.Path, at("")) || strings.Trim(r.URL.Path[len(at("")):]+"/", "/") != "" && r.URL.Path[len(at(""))] != '/' {
			return
		}
		a, w := &v1{}, httptest.NewRecorder()
		New(Options{}).Translate(w, r, a)
		if w.Code >= 500 && w.Code != 501 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if w.Code >= 400 {
			failureOf(t, w)
		}
		for _, one := range a.requests {
			_, target, _ := strings.Cut(one, " ")
			target, _, _ = strings.Cut(target, " ")
			if target != "/v1/sandboxes" && target != "/v1/sandboxes/"+aName && !strings.HasPrefix(target, "/v1/sandboxes/"+aName+"/") && !strings.HasPrefix(target, "/v1/sandboxes/"+aName+"?") ||
				strings.Contains(target, "/files") && !strings.Contains(target, "/files/workspace") {
				t.Errorf("/v1 was asked for something beside the workspace: %s", one)
			}
		}
	})
}

// FuzzCreate sends bodies to create.
func FuzzCreate(f *testing.F) {
	f.Add([]byte(`{"exposedPorts":[1],"timeoutMs":1.5,"createTimeoutMs":2,"mounts":[]}`))
	f.Add([]byte(`{"mounts":null}`))
	a := &v1{answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"name":"sbx-1"}`) }}
	f.Fuzz(func(t *testing.T, body []byte) {
		if w := send(a, "POST", "/v1/sandbox", string(body)); w.Code >= 500 && w.Code != 501 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// bounded is a buffer that takes so much alone.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > 1<<20 {
		return 0, io.ErrShortWrite
	}
	return b.Buffer.Write(p)
}

// FuzzSift sifts archives: what comes out is an archive without what was to be left
// out, or an error.
func FuzzSift(f *testing.F) {
	f.Add(packed(f, "a/", "a/b", "c"), "a")
	f.Add([]byte("no archive"), "a,b")
	f.Fuzz(func(t *testing.T, archive []byte, text string) {
		without, err := excluded(text)
		if err != nil {
			return
		}
		var out bounded // a sparse file may be of any length
		if sift(&out, bytes.NewReader(archive), without) != nil {
			return
		}
		r := tar.NewReader(&out)
		for {
			h, err := r.Next()
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Fatalf("the archive cannot be read: %v", err)
			}
			for _, p := range without {
				if name := strings.Trim(h.Name, "/"); name == p {
					t.Errorf("%q is there", h.Name)
				}
			}
		}
	})
}
