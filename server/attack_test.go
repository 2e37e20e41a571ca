package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// An ask is one request. Names in braces stand for objects of the world.
type ask struct {
	as     string // the name of the token to send
	method string // GET where it is empty
	path   string
	body   string // "-" in a control removes it
	header []string
	raw    string // sent instead of a request, over a separate connection
}

// An attempt is a request that has to be refused, with the same request by a
// caller that has the right to it.
type attempt struct {
	name string
	ask
	want  []int
	right ask // the fields of the ask that differ in the control; the token is B's where it is empty
	okay  []int

	// then is called after the control with its answer. It waits for what the
	// control has begun and a later control would meet.
	then func(w *world, got said)
}

// over returns a with the fields that b sets.
func (a ask) over(b ask) ask {
	for _, f := range []struct{ to, from *string }{{&a.as, &b.as}, {&a.method, &b.method}, {&a.path, &b.path}, {&a.body, &b.body}, {&a.raw, &b.raw}} {
		if *f.from != "" {
			*f.to = *f.from
		}
	}
	if b.header != nil {
		a.header = b.header
	}
	if a.body == "-" {
		a.body = ""
	}
	return a
}

// fill replaces the names in braces by objects of the world.
func (w *world) fill(text string) string {
	var pairs []string
	for name, value := range w.ids {
		pairs = append(pairs, "{"+name+"}", value)
	}
	for name, value := range w.tokens {
		pairs = append(pairs, "{token of "+name+"}", value)
	}
	return strings.NewReplacer(append(pairs, "{host}", w.addr)...).Replace(text)
}

// does sends an ask, and returns the answer and the text that was sent.
func (w *world) does(a ask) (said, string) {
	w.t.Helper()
	header := []string{}
	for _, h := range a.header {
		header = append(header, w.fill(h))
	}
	path, body := w.fill(a.path), w.fill(a.body)
	if a.raw != "" {
		raw := w.fill(a.raw)
		return w.raw(raw), raw
	}
	secret, ok := w.tokens[a.as]
	if !ok {
		w.t.Fatalf("nobody is called %q", a.as)
	}
	method := a.method
	if method == "" {
		method = "GET"
	}
	return w.send(secret, method, path, body, header...), path + body + strings.Join(header, "\n")
}

// tells returns what an answer contains that the attacker must not know.
func (w *world) tells(s said, sent string) string {
	var all strings.Builder
	all.WriteString(s.body)
	for name, values := range s.header {
		all.WriteString("\n" + name + ": " + strings.Join(values, ","))
	}
	for what, text := range w.hidden {
		known := text != secret && text != w.state && strings.Contains(sent, text)
		if !known && strings.Contains(all.String(), text) {
			return what
		}
	}
	return ""
}

// refusals are the statuses with which an attempt may be refused.
var refusals = []int{401, 403, 404, 413, 422, 429}

// asHTTP are the statuses that HTTP requires for a malformed request, and for a
// method or content type that no route accepts.
var asHTTP = []int{400, 405, 415, 431, 501, 505}

func table() []attempt {
	return slices.Concat(boxes(), paths(), headers(), credentials(), bodies(), lasting(), children())
}

func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := table()
	refused := w.tries(t, all)
	if refused < 60 {
		t.Errorf("%d attempts were refused, at least 60 are wanted", refused)
	}
	t.Run("nothing is seen", w.looks)
	t.Run("not there is not yours", w.alike)
	t.Run("nothing outside of sandboxes", w.noHost)
	t.Run("a grant of the same id", w.sameGrant)
	t.Run("tools of one agent", w.oneAgent)
	t.Run("quotas", w.quotas)
	t.Run("budgets", w.budgets)
	t.Run("a call whose token is taken back", w.endsWithItsToken)
	t.Run("untouched", func(*testing.T) { w.untouched() })
	w.controls(t, all)
}

// tries makes the attempts, and returns how many of them were refused.
func (w *world) tries(t *testing.T, all []attempt) (refused int) {
	names := map[string]bool{}
	for _, a := range all {
		if names[a.name] {
			t.Errorf("two attempts are called %q", a.name)
		}
		names[a.name] = true
		t.Run(a.name, func(t *testing.T) {
			got, sent := w.does(a.ask)
			switch {
			case !slices.Contains(a.want, got.status):
				t.Errorf("%d, want %v: %s", got.status, a.want, got.body)
			case slices.Contains(refusals, got.status):
				refused++
			case !slices.Contains(asHTTP, got.status):
				t.Errorf("%d is no refusal", got.status)
			}
			if what := w.tells(got, sent); what != "" {
				t.Errorf("it tells %s: %v %s", what, got.header, got.body)
			}
			w.wellReported(t, got)
		})
	}
	return refused
}

