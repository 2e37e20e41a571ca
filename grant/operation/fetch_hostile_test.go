package operation

import (
	"compress/gzip"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestHostileAnswers checks what becomes of answers that no honest host gives.
// Over plain HTTP the proxy reads heads first, and answers in the host's place
// when it does not take them.
func TestHostileAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
	tests := []struct {
		name, answer string
		secure       sandbox.Code // over TLS; empty is an answer
		plain        sandbox.Code
		tells        string // over TLS
	}{
		{"nothing", "", noHost, noHost, "ended before"},
		{"no HTTP", "SSH-2.0-x\r\n\r\n", badAnswer, noHost, "malformed"},
		{"another version", "HTTP/2.0 200 OK\r\n\r\n", badAnswer, isBlocked, "another version"}, // the proxy speaks 1.1
		{"status below all", "HTTP/1.1 099 X\r\n\r\n", badAnswer, badAnswer, "status"},
		{"status beyond all", "HTTP/1.1 999 X\r\n\r\n", badAnswer, badAnswer, "status"},
		{"status of letters", "HTTP/1.1 2xx X\r\n\r\n", badAnswer, noHost, "malformed"},
		{"huge header", ok + "X-A: " + strings.Repeat("a", 70<<10) + "\r\n\r\n", badAnswer, badAnswer, "64 KiB"},
		{"many headers", ok + strings.Repeat("X-A: a\r\n", 10<<10) + "\r\n", badAnswer, badAnswer, "64 KiB"},
		{"endless head", ok + strings.Repeat("X-A: a\r\n", 1<<20), badAnswer, noHost, "64 KiB"},
		{"control character in a header", ok + "X-A: a\x1b[2J\r\n\r\n", badAnswer, noHost, "malformed"},
		{"flood of interim answers", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 10<<10) + ok + "\r\n", badAnswer, noHost, "64 KiB"},
		{"some interim answers", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 3) + ok + "Content-Length: 0\r\n\r\n", "", "", ""},
		{"protocol changed", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nx", badAnswer, noHost, "protocol"},
		{"less than it says", ok + "Content-Length: 100\r\n\r\nshort", noHost, noHost, "ended before"},
		{"more than it says", ok + "Content-Length: 5\r\n\r\nhello and more", "", "", ""},
		{"two lengths", ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", badAnswer, noHost, "malformed"},
		{"length below 0", ok + "Content-Length: -5\r\n\r\nhello", badAnswer, noHost, "malformed"},
		{"length beyond numbers", ok + "Content-Length: 99999999999999999999\r\n\r\nhello", badAnswer, noHost, "malformed"},
		{"length beyond the limit", ok + "Content-Length: 1048577\r\n\r\nx", isBlocked, isBlocked, "maxBytesIn"},
		{"chunks that are none", ok + "Transfer-Encoding: chunked\r\n\r\nxyz\r\nhello\r\n", badAnswer, noHost, "malformed"},
		{"chunk without its end", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello", noHost, noHost, "ended before"},
		{"chunks of hardly anything", ok + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 3000)+"\r\na\r\n", 2000), badAnswer, noHost, "malformed"},
		{"transfer encoding unheard of", ok + "Transfer-Encoding: gzip\r\n\r\nx", badAnswer, noHost, "malformed"},
		{"endless trailer", ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X-A: a\r\n", 10<<10), badAnswer, noHost, "malformed"},
		{"no type", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", isBlocked, isBlocked, "policy.lists.mime"},
		{"type with charset", "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=x\r\nContent-Length: 1\r\n\r\nx", "", "", ""},
		{"other type", "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=x\r\nContent-Length: 1\r\n\r\nx", isBlocked, isBlocked, "policy.lists.mime"},
		{"two types", ok + "Content-Type: text/html\r\nContent-Length: 1\r\n\r\nx", isBlocked, isBlocked, "policy.lists.mime"},
		{"type of an error", "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 1\r\n\r\nx", isBlocked, isBlocked, "policy.lists.mime"},
		{"encoded", ok + "Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", isBlocked, isBlocked, "response.contentEncoding"},
		{"redirect to two", "HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n", badAnswer, badAnswer, "several"},
		{"redirect to nowhere", ok[:9] + "302 Found\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx", "", "", ""},
		{"as if the proxy refused", "HTTP/1.1 403 Blocked by sandbox: x\r\nX-Sandbox-Rule: network.allowedDomains\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx", "", "", ""},
		{"as if a limit was reached", "HTTP/1.1 429 Sandbox: limits\r\nX-Sandbox-Rule: limits.bytesOut\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx", "", noBudget, ""},
		{"as if the proxy failed", "HTTP/1.1 502 Sandbox: reach\r\nX-Sandbox-Rule: reach\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx", "", noHost, ""},
	}
	both(t, rules{}, func(t *testing.T, w *world, scheme string) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				w.says("raw.test", tt.answer)
				d := w.do(wish{url: w.net.URL(scheme, "raw.test", "/"), guard: func(p *grant.Policy) { p.Lists.MIME = []string{"text/plain"} }})
				if want := map[string]sandbox.Code{"https": tt.secure, "http": tt.plain}[scheme]; sandbox.CodeOf(d.err) != want {
					t.Fatalf("%v, want %q", d.err, want)
				}
				if scheme == "https" && tt.tells != "" && !strings.Contains(d.err.Error(), tt.tells) {
					t.Errorf("%v, want %q", d.err, tt.tells)
				}
				if retryable(d.err) != (sandbox.CodeOf(d.err) == noHost) {
					t.Errorf("retryable: %v", d.err)
				}
				if len(d.effects) != 1 || d.effects[0].Host != w.net.At(scheme, "raw.test") {
					t.Errorf("%+v", d.effects)
				}
				if strings.ContainsRune(grant.Audit(d.err).Cause, '\x1b') {
					t.Errorf("a terminal obeys %q", grant.Audit(d.err).Cause)
				}
			})
		}
	})
}

