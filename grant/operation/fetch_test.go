package operation

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// both runs a test for either scheme.
func both(t *testing.T, r rules, test func(*testing.T, *world, string)) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) { test(t, newWorld(t, r), scheme) })
	}
}

func TestAllowed(t *testing.T) {
	both(t, rules{}, func(t *testing.T, w *world, scheme string) {
		url := w.net.URL(scheme, testenv.Files, "/greeting.txt")
		d := w.do(wish{url: url, keep: 5})
		w.wants(d, "", "")
		if string(d.Data) != "hello" || !d.Truncated || d.Type != "text/plain" || d.Digest != evidence.DigestOf([]byte(testenv.Content)) {
			t.Errorf("%+v", d.Output)
		}
		if d.Response.URL != url || d.Response.Status != 200 || d.Response.Hops != 0 || d.Response.Header["Content-Type"][0] != "text/plain" {
			t.Errorf("%+v", d.Response)
		}
		want := evidence.Effect{
			Kind: grant.EffectNetwork, Method: "GET", Host: w.net.At(scheme, testenv.Files), Status: 200,
			BytesIn: int64(len(testenv.Content)), Digest: evidence.DigestOf([]byte(testenv.Content)),
		}
		if !slices.Equal(d.effects, []evidence.Effect{want}) {
			t.Errorf("%+v", d.effects)
		}
	})
}

// TestSent checks that a host gets what was asked for and nothing else.
func TestSent(t *testing.T) {
	both(t, rules{}, func(t *testing.T, w *world, scheme string) {
		body := bytes.Repeat([]byte("x"), 300_000)
		d := w.do(wish{
			method: "POST", url: w.net.URL(scheme, testenv.Echo, "/a%2Fb?q=1#part"), data: body,
			header: map[string]string{"content-type": "text/plain", "AUTHORIZATION": "Bearer t", "X-Own": "ü"},
		})
		w.wants(d, "", "")
		host := w.net.At(scheme, testenv.Echo)
		want := "POST /a%2Fb?q=1\nHost: " + host + "\nAccept-Encoding: identity\r\nAuthorization: Bearer t\r\nConnection: close\r\nContent-Length: 300000\r\n" +
			"Content-Type: text/plain\r\nUser-Agent: sandbox\r\nX-Own: ü\r\n\n"
		head, rest, _ := strings.Cut(string(d.Data), "\r\n\n")
		head = strings.Replace(head, "Connection: close\r\n", "", 1) // the proxy keeps that to itself
		if head+"\r\n\n" != strings.Replace(want, "Connection: close\r\n", "", 1) || rest != string(body) {
			t.Errorf("sent %q and %d bytes, want %q", head, len(rest), want)
		}
		if d.used.BytesOut != 300_000 || d.effects[0].BytesOut != 300_000 {
			t.Errorf("used %+v, %+v", d.used, d.effects)
		}
	})
}

// TestRecorded checks that the proxy records requests like those of commands,
// by the id of the operation.
func TestRecorded(t *testing.T) {
	w := newWorld(t, rules{allowed: []string{"files.test"}})
	w.do(wish{url: w.net.URL("https", testenv.Files, "/greeting.txt"), id: "operation-7"})
	d := w.do(wish{url: w.net.URL("https", testenv.Echo, "/"), id: "operation-8"})
	w.wants(d, isBlocked, "network.allowedDomains")
	fetchMust(t, w.recorder.Flush(context.Background()))
	verdicts := map[string]string{}
	for r, err := range w.evidence.Query(context.Background(), evidence.Filter{AllTenants: true}) {
		fetchMust(t, err)
		var e egress.Event
		fetchMust(t, json.Unmarshal(r.Data, &e))
		if e.Phase == egress.PhaseDecision {
			verdicts[r.Command+" "+e.Host] = string(e.Verdict)
			if r.Tenant != "acme" || r.Session != "chat-42" {
				t.Errorf("%+v", r)
			}
		}
		if e.Error != "" {
			t.Errorf("the record tells of trouble: %s", e.Error)
		}
	}
	if len(verdicts) != 2 || verdicts["operation-7 files.test"] != "allow" || verdicts["operation-8 echo.test"] != "deny" {
		t.Errorf("%v", verdicts)
	}
}