// controls sends the requests of all attempts as callers that have the right to
// them.
func (w *world) controls(t *testing.T, all []attempt) {
	for _, a := range all {
		t.Run("control/"+a.name, func(t *testing.T) {
			right := a.ask.over(a.right)
			if a.right.as == "" {
				right.as = "b"
			}
			if a.right.raw == "" {
				right.raw = ""
			}
			okay := a.okay
			if okay == nil {
				okay = []int{200, 201, 204, 206}
			}
			got, _ := w.does(right)
			if !slices.Contains(okay, got.status) {
				t.Errorf("who may is answered %d: %s", got.status, got.body)
			}
			if a.then != nil {
				a.then(w, got)
			}
		})
	}
}

// wellReported holds that a refusal is a problem with a code.
func (w *world) wellReported(t *testing.T, s said) {
	if s.header.Get("Content-Type") != api.ContentProblem || s.body == "" {
		return // of net/http, of the protocol below /mcp, or to HEAD
	}
	var p api.Problem
	if err := json.Unmarshal([]byte(s.body), &p); err != nil || p.Code == "" || p.Status != s.status || p.RequestID == "" {
		t.Errorf("the problem is %s, %v", s.body, err)
	}
	if s.status == http.StatusTooManyRequests && p.Retryable != (s.header.Get("Retry-After") != "") {
		t.Errorf("it is not told when to come again, or told in vain: %s", s.body)
	}
}

// looks requests what every caller may see of its own: the answers succeed and
// contain nothing of tenant B.
func (w *world) looks(t *testing.T) {
	for _, path := range []string{
		"/v1/sandboxes", "/v1/sandboxes?cursor={cursor}", "/v1/sandboxes?session=chat-of-bravo", "/v1/sandboxes?kind=browser", "/v1/usage",
		"/v1/violations", "/v1/violations?sandbox={box}", "/v1/evidence", "/v1/evidence?sandbox={box}", "/v1/evidence?session=chat-of-bravo",
		"/v1/evidence/operations", "/v1/evidence/verify", "/v1/approvals", "/v1/approvals?known={question}", "/v1/tokens", "/v1/listing", "/readyz", "/openapi.json",
	} {
		var got said
		var sent string
		w.until(path+" is answered", func() bool {
			got, sent = w.does(ask{as: "a", path: path})
			return path != "/readyz" || got.status == http.StatusOK // a slow dependency makes it unready for a while
		})
		sent += sessionB // which the attacker has called one of its own
		if got.status != 200 {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
		if what := w.tells(got, sent); what != "" {
			t.Errorf("%s tells %s: %s", path, what, got.body)
		}
	}
	got, _ := w.does(ask{as: "admin", path: "/metrics"})
	if what := w.tells(got, victim); got.status != 200 || what != "" { // admins may know which tenants exist
		t.Errorf("the figures are answered %d, and tell %s", got.status, what)
	}
	for _, path := range []string{"/v1/sandboxes", "/v1/violations", "/v1/evidence", "/v1/evidence/operations", "/v1/approvals"} {
		if got, _ := w.does(ask{as: "b", path: path}); w.tells(got, "") == "" {
			t.Errorf("%s tells B nothing of its own, so that it tells A nothing means nothing: %s", path, got.body)
		}
	}
}

// alike holds that objects of tenant B and objects that never existed are
// refused with the same text.
func (w *world) alike(t *testing.T) {
	plain := func(s said, name string) string {
		var p map[string]any
		_ = json.Unmarshal([]byte(strings.ReplaceAll(s.body, name, "NAME")), &p)
		delete(p, "requestId")
		return text(t, p)
	}
	for _, tt := range []struct{ method, path, there, body string }{
		{"GET", "/v1/sandboxes/NAME", "box", ""}, {"DELETE", "/v1/sandboxes/NAME", "box", ""}, {"POST", "/v1/sandboxes/NAME/exec", "box", `{"line":"true"}`},
		{"GET", "/v1/sandboxes/NAME/files/workspace/secret.txt", "box", ""}, {"GET", "/v1/sandboxes/NAME/usage", "box", ""}, {"GET", "/v1/sandboxes/NAME/tools", "box", ""},
		{"DELETE", "/v1/tokens/NAME", "token", ""}, {"POST", "/v1/approvals/NAME", "question", `{"permission":"deny"}`},
		{"POST", "/v1/sandboxes/{mine}/shells/NAME/run", "shell", `{"line":"true"}`}, {"DELETE", "/v1/sandboxes/{mine}/terminals/NAME", "terminal", ""},
	} {
		had := w.ids[tt.there]
		last := "0"
		if strings.HasSuffix(had, last) {
			last = "1"
		}
		never := had[:len(had)-1] + last
		one, _ := w.does(ask{as: "a", method: tt.method, path: strings.ReplaceAll(tt.path, "NAME", had), body: tt.body})
		two, _ := w.does(ask{as: "a", method: tt.method, path: strings.ReplaceAll(tt.path, "NAME", never), body: tt.body})
		if one.status != 404 || two.status != 404 || plain(one, had) != plain(two, never) {
			t.Errorf("%s %s: %d %s, and %d %s", tt.method, tt.path, one.status, one.body, two.status, two.body)
		}
	}
}