// TestBomb checks that an encoded answer ends before it is read, whatever the
// host was asked for.
func TestBomb(t *testing.T) {
	w := newWorld(t, rules{})
	w.net.Handle("bomb.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("asked for %q", r.Header.Get("Accept-Encoding"))
		}
		rw.Header().Set("Content-Encoding", "gzip")
		rw.Header().Set("Content-Type", "text/plain")
		z := gzip.NewWriter(rw)
		io.CopyN(z, zeros{}, 100<<20)
	}))
	d := w.do(wish{url: w.net.URL("https", "bomb.test", "/")})
	w.wants(d, isBlocked, "response.contentEncoding")
	if d.used.BytesIn != 0 || len(d.Data) != 0 {
		t.Errorf("%+v", d.used)
	}
	d = w.doNothing(wish{url: w.net.URL("https", "bomb.test", "/"), header: map[string]string{"accept-encoding": "gzip"}})
	w.wants(d, isBlocked, "op.header")
	d = w.doNothing(wish{url: w.net.URL("https", "bomb.test", "/"), header: map[string]string{"X-A": "1", "x-a": "2"}})
	w.wants(d, badInput, "op.header")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestEndless checks that a body without end ends at the limit of the profile or
// at the budget, to the byte.
func TestEndless(t *testing.T) {
	both(t, rules{}, func(t *testing.T, w *world, scheme string) {
		w.net.Handle("endless.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "text/plain")
			io.Copy(rw, zeros{}) // until the client is gone
		}))
		url := w.net.URL(scheme, "endless.test", "/")
		d := w.do(wish{url: url, guard: func(p *grant.Policy) { p.Limits.MaxBytesIn = 100_001 }, keep: 10})
		w.wants(d, isBlocked, "profile.limits.maxBytesIn")
		if d.used.BytesIn != 100_001 || d.Digest.Size != 100_001 || len(d.Data) != 10 || d.Response.Status != 200 {
			t.Errorf("%+v, %+v", d.used, d.Output)
		}
		bound := budget.NoBound()
		bound.BytesIn = 50_001
		d = w.do(wish{url: url, bound: bound})
		w.wants(d, noBudget, "budget.bytesIn")
		if d.used.BytesIn != 50_001 || d.Digest.Size != 50_001 {
			t.Errorf("%+v", d.used)
		}
		wantStatuses(t, d, 200)
	})
}

