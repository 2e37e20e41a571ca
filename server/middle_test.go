package server_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

func TestRefusals(t *testing.T) {
	srv := serve(t, server.Options{Resources: []resource.Resource{echo()}})
	const at, ok, json = "/v1/echo/x", `{"text":"a"}`, "application/json"
	tests := []struct {
		name, method, path, body, content string
		status                            int
		field                             string
	}{
		{"nothing there", "GET", "/v1/else", "", "", 404, ""},
		{"the root", "GET", "/", "", "", 404, ""},
		{"another method", "GET", at, "", "", 405, ""},
		{"a made-up method", "BREW", at, ok, json, 405, ""},
		{"no content type", "POST", at, ok, "", 415, "Content-Type"},
		{"another content type", "POST", at, ok, "text/plain", 415, "Content-Type"},
		{"another charset", "POST", at, ok, json + "; charset=latin1", 415, "Content-Type"},
		{"a form", "POST", at, "text=a", "application/x-www-form-urlencoded", 415, "Content-Type"},
		{"no JSON", "POST", at, "hello", json, 422, ""},
		{"half of it", "POST", at, `{"text":`, json, 422, "text"},
		{"a list", "POST", at, `[]`, json, 422, ""},
		{"missing field", "POST", at, `{}`, json, 422, "text"},
		{"unknown field", "POST", at, `{"text":"a","more":1}`, json, 422, "more"},
		{"field in another case", "POST", at, `{"Text":"a"}`, json, 422, "Text"},
		{"field that appears twice", "POST", at, `{"text":"a","text":"b"}`, json, 422, "text"},
		{"behind the end", "POST", at, ok + ok, json, 422, ""},
		{"another type", "POST", at, `{"text":1}`, json, 422, "text"},
		{"null", "POST", at, `{"text":null}`, json, 422, "text"},
		{"too long", "POST", at, `{"text":"123456789"}`, json, 422, "text"},
		{"too much", "POST", at, `{"text":"a","times":4}`, json, 422, "times"},
		{"a fraction", "POST", at, `{"text":"a","times":1.5}`, json, 422, "times"},
		{"no UTF-8", "POST", at, "{\"text\":\"\xff\"}", json, 422, ""},
		{"too deep", "POST", at, strings.Repeat("[", 100_000), json, 422, ""},
		{"a large body", "POST", at, `{"text":"` + strings.Repeat("a", 2<<20) + `"}`, json, 413, ""},
		{"unknown parameter", "POST", at + "?x=1", ok, json, 422, "x"},
		{"parameter twice", "POST", at + "?limit=1&limit=2", ok, json, 422, "limit"},
		{"parameter out of bounds", "POST", at + "?limit=10", ok, json, 422, "limit"},
		{"a name that starts with a dot", "POST", "/v1/echo/.x", ok, json, 404, ""},
		{"a name with a slash", "POST", "/v1/echo/a%2fb", ok, json, 404, ""},
		{"a name with a zero", "POST", "/v1/echo/a%00b", ok, json, 404, ""},
		{"a long name", "POST", "/v1/echo/" + strings.Repeat("a", 129), ok, json, 404, ""},
		{"up", "POST", "/v1/echo/../echo/x", ok, json, 404, ""},
		{"up with escapes", "POST", "/v1/echo/%2e%2e/echo/x", ok, json, 404, ""},
		{"two slashes", "POST", "/v1//echo/x", ok, json, 404, ""},
		{"a slash at the end", "POST", "/v1/echo/x/", ok, json, 404, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var header []string
			if tt.content != "" {
				header = []string{"Content-Type", tt.content}
			}
			res, body := ask(t, srv, tt.method, tt.path, tt.body, header...)
			p := problem(t, res, body)
			if res.StatusCode != tt.status || p.Field != tt.field {
				t.Errorf("%d, field %q, want %d and %q\n%s", res.StatusCode, p.Field, tt.status, tt.field, body)
			}
			if tt.status == 405 && res.Header.Get("Allow") != "POST" {
				t.Errorf("allowed is %q", res.Header.Get("Allow"))
			}
		})
	}
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	srv := serve(t, server.Options{Resources: []resource.Resource{echo()}})
	tracing := serve(t, server.Options{Resources: []resource.Resource{echo()}, Tracer: server.NewTracer(sdktrace.NewTracerProvider())})
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for given, taken := range map[string]bool{"abc-1.2_3": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "a b": false, "-a": false, "a\tb": false, "": false, "ä": false} {
		res, _ := ask(t, srv, "GET", "/healthz", "", "X-Request-Id", given)
		if got := res.Header.Get("X-Request-Id"); (got == given) != taken || got == "" {
			t.Errorf("request id %q has become %q", given, got)
		}
	}
	for given, want := range map[string]string{
		"00-" + trace + "-00f067aa0ba902b7-01":                   "01",
		"00-" + trace + "-00f067aa0ba902b7-ff":                   "01",
		"00-" + trace + "-00f067aa0ba902b7-00":                   "00",
		"cc-" + trace + "-00f067aa0ba902b7-01-what-else":         "01",
		"00-" + trace + "-00f067aa0ba902b7-01-what-else":         "",
		"ff-" + trace + "-00f067aa0ba902b7-01":                   "",
		"00-" + trace + "-0000000000000000-01":                   "",
		"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01": "",
		"00-" + strings.ToUpper(trace) + "-00f067aa0ba902b7-01":  "",
		"00-" + trace + "-00f067aa0ba902b7":                      "",
		"":                                                       "",
	} {
		for kind, srv := range map[string]*httptest.Server{"": srv, " with traces": tracing} {
			res, _ := ask(t, srv, "GET", "/healthz", "", "traceparent", given)
			got := res.Header.Get("Traceparent")
			parts := strings.Split(got, "-")
			if len(parts) != 4 || parts[2] == "00f067aa0ba902b7" {
				t.Errorf("%q has become %q%s", given, got, kind)
			} else if ours := parts[1] == trace && parts[3] == want; ours != (want != "") {
				t.Errorf("%q has become %q%s", given, got, kind)
			}
		}
	}
}

