package e2b

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// control sends a request of the control plane.
func control(d *Translator, a http.Handler, method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set(headerKey, aToken)
	w := httptest.NewRecorder()
	d.Translate(w, r, a)
	return w
}

// TestSnapshots holds that snapshots of the protocol are checkpoints.
func TestSnapshots(t *testing.T) {
	d := newTranslator(t)
	a := &api1{answer: func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.RequestURI() {
		case "POST /v1/sandboxes/" + aName + "/checkpoints":
			w.WriteHeader(201)
			_, _ = io.WriteString(w, `{"id":"cp1","name":"built"}`)
		case "GET /v1/checkpoints?limit=2&sandbox=" + aName:
			_, _ = io.WriteString(w, `{"items":[{"id":"cp1","name":"built"},{"id":"cp2","auto":true}],"next":"n"}`)
		case "GET /v1/checkpoints?cursor=n&limit=1&sandbox=" + aName:
			_, _ = io.WriteString(w, `{"items":[{"id":"cp3"}],"next":"m"}`)
		case "GET /v1/checkpoints/built":
			_, _ = io.WriteString(w, `{"id":"cp1","name":"built","sandbox":"`+aName+`"}`)
		case "DELETE /v1/checkpoints/cp1":
			w.WriteHeader(204)
		default:
			problem1(w, 404, "SANDBOX.NOT_FOUND", "x")
		}
	}}
	for _, tt := range []struct {
		method, target, body string
		status               int
		want, next           string
	}{
		{"POST", "/sandboxes/" + aName + "/snapshots", `{"name":"built"}`, 201, `{"snapshotID":"cp1","names":["built"]}`, ""},
		{"POST", "/sandboxes/" + aName + "/snapshots", `{"memory":true}`, 501, `memory: true`, ""},
		{"POST", "/sandboxes/" + aName + "/snapshots", `{"memory":false}`, 201, `"snapshotID":"cp1"`, ""},
		{"POST", "/sandboxes/" + aName + "/snapshots", `{"more":1}`, 400, `more`, ""},
		{"GET", "/snapshots?limit=2&sandboxID=" + aName, "", 200, `[{"snapshotID":"cp1","names":["built"]},{"snapshotID":"cp3","names":[]}]`, "m"},
		{"GET", "/snapshots?name=built", "", 200, `[{"snapshotID":"cp1","names":["built"]}]`, ""},
		{"GET", "/snapshots?name=built:default&sandboxID=" + aName, "", 200, `[{"snapshotID":"cp1","names":["built"]}]`, ""},
		{"GET", "/snapshots?name=built&sandboxID=other", "", 200, `[]`, ""},
		{"GET", "/snapshots?name=none", "", 200, `[]`, ""},
		{"GET", "/snapshots?name=a/b", "", 200, `[]`, ""},
		{"GET", "/snapshots?limit=0", "", 400, "limit", ""},
		{"DELETE", "/templates/cp1", "", 204, "", ""},
		{"DELETE", "/templates/cp1:default", "", 204, "", ""},
		{"DELETE", "/templates/none", "", 404, `"code":404`, ""},
		{"DELETE", "/templates/a%2Fb", "", 404, `"code":404`, ""},
	} {
		w := control(d, a, tt.method, tt.target, tt.body)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || w.Header().Get(headerNext) != tt.next {
			t.Errorf("%s %s %s: %d %s %q", tt.method, tt.target, tt.body, w.Code, w.Body, w.Header().Get(headerNext))
		}
	}
	if got := strings.Join(a.requests, "\n"); !strings.Contains(got, `Bearer `+aToken+` {"name":"built"}`) {
		t.Errorf("the requests are\n%s", got)
	}
}