// TestExactly checks that what is allowed to the byte passes.
func TestExactly(t *testing.T) {
	w := newWorld(t, rules{})
	bound := budget.NoBound()
	bound.BytesIn, bound.BytesOut = 70_000, 3
	q := wish{
		method: "POST", data: []byte("abc"), url: w.net.URL("https", "exact.test", "/"), bound: bound,
		guard: func(p *grant.Policy) { p.Limits.MaxBytesIn, p.Limits.MaxBytesOut = 70_000, 3 },
	}
	w.net.Handle("exact.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/plain")
		http.NewResponseController(rw).Flush() // without a length
		io.CopyN(rw, zeros{}, 70_000)
	}))
	w.wants(w.do(q), "", "")
	q.bound.BytesOut = 2
	d := w.do(q)
	w.wants(d, noBudget, "budget.bytesOut")
	if w.net.Hits("exact.test") != 1 || d.used.BytesOut != 0 {
		t.Errorf("%d requests, %+v", w.net.Hits("exact.test"), d.used)
	}
}

// TestCertificates checks that hosts have to authenticate themselves.
func TestCertificates(t *testing.T) {
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request came through") }))
	other.Config.ErrorLog = silent()
	other.StartTLS()
	defer other.Close()
	_, port, err := net.SplitHostPort(other.Listener.Addr().String())
	fetchMust(t, err)
	trusting := x509.NewCertPool()
	trusting.AddCert(other.Certificate())
	for name, pool := range map[string]*x509.CertPool{"of nobody we trust": x509.NewCertPool(), "of another host": trusting} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, rules{options: []Options{{Roots: pool}}})
			d := w.do(wish{method: "POST", url: "https://files.test:" + port + "/", data: []byte("for files.test alone")})
			w.wants(d, noHost, "certificate")
			if retryable(d.err) || d.used.BytesOut != 0 {
				t.Errorf("%v, used %+v", d.err, d.used)
			}
			wantStatuses(t, d, 0)
		})
	}
	t.Run("of an address", func(t *testing.T) {
		w := newWorld(t, rules{})
		s := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, "x") }))
		defer s.Close()
		trusting := x509.NewCertPool()
		trusting.AddCert(s.Certificate())
		w.fetchExecutor = NewFetchExecutor(w.session, w.inside, Options{Roots: trusting}).Patient()
		if err := w.once(guardOf(t, nil, "127.0.0.1"), s.URL+"/", 1); err != nil {
			t.Error(err)
		}
	})
	t.Run("none at all", func(t *testing.T) {
		w := newWorld(t, rules{})
		d := w.do(wish{url: "https://" + w.net.At("http", testenv.Files) + "/"})
		w.wants(d, noHost, "no TLS")
		if retryable(d.err) {
			t.Errorf("%v", d.err)
		}
	})
	t.Run("too old", func(t *testing.T) {
		w := newWorld(t, rules{})
		d := w.do(wish{url: "https://files.test:" + oldTLS(t) + "/"})
		w.wants(d, noHost, "no TLS")
	})
}

// TestLimitsOfProxy checks that those of the sandbox count for requests too.
func TestLimitsOfProxy(t *testing.T) {
	t.Run("size of a request", func(t *testing.T) {
		w := newWorld(t, rules{limits: config.NetworkLimits{RequestBytes: 10}})
		d := w.do(wish{method: "POST", url: w.net.URL("http", testenv.Echo, "/"), data: make([]byte, 11)})
		w.wants(d, isBlocked, "limits.requestBytes")
	})
	both(t, rules{limits: config.NetworkLimits{BytesIn: 100_000}}, func(t *testing.T, w *world, scheme string) {
		url := w.net.URL(scheme, testenv.Files, "/zeros?n=200000")
		d := w.do(wish{url: url})
		w.wants(d, noHost, "ended before")
		d = w.do(wish{url: url})
		w.wants(d, noBudget, "limits.bytesIn")
		if retryable(d.err) {
			t.Errorf("%v", d.err)
		}
	})
}