// watcher counts the calls of the observer.
type watcher struct {
	panics atomic.Int64
	served atomic.Int64
	route  atomic.Value
}

func (w *watcher) Panicked() { w.panics.Add(1) }
func (w *watcher) Served(_, pattern string, _ int, _ time.Duration) {
	w.served.Add(1)
	w.route.Store(pattern)
}

func TestNothingLeaksFromInside(t *testing.T) {
	const secret = "/var/lib/secret"
	failing := table{}
	add := func(id string, do func(*resource.Call) (any, error)) {
		failing = append(failing, resource.Route{ID: id, Method: "GET", Path: "/v1/" + id, Tag: "test", Summary: "Fail", Response: api.Health{}, Role: token.Session, Do: do})
	}
	add("panic", func(*resource.Call) (any, error) { panic(secret) })
	add("plain", func(*resource.Call) (any, error) { return nil, errors.New(secret) })
	add("internal", func(*resource.Call) (any, error) {
		return nil, &sandbox.Error{Code: sandbox.CodeInternal, Message: secret, Resource: secret, Hint: secret, Field: secret}
	})
	add("cause", func(*resource.Call) (any, error) {
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "it is down", Err: errors.New(secret)}
	})
	add("unwritable", func(*resource.Call) (any, error) { return func() {}, nil })
	w := &watcher{}
	srv := serve(t, server.Options{Resources: []resource.Resource{failing}, Observer: w})
	for _, r := range failing {
		res, body := ask(t, srv, "GET", r.Path, "")
		p := problem(t, res, body)
		if strings.Contains(body, secret) || res.StatusCode < 500 || p.RequestID == "" {
			t.Errorf("%s: %s", r.Path, body)
		}
		if w.route.Load() != r.Path {
			t.Errorf("the observer has heard of %v", w.route.Load())
		}
	}
	if w.panics.Load() != 1 || w.served.Load() != int64(len(failing)) {
		t.Errorf("%d panics and %d requests were told", w.panics.Load(), w.served.Load())
	}
}

func TestNobodySaysWhoAsks(t *testing.T) {
	if _, err := server.New(server.Options{Log: quiet()}); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("a server for everybody: %v", err)
	}
}

func TestPrivateTextsAreForAdmins(t *testing.T) {
	s, err := server.New(server.Options{Log: quiet(), Identify: anAdmin, Private: []string{"/var/lib/secret"}})
	must(t, err)
	reported := &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "cannot write", Resource: "/var/lib/secret/registry", Retryable: true}
	if p, _ := s.Problem(reported, true, "r"); p.Resource != reported.Resource {
		t.Errorf("an admin sees %+v", p)
	}
	p, h := s.Problem(reported, false, "r")
	if text := fmt.Sprint(p); strings.Contains(text, "secret") || p.Status != 503 || h.Get("Retry-After") == "" {
		t.Errorf("a tenant sees %+v, %v", p, h)
	}
}