// TestRefusedByProxy checks that the rules of the sandbox stand, whatever the
// guard allows, and that a host sees nothing of what they refuse.
func TestRefusedByProxy(t *testing.T) {
	tests := []struct {
		name    string
		allowed []string
		denied  []string
		scheme  string
		method  string
		host    string
		rule    string
	}{
		{"host of http", []string{"files.test"}, nil, "http", "GET", testenv.Echo, "network.allowedDomains"},
		{"host of https", []string{"files.test"}, nil, "https", "GET", testenv.Echo, "network.allowedDomains"},
		{"denied host", []string{"*.test"}, []string{"echo.test"}, "https", "GET", testenv.Echo, "network.deniedDomains[0]"},
		{"port", []string{"echo.test:1"}, nil, "https", "GET", testenv.Echo, "network.allowedDomains"},
		{"method", []string{"GET http://echo.test:HTTP"}, nil, "http", "POST", testenv.Echo, "request"},
		{"plain where TLS is allowed", []string{"https://echo.test:HTTP"}, nil, "http", "GET", testenv.Echo, "protocol"},
		{"TLS where plain is allowed", []string{"http://echo.test:HTTPS"}, nil, "https", "GET", testenv.Echo, "protocol"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, rules{allowed: tt.allowed, denied: tt.denied})
			d := w.do(wish{method: tt.method, url: w.net.URL(tt.scheme, tt.host, "/")})
			w.wants(d, isBlocked, tt.rule)
			if w.net.Hits(tt.host) != 0 || len(d.effects) != 0 || d.Response != nil {
				t.Errorf("%d requests came through, %+v", w.net.Hits(tt.host), d)
			}
			if audit := grant.Audit(d.err); audit.Resource != w.net.At(tt.scheme, tt.host) || audit.Message == "" {
				t.Errorf("%+v", audit)
			}
		})
	}
}

// TestRefusedByGuard is the other way round: what the proxy would allow is held
// against the guard at every hop.
func TestRefusedByGuard(t *testing.T) {
	w := newWorld(t, rules{})
	for name, q := range map[string]struct {
		to     string
		change func(*grant.Policy)
		code   sandbox.Code
		rule   string
	}{
		"host": {w.net.URL("https", testenv.Echo, "/"), func(p *grant.Policy) {
			p.Capabilities = []grant.Capability{{Kind: grant.NetHTTP, Host: testenv.Redirect, Methods: []string{"*"}}}
		}, isBlocked, "policy.capabilities"},
		"host denied": {w.net.URL("https", testenv.Echo, "/"), func(p *grant.Policy) { p.Denied.Domains = []string{testenv.Echo} }, isBlocked, "policy.denied.domains"},
		"host listed": {w.net.URL("https", testenv.Echo, "/"), func(p *grant.Policy) { p.Lists.Domains = []string{testenv.Redirect} }, isBlocked, "policy.lists.domains"},
		"not granted": {"https://example.com/", nil, noGrant, "grant.capabilities"},
		"port":        {"https://files.test:25/", nil, noGrant, "grant.capabilities"},
		"scheme": {w.net.URL("http", testenv.Files, "/"), func(p *grant.Policy) {
			p.Capabilities = []grant.Capability{{Kind: grant.NetHTTP, Host: "*.test", Scheme: "https", Port: w.net.Port("https"), Methods: []string{"GET"}}}
		}, isBlocked, "policy.capabilities"},
		"metadata": {"http://169.254.169.254/latest/meta-data/", nil, noGrant, "grant.capabilities"},
		"loopback": {w.net.URL("http", "127.0.0.1", "/"), nil, noGrant, "grant.capabilities"},
	} {
		t.Run(name, func(t *testing.T) {
			start := w.net.URL("https", testenv.Redirect, "/?to="+strings.ReplaceAll(q.to, "&", "%26"))
			d := w.do(wish{url: start, guard: q.change})
			if sandbox.CodeOf(d.err) != q.code || field(d.err) != q.rule {
				t.Errorf("%v, want %s by %s", d.err, q.code, q.rule)
			}
			wantStatuses(t, d, 302) // what was done until then
			if w.net.Hits(testenv.Echo)+w.net.Hits(testenv.Files) != 0 {
				t.Error("the redirect was followed")
			}
		})
	}
}

func TestHEADandNothing(t *testing.T) {
	w := newWorld(t, rules{})
	w.net.Handle("bare.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == "HEAD" {
			rw.Header()["Content-Type"], rw.Header()["Content-Length"] = nil, []string{"99999999"}
			return
		}
		rw.WriteHeader(204)
	}))
	text := func(p *grant.Policy) { p.Lists.MIME = []string{"text/plain"} }
	d := w.do(wish{method: "HEAD", url: w.net.URL("https", "bare.test", "/"), guard: text})
	w.wants(d, "", "") // no type, and no body that could be of another one
	if d.Response.Header["Content-Length"][0] != "99999999" || d.Digest.Size != 0 {
		t.Errorf("%+v", d.Output)
	}
	d = w.do(wish{method: "HEAD", url: w.net.URL("https", testenv.Files, "/greeting.txt"), guard: text})
	w.wants(d, "", "")
	d = w.do(wish{method: "DELETE", url: w.net.URL("https", "bare.test", "/"), guard: text})
	w.wants(d, "", "")
	wantStatuses(t, d, 204)
	html := func(p *grant.Policy) { p.Lists.MIME = []string{"text/html"} }
	d = w.do(wish{method: "HEAD", url: w.net.URL("https", testenv.Files, "/greeting.txt"), guard: html})
	w.wants(d, isBlocked, "policy.lists.mime")
}
