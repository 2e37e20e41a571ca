package e2b

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTemplates holds which image a template is, and by which names a list finds
// sandboxes of it.
func TestTemplates(t *testing.T) {
	d := newTranslator(t)
	for template, want := range map[string]string{
		"base": `{"session":"`, "": `{"session":"`,
		"code-interpreter-v1": `{"image":"sandbox-code:bookworm-slim","session":"`,
		"python:3.13":         `{"image":"python:3.13","session":"`,
		"strict":              `{"preset":"strict","session":"`,
		"strict:latest":       `{"image":"strict:latest","session":"`,
	} {
		a := &api1{answer: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"name":"sbx-1","image":"sandbox-code:bookworm-slim"}`)
		}}
		r := httptest.NewRequest("POST", "/v2/sandboxes", strings.NewReader(`{"templateID":"`+template+`"}`))
		r.Header.Set(headerKey, aToken)
		w := httptest.NewRecorder()
		d.Translate(w, r, a)
		if w.Code != 201 || len(a.requests) != 1 || !strings.Contains(a.requests[0], want) {
			t.Errorf("%q: %d %s %q", template, w.Code, w.Body, a.requests)
		}
		if !strings.Contains(w.Body.String(), `"templateID":"code-interpreter-v1"`) {
			t.Errorf("%q: the answer is %s", template, w.Body)
		}
	}
	for query, want := range map[string]int{"": 2, "?template=code-interpreter-v1": 1, "?template=sandbox-code:bookworm-slim": 1, "?template=x:1": 1, "?template=base": 0, "?template=strict": 1, "?template=sandbox-code": 0} {
		a := &api1{answer: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"items":[{"name":"sbx-1","kind":"sandbox","status":"running","image":"sandbox-code:bookworm-slim"},{"name":"sbx-2","kind":"sandbox","status":"running","image":"x:1","preset":"strict"}]}`)
		}}
		r := httptest.NewRequest("GET", "/v2/sandboxes"+query, nil)
		r.Header.Set(headerKey, aToken)
		w := httptest.NewRecorder()
		d.Translate(w, r, a)
		if got := strings.Count(w.Body.String(), `"sandboxID"`); w.Code != 200 || got != want {
			t.Errorf("%q: %d %s", query, w.Code, w.Body)
		}
	}
}
