package e2b

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

const (
	aToken = "sbx_token1"
	aName  = "sbx-e2b-1"
)

// An api1 is a server of /v1 that records requests and answers as the test wants.
type api1 struct {
	requests []string
	answer   func(w http.ResponseWriter, r *http.Request)
}

func (a *api1) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.requests = append(a.requests, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization")+" "+string(body))
	if a.answer != nil {
		a.answer(w, r)
		return
	}
	problem1(w, 404, "SANDBOX.NOT_FOUND", aName)
}

func problem1(w http.ResponseWriter, status int, code, resource string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "code": code, "detail": "no", "resource": resource})
}

func newTranslator(t testing.TB) *Translator {
	t.Helper()
	d, err := New(Options{Log: logrus.New(), Key: bytes.Repeat([]byte{1}, 32), Domains: func() []string { return []string{"box.example"} }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// send sends a request to a translator with an access token.
func send(d *Translator, a http.Handler, method, target, kind, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	r.Header.Set(headerSandbox, aName)
	r.Header.Set(headerAccess, d.keys.seal(aToken, aName))
	for i := 0; i < len(header); i += 2 {
		if r.Header.Del(header[i]); header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	d.Translate(w, r, a)
	return w
}

// TestRefused holds that requests which are not as the protocol has them get its own
// errors, and that none of them reaches /v1.
func TestRefused(t *testing.T) {
	d, a := newTranslator(t), &api1{}
	rpc := "application/json"
	for _, c := range []struct {
		name, method, target, kind, body string
		header                           []string
		status                           int
		code                             string
	}{
		{"no object", "POST", "/filesystem.Filesystem/Stat", rpc, `[]`, nil, 400, "invalid_argument"},
		{"no JSON", "POST", "/filesystem.Filesystem/Stat", rpc, `{"path"`, nil, 400, "invalid_argument"},
		{"two objects", "POST", "/filesystem.Filesystem/Stat", rpc, `{"path":"a"}{}`, nil, 400, "invalid_argument"},
		{"unknown field", "POST", "/filesystem.Filesystem/Stat", rpc, `{"path":"a","x":1}`, nil, 400, "invalid_argument"},
		{"no path", "POST", "/filesystem.Filesystem/Stat", rpc, `{}`, nil, 400, "invalid_argument"},
		{"NUL", "POST", "/filesystem.Filesystem/Stat", rpc, `{"path":"a\u0000"}`, nil, 400, "invalid_argument"},
		{"root", "POST", "/filesystem.Filesystem/Stat", rpc, `{"path":"a"}`, []string{"Authorization", "Basic cm9vdDo="}, 403, "permission_denied"},
		{"unknown user", "POST", "/filesystem.Filesystem/Stat", rpc, `{"path":"a"}`, []string{"Authorization", "Basic YWxpY2U6"}, 400, "invalid_argument"},
		{"too large", "POST", "/filesystem.Filesystem/Stat", rpc, `{"path":"` + strings.Repeat("a", maxMessage) + `"}`, nil, 429, "resource_exhausted"},
		{"no token", "POST", "/filesystem.Filesystem/Stat", rpc, `{"path":"a"}`, []string{headerAccess, ""}, 401, "unauthenticated"},
		{"another sandbox", "POST", "/filesystem.Filesystem/Stat", rpc, `{"path":"a"}`, []string{headerSandbox, "sbx-other"}, 401, "unauthenticated"},
		{"forged token", "POST", "/filesystem.Filesystem/Stat", rpc, `{"path":"a"}`, []string{headerAccess, "ea_" + strings.Repeat("A", 80)}, 401, "unauthenticated"},
		{"unknown signal", "POST", "/process.Process/SendSignal", rpc, `{"process":{"pid":1},"signal":"SIGNAL_SIGSTOP"}`, nil, 400, "invalid_argument"},
		{"no process", "POST", "/process.Process/SendSignal", rpc, `{"signal":"SIGNAL_SIGKILL"}`, nil, 400, "invalid_argument"},
		{"two names", "POST", "/process.Process/CloseStdin", rpc, `{"process":{"pid":1,"tag":"a"}}`, nil, 400, "invalid_argument"},
		{"a tag that is a path", "POST", "/process.Process/CloseStdin", rpc, `{"process":{"tag":"../x"}}`, nil, 404, "not_found"},
		{"no input", "POST", "/process.Process/SendInput", rpc, `{"process":{"pid":1}}`, nil, 400, "invalid_argument"},
		{"no procedure", "POST", "/process.Process/Nothing", rpc, `{}`, nil, 404, "not_found"},
		{"other content", "POST", "/files?path=a", "text/plain", `x`, nil, 415, ""},
		{"metadata", "POST", "/files?path=a", "application/octet-stream", `x`, []string{"X-Metadata-A", "b"}, 501, ""},
		{"no gzip", "POST", "/files?path=a", "application/octet-stream", `x`, []string{"Content-Encoding", "gzip"}, 400, ""},
		{"no parts", "POST", "/files?path=a", "multipart/form-data; boundary=b", "--b--\r\n", nil, 400, ""},
		{"a part that ends too early", "POST", "/files", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=other\r\n\r\nx", nil, 400, ""},
		{"files of root", "GET", "/files?path=a&username=root", "", "", nil, 403, ""},
		{"files of root by number", "POST", "/files?path=a&username=00", "application/octet-stream", "x", nil, 403, ""},
		{"files of root's group", "GET", "/files?path=a&username=1000:0", "", "", nil, 403, ""},
		{"a folder of root", "POST", "/filesystem.Filesystem/ListDir", rpc, `{"path":"a"}`, []string{"Authorization", "Basic cm9vdDpyb290Og=="}, 403, "permission_denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a.requests = nil
			w := send(d, a, c.method, c.target, c.kind, c.body, c.header...)
			var got struct {
				Code    any
				Message string
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Message == "" {
				t.Fatalf("the answer is no error of the protocol: %d %s", w.Code, w.Body)
			}
			if w.Code != c.status || c.code != "" && got.Code != c.code {
				t.Errorf("%d %s, not %d %s", w.Code, w.Body, c.status, c.code)
			}
			if len(a.requests) > 0 {
				t.Errorf("/v1 was asked: %q", a.requests)
			}
		})
	}
}

// TestControlRefused is [TestRefused] for the control plane.
func TestControlRefused(t *testing.T) {
	d, a := newTranslator(t), &api1{}
	for _, c := range []struct {
		name, method, target, key, body string
		status                          int
	}{
		{"no key", "GET", "/v2/sandboxes", "", "", 401},
		{"no hexadecimal key", "GET", "/v2/sandboxes", "e2b_xyz", "", 401},
		{"a key with a line", "GET", "/v2/sandboxes", "e2b_0a0d", "", 401},
		{"unknown field", "POST", "/v2/sandboxes", aToken, `{"x":1}`, 400},
		{"no object", "POST", "/v2/sandboxes", aToken, `7`, 400},
		{"too large", "POST", "/v2/sandboxes", aToken, `{"templateID":"` + strings.Repeat("a", maxJSON) + `"}`, 413},
		{"time", "POST", "/v2/sandboxes", aToken, `{"timeout":-1}`, 400},
		{"volumes", "POST", "/v2/sandboxes", aToken, `{"volumeMounts":[{"name":"a","path":"/a"}]}`, 501},
		{"mcp", "POST", "/sandboxes", aToken, `{"mcp":{"a":{}}}`, 501},
		{"rules", "PUT", "/sandboxes/" + aName + "/network", aToken, `{"rules":{"a":[]}}`, 501},
		{"secrets", "POST", "/secrets", aToken, `{}`, 501},
		{"volume", "DELETE", "/volumes/x", aToken, "", 501},
		{"template", "POST", "/v3/templates", aToken, `{}`, 501},
		{"no path", "GET", "/sandboxes/a/b/c", aToken, "", 404},
		{"limit", "GET", "/v2/sandboxes?limit=0", aToken, "", 400},
		{"state", "GET", "/v2/sandboxes?state=dead", aToken, "", 400},
		{"metadata", "GET", "/v2/sandboxes?metadata=a%253Db%25zz", aToken, "", 400},
		{"name", "GET", "/sandboxes/-x", aToken, "", 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			a.requests = nil
			r := httptest.NewRequest(c.method, c.target, strings.NewReader(c.body))
			if c.key != "" {
				r.Header.Set(headerKey, c.key)
			}
			if !d.Claims(r) {
				t.Fatal("the door does not claim it")
			}
			w := httptest.NewRecorder()
			d.Translate(w, r, a)
			var got struct {
				Code    int
				Message string
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Code != w.Code || got.Message == "" {
				t.Fatalf("the answer is no error of the protocol: %d %s", w.Code, w.Body)
			}
			if w.Code != c.status {
				t.Errorf("%d %s, not %d", w.Code, w.Body, c.status)
			}
			if len(a.requests) > 0 {
				t.Errorf("/v1 was asked: %q", a.requests)
			}
		})
	}
}

// TestToken holds that /v1 gets the caller's own token in both forms of a key and
// from an access token, and never what the client sends in other places.
func TestToken(t *testing.T) {
	d, a := newTranslator(t), &api1{}
	for _, key := range []string{aToken, Key(aToken)} {
		r := httptest.NewRequest("GET", "/sandboxes/"+aName, nil)
		r.Header.Set(headerKey, key)
		r.Header.Set("Sandbox-Tenant", "other")
		d.Translate(httptest.NewRecorder(), r, a)
	}
	send(d, a, "POST", "/filesystem.Filesystem/Stat", "application/json", `{"path":"../../etc/x"}`)
	want := []string{"GET /v1/sandboxes/" + aName + " Bearer " + aToken + " ", "GET /v1/sandboxes/" + aName + " Bearer " + aToken + " ", "GET /v1/sandboxes/" + aName + "/files/etc/x?stat=true Bearer " + aToken + " "}
	if strings.Join(a.requests, "|") != strings.Join(want, "|") {
		t.Errorf("%q, not %q", a.requests, want)
	}
}

// TestClaims holds which requests are the translator's: none of /v1, and hosts of other
// domains never.
func TestClaims(t *testing.T) {
	d := newTranslator(t)
	for target, want := range map[string]bool{
		"http://localhost/v1/sandboxes": false, "http://localhost/healthz": false, "http://localhost/mcp": false, "http://localhost/v2/x": false,
		"http://localhost/v2/sandboxes": true, "http://localhost/sandboxes/a": true,
		"http://3000-sbx-a.localhost/": true, "http://3000-abcdefghijklmnop.localhost/": false, "http://3000-sbx-a.localhost:8421/": true, "http://3000-sbx-a.box.example/": true,
		"http://3000-sbx-a.evil.example/": false, "http://03000-sbx-a.localhost/": false, "http://70000-sbx-a.localhost/": false, "http://0-a.localhost/": false,
	} {
		if got := d.Claims(httptest.NewRequest("GET", target, nil)); got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
	d.o.Enabled = func() bool { return false }
	if d.Claims(httptest.NewRequest("GET", "http://localhost/v2/sandboxes", nil)) {
		t.Error("the door claims requests where the settings turn it off")
	}
}

// TestAccess holds that an access token is for one caller and one sandbox, and that
// a changed one is none.
func TestAccess(t *testing.T) {
	d := newTranslator(t)
	access := d.keys.seal(aToken, aName)
	if access != d.keys.seal(aToken, aName) || access == d.keys.seal(aToken, "sbx-2") || access == d.keys.seal("sbx_2", aName) {
		t.Error("it is not one for each caller and sandbox")
	}
	if token, name, ok := d.keys.open(access); !ok || token != aToken || name != aName {
		t.Errorf("%q %q %v", token, name, ok)
	}
	if strings.Contains(access, aToken) {
		t.Error("it shows the token")
	}
	for i := len(accessPrefix); i < len(access); i++ {
		changed := []byte(access)
		changed[i] ^= 1
		if token, name, ok := d.keys.open(string(changed)); ok && (token != aToken || name != aName) {
			t.Errorf("a changed one is %q %q", token, name)
		}
	}
}

// TestKeyFile holds that the key stays the same.
func TestKeyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	one, err := LoadKey(file)
	if err != nil {
		t.Fatal(err)
	}
	two, err := LoadKey(file)
	if err != nil || !bytes.Equal(one, two) || len(one) != 32 {
		t.Errorf("%x %x %v", one, two, err)
	}
}

// TestWatchEvents holds how changes of /v1 reach a client of the protocol, and that
// what a watch has not seen ends it with an error.
func TestWatchEvents(t *testing.T) {
	const at = "/workspace/d/"
	for _, tt := range []struct{ name, event, data, want string }{
		{"create", "change", `{"kind":"create","name":"a/b","path":"` + at + `a/b","type":"file","mode":"0600","size":3}`, `{"name":"a/b","type":"EVENT_TYPE_CREATE","entry":{"name":"b","type":"FILE_TYPE_FILE","path":"/workspace/d/a/b","size":"3","mode":384,"permissions":"-rw-------"`},
		{"write", "change", `{"kind":"write","name":"a","path":"` + at + `a"}`, `{"name":"a","type":"EVENT_TYPE_WRITE"}`},
		{"remove", "change", `{"kind":"remove","name":"a","path":"` + at + `a","type":"file"}`, `{"name":"a","type":"EVENT_TYPE_REMOVE"}`},
		{"chmod", "change", `{"kind":"chmod","name":"a","path":"` + at + `a"}`, `{"name":"a","type":"EVENT_TYPE_CHMOD"}`},
		{"rename", "change", `{"kind":"rename","name":"a","to":"b","path":"` + at + `a","type":"dir"}`, `{"name":"a","type":"EVENT_TYPE_RENAME"}|{"name":"b","type":"EVENT_TYPE_CREATE","entry":{"name":"b","type":"FILE_TYPE_DIRECTORY","path":"/workspace/d/b"`},
		{"renamed away", "change", `{"kind":"rename","name":"a","path":"` + at + `a"}`, `{"name":"a","type":"EVENT_TYPE_RENAME"}`},
		{"the folder itself", "change", `{"kind":"chmod","name":".","path":"/workspace/d"}`, ``},
		{"overflow", "overflow", `{"code":"QUOTA.BUDGET_EXCEEDED","message":"lost"}`, `"code":"data_loss"`},
		{"polls", "note", `{"code":"SANDBOX.UNSUPPORTED","message":"polls"}`, `"code":"unimplemented"`},
		{"unwatched", "note", `{"code":"SANDBOX.CAPABILITY_BLOCKED","name":"x","message":"closed"}`, `"code":"out_of_range"`},
		{"gone", "error", `{"code":"SANDBOX.NOT_FOUND","status":404,"detail":"gone","resource":"/workspace/d"}`, `"code":"not_found"`},
	} {
		a := &api1{answer: func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/watch") {
				_, _ = io.WriteString(w, `{"items":[{"path":"/workspace/d","name":"d","type":"dir","mode":"0755"}]}`)
				return
			}
			if r.URL.Query().Get("recursive") != "true" || r.URL.Query().Get("path") != "/workspace/d" {
				t.Errorf("/v1 was asked for %s", r.URL)
			}
			w.Header().Set("Content-Type", api.ContentEvents)
			_, _ = io.WriteString(w, "event: ready\ndata: {\"entries\":1}\n\nevent: "+tt.event+"\ndata: "+tt.data+"\n\n")
		}}
		body := `{"path":"/workspace/d","recursive":true,"includeEntry":true}`
		w := send(newTranslator(t), a, "POST", "/filesystem.Filesystem/WatchDir", "application/connect+json", string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))))+body)
		for want := range strings.SplitSeq(tt.want, "|") {
			if !strings.Contains(w.Body.String(), want) || strings.Contains(w.Body.String(), `"filesystem"`) != strings.HasPrefix(want, "{") {
				t.Errorf("%s: %q, want %s", tt.name, w.Body, want)
			}
		}
	}
}