// TestCreateFromSnapshot holds that a template that is a snapshot is one, and that
// other templates stay what they are.
func TestCreateFromSnapshot(t *testing.T) {
	d := newTranslator(t)
	for template, want := range map[string]string{
		"built": `{"from":"cp1","session":"`, "built:default": `{"from":"cp1","session":"`, "code": `{"from":"cp2","image":"sandbox-code:bookworm-slim","session":"`,
		"ubuntu": `{"image":"ubuntu","session":"`, "base": `{"session":"`, "strict": `{"preset":"strict","session":"`,
	} {
		a := &api1{answer: func(w http.ResponseWriter, r *http.Request) {
			switch r.Method + " " + r.URL.Path {
			case "GET /v1/checkpoints/built":
				_, _ = io.WriteString(w, `{"id":"cp1","image":"sandbox:bookworm-slim"}`)
			case "GET /v1/checkpoints/code":
				_, _ = io.WriteString(w, `{"id":"cp2","image":"sandbox-code:bookworm-slim"}`)
			case "POST /v1/sandboxes":
				_, _ = io.WriteString(w, `{"name":"sbx-1"}`)
			default:
				problem1(w, 404, "SANDBOX.NOT_FOUND", "x")
			}
		}}
		w := control(d, a, "POST", "/v2/sandboxes", `{"templateID":"`+template+`"}`)
		if got := strings.Join(a.requests, "\n"); w.Code != 201 || !strings.Contains(got, want) {
			t.Errorf("%q: %d %s\n%s", template, w.Code, w.Body, got)
		}
	}
	a := &api1{answer: func(w http.ResponseWriter, _ *http.Request) { problem1(w, 503, "PROVIDER.UNAVAILABLE", "x") }}
	if w := control(d, a, "POST", "/v2/sandboxes", `{"templateID":"built"}`); w.Code != 503 || len(a.requests) != 1 {
		t.Errorf("a template that may be a snapshot: %d %q", w.Code, a.requests)
	}
}

// TestForkOfE2B holds what a fork comes to: sandboxes that end after their time, an
// error for each that could not be made, and none that would never end.
func TestForkOfE2B(t *testing.T) {
	d := newTranslator(t)
	a := &api1{answer: func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "POST /v1/sandboxes/" + aName + "/fork":
			_, _ = io.WriteString(w, `{"items":[{"session":"a","name":"sbx-a","checkpoint":"cp1"},{"session":"b","checkpoint":"cp1","problem":{"status":429,"code":"QUOTA.BUDGET_EXCEEDED","detail":"no more sandboxes"}},{"session":"c","name":"sbx-c","checkpoint":"cp1"}]}`)
		case "POST /v1/sandboxes/sbx-a/timeout":
			_, _ = io.WriteString(w, `{"name":"sbx-a"}`)
		case "DELETE /v1/sandboxes/sbx-c", "DELETE /v1/checkpoints/cp1":
			w.WriteHeader(204)
		default:
			problem1(w, 503, "PROVIDER.UNAVAILABLE", "x")
		}
	}}
	w := control(d, a, "POST", "/sandboxes/"+aName+"/fork", `{"count":3,"timeout":60}`)
	var got []forkResult
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 201 || len(got) != 3 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if s := got[0].Sandbox; s == nil || s.SandboxID != "sbx-a" || s.EnvdAccessToken == "" || got[0].Error != nil {
		t.Errorf("%+v", got[0])
	}
	if e := got[1].Error; e == nil || e.Code != 429 || !strings.Contains(e.Message, "no more sandboxes") || got[1].Sandbox != nil {
		t.Errorf("%+v", got[1])
	}
	if e := got[2].Error; e == nil || e.Code != 503 || got[2].Sandbox != nil {
		t.Errorf("%+v", got[2])
	}
	requests := strings.Join(a.requests, "\n")
	if strings.Count(requests, `"e2b-`) != 3 || !strings.Contains(requests, `{"timeout":60}`) || !strings.Contains(requests, "DELETE /v1/sandboxes/sbx-c?force=true&workspace=true") || !strings.Contains(requests, "DELETE /v1/checkpoints/cp1") {
		t.Errorf("the requests are\n%s", requests)
	}
	for _, body := range []string{`{"count":0}`, `{"count":101}`, `{"timeout":0}`, `{"timeout":-1}`, `{"more":1}`, `[]`} {
		a := &api1{}
		if w := control(d, a, "POST", "/sandboxes/"+aName+"/fork", body); w.Code != 400 || len(a.requests) > 0 {
			t.Errorf("%s: %d %s %q", body, w.Code, w.Body, a.requests)
		}
	}
	if w := control(d, &api1{}, "POST", "/sandboxes/"+aName+"/fork", ""); w.Code != 404 || !strings.Contains(w.Body.String(), fmt.Sprintf("there is no sandbox %q", aName)[:20]) {
		t.Errorf("of none: %d %s", w.Code, w.Body)
	}
}
