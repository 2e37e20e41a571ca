package operation

import (
	"net/http"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
)

// TestDisguised checks that a response that begins like one of another family
// than its declared type is refused where types are listed, and that none of it
// is returned; and that a response whose type is merely hard to detect is not
// refused.
func TestDisguised(t *testing.T) {
	w := newWorld(t, rules{})
	var kind, body string
	w.net.Handle("disguise.test", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", kind)
		_, _ = rw.Write([]byte(body)) // a client that is gone is what is tested elsewhere
	}))
	const zip, png = "PK\x03\x04rest", "\x89PNG\x0d\x0a\x1a\x0arest"
	for _, tt := range []struct {
		kind, body string
		list       []string
		field      string
	}{
		{"text/plain", zip, []string{"text/*"}, "response.contentType"},
		{"application/json", png, []string{"application/json"}, "response.contentType"},
		{"image/png", "<html><body>x", []string{"image/*"}, "response.contentType"},
		{"image/png", zip, []string{"image/*"}, "response.contentType"},
		{"text/plain", zip, []string{"text/*", "application/zip"}, ""},
		{"text/plain", zip, nil, ""},
		{"text/plain", "<html><body>x", []string{"text/plain"}, ""},
		{"text/csv", "a,b", []string{"text/*"}, ""},
		{"image/svg+xml", "<?xml version='1.0'?><svg/>", []string{"image/*"}, ""},
		{"application/vnd.oasis.opendocument.text", zip, []string{"application/*"}, ""},
		{"image/png", png, []string{"image/*"}, ""},
		{"text/plain", "", []string{"text/*"}, ""},
	} {
		kind, body = tt.kind, tt.body
		d := w.do(wish{url: w.net.URL("https", "disguise.test", "/"), guard: func(p *grant.Policy) { p.Lists.MIME = tt.list }})
		if tt.field == "" {
			w.wants(d, "", "")
			continue
		}
		w.wants(d, isBlocked, tt.field)
		if len(d.Data) != 0 {
			t.Errorf("%s that begins %q is handed back: %q", tt.kind, tt.body, d.Data)
		}
	}
}

// TestSummary checks what is handed back of an answer: the SHA-256 of all of it,
// which is named, its size, and as many of the first bytes as were asked for.
func TestSummary(t *testing.T) {
	w := newWorld(t, rules{})
	all := strings.Repeat("0123456789", 1000)
	w.net.Handle("long.test", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/plain")
		_, _ = rw.Write([]byte(all)) // as above
	}))
	d := w.do(wish{url: w.net.URL("https", "long.test", "/"), keep: 16})
	w.wants(d, "", "")
	if string(d.Data) != all[:16] || !d.Truncated || d.Digest != evidence.DigestOf([]byte(all)) || d.Digest.Algo != "sha-256" || d.Digest.Size != int64(len(all)) || d.Type != "text/plain" {
		t.Errorf("%+v", d.Output)
	}
}