// FuzzRPC sends bodies to every procedure: whatever comes, the answer is one of the
// protocol, and never an unexpected error.
func FuzzRPC(f *testing.F) {
	procedures := []string{"process.Process/Start", "process.Process/Connect", "process.Process/SendInput", "process.Process/StreamInput", "process.Process/Update", "filesystem.Filesystem/ListDir", "filesystem.Filesystem/Move", "filesystem.Filesystem/WatchDir", "filesystem.Filesystem/GetWatcherEvents"}
	frame := func(s string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(s))), s...)
	}
	for i, body := range []string{`{"process":{"cmd":"a"},"pty":{"size":{"rows":1,"cols":1}}}`, `{"process":{"pid":1}}`, `{"process":{"pid":1},"input":{"stdin":"AA=="}}`, `{"start":{"process":{"tag":"a"}}}`, `{"path":"a","depth":2}`} {
		f.Add(uint8(i), true, frame(body))
		f.Add(uint8(i), false, []byte(body))
	}
	f.Add(uint8(0), true, []byte{0, 255, 255, 255, 255, 1})
	f.Add(uint8(3), true, []byte{1, 0, 0, 0, 2, '{', '}'})
	d, a := newTranslator(f), &api1{}
	f.Fuzz(func(t *testing.T, which uint8, stream bool, body []byte) {
		a.requests = nil
		kind := "application/json"
		if stream {
			kind = "application/connect+json"
		}
		w := send(d, a, "POST", "/"+procedures[int(which)%len(procedures)], kind, string(body))
		if w.Code >= 500 && w.Code != 503 || strings.Contains(w.Body.String(), "something went wrong inside") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		for _, r := range a.requests {
			if u, err := url.Parse(strings.Fields(r)[1]); err != nil || !strings.HasPrefix(u.Path, "/v1/sandboxes/"+aName+"/") {
				t.Errorf("/v1 was asked for something beside the sandbox: %s", r)
			}
		}
	})
}

