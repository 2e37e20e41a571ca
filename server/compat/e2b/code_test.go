package e2b

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// code sends a request to the port of the code interpreter.
func sendCode(d *Translator, a http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	return send(d, a, method, target, "application/json", body, append([]string{headerPort, codePort}, header...)...)
}

// events answers as /v1 does with a stream of events.
func events(of ...string) func(w http.ResponseWriter, r *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; i < len(of); i += 2 {
			_, _ = io.WriteString(w, "event: "+of[i]+"\ndata: "+of[i+1]+"\n\n")
		}
	}
}

// lines reads an answer as both SDKs do: each line is one JSON object.
func lines(t *testing.T, w *httptest.ResponseRecorder) []map[string]any {
	t.Helper()
	var out []map[string]any
	for s := bufio.NewScanner(strings.NewReader(w.Body.String())); s.Scan(); {
		var one map[string]any
		if err := json.Unmarshal(s.Bytes(), &one); err != nil {
			t.Fatalf("%q is no JSON: %v", s.Text(), err)
		}
		out = append(out, one)
	}
	return out
}

// TestExecute holds how a run is translated in both directions.
func TestExecute(t *testing.T) {
	d, a := newTranslator(t), &api1{answer: events(
		"code", `{"type":"count","executionCount":3}`,
		"code", `{"type":"stdout","text":"a\u0085\u2028b\n"}`,
		"code", `{"type":"stderr","text":"e"}`,
		"code", `{"type":"result","result":{"text":"t","html":"<b>","markdown":"*","latex":"$","svg":"<svg/>","javascript":"j","png":"AAEC","jpeg":"AQ==","pdf":"Ag==","json":{"k":[1]},`+
			`"data":{"columns":["a"],"index":[0],"data":{"a":[1]},"rows":1},"chart":{"type":"bar","elements":[]},"extra":{"a/b":"x","type":"forged","png":"forged"},"omitted":["image/webp"],"main":true}}`,
		"code", `{"type":"result","result":{"text":"shown"}}`,
		"code", `{"type":"timeout"}`, "code", `{"type":"truncated","dropped":7}`,
		"code", `{"type":"error","error":{"name":"ValueError","value":"no","traceback":"tb"}}`,
		"done", `{}`)}
	w := sendCode(d, a, "POST", "/execute?source=ci", `{"code":"x","context_id":null,"language":" JS ","env_vars":{"A":"b"}}`)
	if want := "POST /v1/sandboxes/" + aName + "/code Bearer " + aToken + ` {"code":"x","language":"javascript","env":{"A":"b"}}`; len(a.requests) != 1 || a.requests[0] != want {
		t.Errorf("%q, not %q", a.requests, want)
	}
	if strings.Contains(w.Body.String(), "\u0085") || strings.Contains(w.Body.String(), "\u2028") {
		t.Error("a line holds a character that ends one in Python")
	}
	got := lines(t, w)
	for _, l := range got {
		if at, ok := l["timestamp"].(float64); ok && time.Since(time.Unix(0, int64(at))) < time.Hour {
			delete(l, "timestamp")
		}
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"execution_count":3,"type":"number_of_executions"},{"text":"a` + "\u0085" + `\u2028b\n","type":"stdout"},{"text":"e","type":"stderr"},` +
		`{"text":"sandbox: a value is too large in these forms, which were left out: image/webp\n","type":"stderr"},` +
		`{"a/b":"x","chart":{"elements":[],"type":"bar"},"data":{"a":[1]},"extra":{"a/b":"x","png":"forged","type":"forged"},"html":"\u003cb\u003e","is_main_result":true,"javascript":"j",` +
		`"jpeg":"AQ==","json":{"k":[1]},"latex":"$","markdown":"*","pdf":"Ag==","png":"AAEC","svg":"\u003csvg/\u003e","text":"t","type":"result"},` +
		`{"is_main_result":false,"text":"shown","type":"result"},` +
		`{"text":"sandbox: the code is interrupted at its time limit\n","type":"stderr"},{"text":"sandbox: 7 characters of output were left out, because there were too many\n","type":"stderr"},` +
		`{"name":"ValueError","traceback":"tb","type":"error","value":"no"},{"type":"end_of_execution"}]`
	if string(text) != want {
		t.Errorf("%s\nnot\n%s", text, want)
	}
}

// TestExecuteBroken holds that a run whose end is not known never looks like one
// that has ended.
func TestExecuteBroken(t *testing.T) {
	for name, c := range map[string]struct {
		events []string
		status int
		last   string // name of the error in the last line
	}{
		"before anything": {[]string{"error", `{"status":503,"code":"PROVIDER.UNAVAILABLE","detail":"gone"}`}, 503, ""},
		"after a line":    {[]string{"code", `{"type":"stdout","text":"a"}`, "error", `{"status":503,"code":"PROVIDER.UNAVAILABLE","detail":"gone"}`}, 200, "PROVIDER.UNAVAILABLE"},
		"without an end":  {[]string{"code", `{"type":"stdout","text":"a"}`}, 200, "SandboxError"},
		"nothing":         {nil, 503, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, a := newTranslator(t), &api1{answer: events(c.events...)}
			w := sendCode(d, a, "POST", "/execute", `{"code":"x"}`)
			if w.Code != c.status || strings.Contains(w.Body.String(), "end_of_execution") {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			if c.last == "" {
				return
			}
			if all := lines(t, w); all[len(all)-1]["type"] != "error" || all[len(all)-1]["name"] != c.last || all[len(all)-1]["value"] == "" {
				t.Errorf("%v", all)
			}
		})
	}
}

// heads is an answer whose status can be read while it is written.
type heads struct {
	*httptest.ResponseRecorder
	status atomic.Int32
}

func (h *heads) WriteHeader(status int) {
	h.ResponseRecorder.WriteHeader(status)
	h.status.CompareAndSwap(0, int32(status))
}

// TestExecuteWaits holds that a run which waits for its turn has an answer before
// SDKs give it up, and that an error of it is a line then.
func TestExecuteWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := New(Options{Key: make([]byte, 32)})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		release := make(chan struct{})
		a := &api1{answer: func(w http.ResponseWriter, r *http.Request) {
			<-release
			problem1(w, 409, "SANDBOX.BUSY", "")
		}}
		r := httptest.NewRequest("POST", "/execute", strings.NewReader(`{"code":"x"}`))
		r.Header.Set(headerSandbox, aName)
		r.Header.Set(headerPort, codePort)
		r.Header.Set(headerAccess, d.keys.seal(aToken, aName))
		w := &heads{ResponseRecorder: httptest.NewRecorder()}
		done := make(chan struct{})
		go func() { defer close(done); d.Translate(w, r, a) }()
		time.Sleep(codeHead - time.Second)
		synctest.Wait()
		if w.status.Load() != 0 {
			t.Error("the answer begins at once")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if w.status.Load() != 200 {
			t.Error("there is no answer after a time")
		}
		close(release)
		<-done
		if all := lines(t, w.ResponseRecorder); len(all) != 1 || all[0]["name"] != "SANDBOX.BUSY" {
			t.Errorf("%v", all)
		}
	})
}

// TestContexts holds how contexts are translated.
func TestContexts(t *testing.T) {
	one := `{"id":"c1","language":"python","dir":"/workspace"}`
	for _, c := range []struct{ name, method, target, body, answer, request, want string }{
		{"list", "GET", "/contexts", "", `{"items":[` + one + `]}`, "GET /v1/sandboxes/" + aName + "/code/contexts ", `[{"id":"c1","language":"python","cwd":"/workspace"}]`},
		{"list of none", "GET", "/contexts", "", `{"items":[]}`, "GET /v1/sandboxes/" + aName + "/code/contexts ", `[]`},
		{"create", "POST", "/contexts", `{"language":"bash","cwd":"sub"}`, one, "POST /v1/sandboxes/" + aName + "/code/contexts {\"language\":\"bash\",\"dir\":\"/workspace/sub\"}", `{"id":"c1","language":"python","cwd":"/workspace"}`},
		{"create of nothing", "POST", "/contexts", `{}`, one, "POST /v1/sandboxes/" + aName + "/code/contexts {}", `{"id":"c1","language":"python","cwd":"/workspace"}`},
		{"restart", "POST", "/contexts/c1/restart", "", one, "POST /v1/sandboxes/" + aName + "/code/contexts/c1/restart ", ""},
		{"delete", "DELETE", "/contexts/c1", "", ``, "DELETE /v1/sandboxes/" + aName + "/code/contexts/c1 ", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newTranslator(t)
			a := &api1{answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.answer) }}
			// SDKs send no other token with requests for contexts.
			w := sendCode(d, a, c.method, c.target, c.body, headerAccess, "", headerTraffic, d.keys.sealTraffic(aToken, aName, ""))
			if w.Code >= 300 || w.Body.String() != c.want {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if len(a.requests) != 1 || strings.Replace(a.requests[0], "Bearer "+aToken+" ", "", 1) != c.request {
				t.Errorf("%q, not %q", a.requests, c.request)
			}
		})
	}
}

// TestCodeRefused is [TestRefused] for the code interpreter.
func TestCodeRefused(t *testing.T) {
	d, a := newTranslator(t), &api1{}
	own, other := d.keys.seal(aToken, aName), d.keys.sealTraffic(aToken, "sbx-other", "")
	traffic := d.keys.sealTraffic(aToken, aName, "secret")
	for _, c := range []struct {
		name, method, target, body string
		header                     []string
		status                     int
	}{
		{"no token", "POST", "/execute", `{"code":"x"}`, []string{headerAccess, ""}, 401},
		{"traffic token for code", "POST", "/execute", `{"code":"x"}`, []string{headerAccess, "", headerTraffic, traffic}, 401},
		{"traffic token as access token", "POST", "/execute", `{"code":"x"}`, []string{headerAccess, traffic}, 401},
		{"access token as traffic token", "GET", "/contexts", "", []string{headerAccess, "", headerTraffic, own}, 401},
		{"another sandbox's contexts", "GET", "/contexts", "", []string{headerAccess, "", headerTraffic, other}, 401},
		{"token of another sandbox", "POST", "/execute", `{"code":"x"}`, []string{headerAccess, "", headerTraffic, other}, 401},
		{"two tokens", "POST", "/execute", `{"code":"x"}`, []string{headerAccess, own, headerTraffic, other}, 401},
		{"forged token", "GET", "/contexts", "", []string{headerAccess, "", headerTraffic, "ea_AAAA"}, 401},
		{"token of the control plane", "GET", "/contexts", "", []string{headerAccess, "", headerTraffic, aToken}, 401},
		{"root", "POST", "/execute", `{"code":"x"}`, []string{"Authorization", "Basic cm9vdDo="}, 403},
		{"no code", "POST", "/execute", `{}`, nil, 400},
		{"no object", "POST", "/execute", `[]`, nil, 400},
		{"no JSON", "POST", "/execute", `{"code"`, nil, 400},
		{"unknown field", "POST", "/execute", `{"code":"x","x":1}`, nil, 400},
		{"too large", "POST", "/execute", `{"code":"` + strings.Repeat("a", maxCodeBody) + `"}`, nil, 413},
		{"context and language", "POST", "/execute", `{"code":"x","context_id":"c","language":"python"}`, nil, 400},
		{"a context that is a path", "POST", "/execute", `{"code":"x","context_id":"../x"}`, nil, 404},
		{"folder", "POST", "/contexts", `{"cwd":"~/x"}`, nil, 400},
		{"restart of a path", "POST", "/contexts/a%2Fx/restart", "", nil, 404},
		{"delete of a path", "DELETE", "/contexts/..%2Fx", "", nil, 400},
		{"no path", "GET", "/nothing", "", nil, 404},
		{"method", "PUT", "/execute", `{"code":"x"}`, nil, 404},
		{"a path of the other port", "GET", "/files?path=a", "", nil, 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			a.requests = nil
			w := sendCode(d, a, c.method, c.target, c.body, c.header...)
			var got struct {
				Code    int
				Message string
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Message == "" || w.Code != c.status {
				t.Errorf("%d %s, not %d", w.Code, w.Body, c.status)
			}
			if len(a.requests) > 0 {
				t.Errorf("/v1 was asked: %q", a.requests)
			}
		})
	}
	// A sandbox that is not there is 502: SDKs report it as one whose time is over.
	if w := sendCode(d, a, "POST", "/execute", `{"code":"x"}`); w.Code != 502 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	a.answer = func(w http.ResponseWriter, _ *http.Request) { problem1(w, 404, "SANDBOX.NOT_FOUND", "") }
	if w := sendCode(d, a, "DELETE", "/contexts/c1", ""); w.Code != 404 {
		t.Errorf("a context that is not there: %d %s", w.Code, w.Body)
	}
	a.answer = nil
	// The host names the port as well as the header does.
	w := send(d, a, "POST", "http://49999-"+aName+".localhost/execute", "application/json", `{"code":"x"}`, headerSandbox, "")
	if w.Code != 502 || !strings.Contains(a.requests[len(a.requests)-1], "/code ") {
		t.Errorf("by host: %d %s %q", w.Code, w.Body, a.requests)
	}
}

// FuzzCode sends bodies to the code interpreter, and has /v1 answer with any event.
func FuzzCode(f *testing.F) {
	f.Add([]byte(`{"code":"x","language":"bash","env_vars":{"A":"b"}}`), []byte(`{"type":"result","result":{"data":{"data":{}},"extra":{"a/b":1}}}`))
	f.Add([]byte(`{"code":""}`), []byte(`{"type":"error"}`))
	f.Add([]byte(`{"code":null}`), []byte(`{"type":"result"}`))
	f.Add([]byte(`{"code":"x","context_id":"default-python"}`), []byte(`{"type":"result","result":{"json":7,"data":[]}}`))
	f.Fuzz(func(t *testing.T, body, event []byte) {
		d := newTranslator(t)
		a := &api1{answer: events("code", strings.NewReplacer("\n", "", "\r", "").Replace(string(event)), "done", "{}")}
		for _, path := range []string{"/execute", "/contexts"} {
			w := sendCode(d, a, "POST", path, string(body))
			if w.Code == 200 && path == "/execute" {
				lines(t, w)
			}
			for _, r := range a.requests {
				if !strings.HasPrefix(r, "POST /v1/sandboxes/"+aName+"/code") {
					t.Errorf("/v1 was asked for something else: %s", r)
				}
			}
		}
	})
}