func TestDeadlineOfARequest(t *testing.T) {
	slow := table{{ID: "slow", Method: "GET", Path: "/v1/slow", Tag: "test", Summary: "Wait", Response: api.Health{}, Role: token.Session, Timeout: 20 * time.Millisecond, Do: func(c *resource.Call) (any, error) {
		<-c.Context().Done()
		return nil, c.Context().Err()
	}}}
	srv := serve(t, server.Options{Resources: []resource.Resource{slow}})
	res, body := ask(t, srv, "GET", "/v1/slow", "")
	if p := problem(t, res, body); p.Code != sandbox.CodeTimeout || res.StatusCode != 504 {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

// A body that stops arriving ends its request.
func TestSlowBodyIsCutOff(t *testing.T) {
	srv := serve(t, server.Options{Resources: []resource.Resource{echo()}, SlowRead: 50 * time.Millisecond})
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	must(t, err)
	defer c.Close()
	_, err = c.Write([]byte("POST /v1/echo/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"))
	must(t, err)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	defer res.Body.Close()
	if res.StatusCode != 408 || !res.Close {
		t.Errorf("%d, closed %v", res.StatusCode, res.Close)
	}
}

// The document lists all served routes, and no others.
func TestDocumentIsTheTable(t *testing.T) {
	h := open(t, plan{})
	document := h.send("", "GET", "/openapi.json", nil).body
	described := served.Operations(t, document)
	served := map[string]string{}
	for _, r := range h.server.Routes() {
		served[r.Method+" "+strings.ReplaceAll(r.Path, "...}", "}")] = r.ID
	}
	for at, id := range described {
		if served[at] != id {
			t.Errorf("%s (%s) is in the document and not served", at, id)
		}
		method, path, _ := strings.Cut(at, " ")
		if res := h.send("", method, strings.NewReplacer("{", "", "}", "").Replace(path), nil); res.StatusCode == 405 || res.StatusCode == 404 && strings.Contains(string(res.body), "nothing at this path") {
			t.Errorf("%s is not served: %s", at, res.body)
		}
	}
	for at, id := range served {
		if described[at] != id {
			t.Errorf("%s (%s) is served and not in the document", at, id)
		}
	}
	var parsed map[string]any
	must(t, json.Unmarshal(document, &parsed))
}

// No request, however malformed, causes an internal error.
func TestGarbageIsNeverAnInternalError(t *testing.T) {
	h := open(t, plan{})
	tenant := h.mint(token.Claims{Role: token.Tenant, Tenant: "a"})
	name := h.made(tenant, "s").Name
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	routes := h.server.Routes()
	counts := map[int]int{}
	for range 1500 {
		r := routes[rnd.IntN(len(routes))]
		path := strings.NewReplacer(
			"{name}", pick(name, name, name, name, name, name, "none", "%00", "..", "%2e%2e", "a%2fb", strings.Repeat("n", 300), "%ff", "{name}", "-x", "a b", "sbx-*"),
			"{tool}", pick("exec", "read", "nothing", "%0a", "write"),
		).Replace(r.Path)
		path = strings.ReplaceAll(path, " ", "%20") + pick("", "", "", "", "", "", "", "", "", "", "", "", "", "?", "?x=1", "?limit=-1", "?force=maybe", "?cursor=%ff", "?%", "?a&a", "?limit=99999999999999999999", "/", "//", "?wait="+strings.Repeat("9", 5000))
		method := pick(r.Method, r.Method, r.Method, r.Method, r.Method, r.Method, r.Method, r.Method, r.Method, "HEAD", "PUT", "OPTIONS", "TRACE", "X")
		body := pick("", "{}", "[]", "null", `{"args":["true"]}`, `{"line":"exit 1"}`, `{"args":[""]}`, `{"args":["\u0000"]}`, `{"command":"true","timeout":1e99}`, `{"ttlSeconds":-1}`, `{"ttlSeconds":99999999999999999999}`,
			`{"session":"\u202e"}`, `{"session":"a/../b","agent":"../x"}`, `{"idempotencyKey":"ü"}`, `{"env":{"":""}}`, `{"args":["true"],"dir":"../../.."}`, `{"path":"../../etc/passwd"}`, "\xff\xfe", strings.Repeat(`{"a":`, 5000), `"`+strings.Repeat("x", 70_000)+`"`)
		header := []string{
			"Sandbox-Session", pick("", "", "", "", "", "", "s", "other", strings.Repeat("s", 300)), "Sandbox-Tenant", pick("", "", "", "", "", "", "a", "b", "../x"), "Accept", pick("", "text/event-stream", "*/*;q=x"),
			"Idempotency-Key", pick("", "", "k", strings.Repeat("k", 200)), "Content-Type", pick("application/json", "application/json", "application/json", "application/json", "application/json", "text/plain", "application/json; charset=utf-16", "x/y;;;"), "Content-Encoding", pick("", "", "", "", "", "", "", "gzip"),
		}
		res := h.send(tenant, method, path, body, header...)
		counts[res.StatusCode]++
		if res.StatusCode >= 500 && !slices.Contains([]int{501}, res.StatusCode) {
			t.Errorf("%s %s %q %q: %d %s", method, path, header, body[:min(len(body), 200)], res.StatusCode, res.body)
		}
	}
	t.Logf("statuses %v", counts)
	if counts[200]+counts[201] == 0 || counts[404] == 0 || counts[422] == 0 {
		t.Errorf("the garbage is too much alike: %v", counts)
	}
}