// FuzzCreate sends bodies to create.
func FuzzCreate(f *testing.F) {
	f.Add([]byte(`{"templateID":"base","timeout":3,"network":{"denyOut":["0.0.0.0/0"]},"metadata":{"a":"b"}}`))
	f.Add([]byte(`{"autoResume":null}`))
	d, a := newTranslator(f), &api1{answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"name":"sbx-1"}`)) }}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest("POST", "/v2/sandboxes", bytes.NewReader(body))
		r.Header.Set(headerKey, aToken)
		w := httptest.NewRecorder()
		d.Translate(w, r, a)
		if w.Code >= 500 && w.Code != 501 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// TestForward holds where requests for ports inside are sent, and that keys and
// tokens of this server do not get there.
func TestForward(t *testing.T) {
	a := &api1{}
	var got *http.Request
	a.answer = func(_ http.ResponseWriter, r *http.Request) { got = r }
	d := newTranslator(t)
	d.o.PortDomain = "ports.example"
	host := "3000-" + label(aName) + ".ports.example"
	for name, c := range map[string]struct {
		target string
		header []string
	}{
		"by host":                {"http://3000-" + aName + ".localhost:8421/a//b?c", nil},
		"by host of the setting": {"http://3000-" + aName + ".ports.example/a//b?c", nil},
		"by header":              {"http://localhost/a//b?c", []string{headerSandbox, aName, headerPort, "3000"}},
	} {
		t.Run(name, func(t *testing.T) {
			got = nil
			r := httptest.NewRequest("POST", c.target, strings.NewReader("x"))
			for name, value := range map[string]string{headerTraffic: "secret", headerAccess: "ea_x", headerKey: Key(aToken), "Sandbox-Share": "other", "X-Own": "kept", "Authorization": "Basic eDp5"} {
				r.Header.Set(name, value)
			}
			for i := 0; i < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			if !d.Claims(r) {
				t.Fatal("the door does not claim it")
			}
			d.Translate(httptest.NewRecorder(), r, a)
			if got == nil || got.Host != host || got.URL.RequestURI() != r.URL.RequestURI() || got.Header.Get("Sandbox-Share") != "secret" || got.Header.Get("X-Own") != "kept" || got.Header.Get("Authorization") == "" {
				t.Fatalf("%+v", got)
			}
			for _, own := range []string{headerTraffic, headerAccess, headerSandbox, headerPort} {
				if got.Header.Get(own) != "" {
					t.Errorf("%s gets inside", own)
				}
			}
		})
	}
	r := httptest.NewRequest("GET", "http://3000-"+aName+".localhost/", nil)
	r.Header.Set("Sandbox-Share", "mine")
	d.Translate(httptest.NewRecorder(), r, a)
	if got.Header.Get("Sandbox-Share") != "" {
		t.Error("a request without the protocol's header has a secret")
	}
	d.o.PortDomain, got = "", nil
	w := httptest.NewRecorder()
	d.Translate(w, httptest.NewRequest("GET", "http://3000-"+aName+".localhost/", nil), a)
	if got != nil || w.Code != 501 || !strings.Contains(w.Body.String(), "daemon.portDomain") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestPublicTraffic holds that create, connect and the update of the network ask for
// the share of all ports in the way that the client wants, and what they answer.
func TestPublicTraffic(t *testing.T) {
	for _, c := range []struct {
		name, method, path, body string
		public                   bool
		label                    resource.Label
	}{
		{"create", "POST", "/v2/sandboxes", `{}`, true, resource.Label{Text: label(aName)}},
		{"create that is closed", "POST", "/sandboxes", `{"network":{"allowPublicTraffic":false}}`, false, resource.Label{Text: label(aName)}},
		{"connect", "POST", "/v2/sandboxes/" + aName + "/connect", `{}`, false, resource.Label{Text: label(aName), Keep: true}},
		{"update", "PUT", "/sandboxes/" + aName + "/network", `{"allowPublicTraffic":true}`, true, resource.Label{Text: label(aName)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, shares := newTranslator(t), 0
			d.o.PortDomain = "localhost"
			a := &api1{answer: func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, "/shares") {
					_, _ = w.Write([]byte(`{"name":"` + aName + `"}`))
					return
				}
				if shares++; resource.LabelOf(r.Context()) != c.label {
					t.Errorf("%+v", resource.LabelOf(r.Context()))
				}
				_, _ = w.Write([]byte(`{"secret":"of the share"}`))
			}}
			r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
			r.Header.Set(headerKey, aToken)
			w := httptest.NewRecorder()
			d.Translate(w, r, a)
			if last := a.requests[len(a.requests)-1]; shares != 1 || w.Code >= 300 || strings.Contains(last, `"public":true`) != c.public {
				t.Errorf("%d %s: %q", w.Code, w.Body, a.requests)
			}
			if c.method == "POST" && !strings.Contains(w.Body.String(), `"trafficAccessToken":"`+d.keys.sealTraffic(aToken, aName, "of the share")+`"`) {
				t.Errorf("%s", w.Body)
			}
		})
	}
}
