package attack

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// openSafe returns a rig whose host bound.test gets the secret and responds
// with say.
func openSafe(t *testing.T, say http.HandlerFunc) *egressRig {
	t.Helper()
	r := egressNewRig(t, setup{rules: []string{"bound.test", "unbound.test"}, secret: []string{"bound.test"}})
	r.net.Handle("bound.test", say)
	return r
}

// inside sends a request with the stand-in, and returns the whole response.
func (r *egressRig) inside(t *testing.T, head string) string {
	t.Helper()
	k := r.intercepted("bound.test")
	defer k.Close()
	method, _, _ := strings.Cut(head, " ")
	fmt.Fprintf(k, "%s\r\nHost: %s\r\nConnection: close\r\nX-Token: %s\r\n\r\n", head, r.net.At("https", "bound.test"), r.standIn)
	b, _ := io.ReadAll(k.br)
	if len(b) == 0 && method != "HEAD" {
		t.Error("nothing came back")
	}
	return string(b)
}

// leaks reports whether text contains the value, in any usual spelling, also
// compressed or turned.
func egressLeaks(text string) bool {
	if at := strings.Index(text, "\x1f\x8b"); at >= 0 {
		if z, err := gzip.NewReader(strings.NewReader(text[at:])); err == nil {
			b, _ := io.ReadAll(z) // as far as it goes
			if egressLeaks(string(b)) {
				return true
			}
		}
	}
	if strings.Contains(text, turned(value)) {
		return true
	}
	for _, s := range []string{base64.StdEncoding.EncodeToString([]byte(value))[:40], base64.StdEncoding.EncodeToString([]byte("x" + value))[2:40]} {
		if strings.Contains(text, s) {
			return true
		}
	}
	lower := strings.ToLower(text) // names of fields lose their case
	return strings.Contains(lower, value) || strings.Contains(lower, hex.EncodeToString([]byte(value)))
}

// turned returns text in an unknown encoding: like compressed bytes, it does
// not contain the text of the value.
func turned(text string) string {
	b := []byte(text)
	for i := range b {
		b[i] ^= 0x80
	}
	return string(b)
}

// TestEchoes has the host return the secret in every part of its response.
func TestEchoes(t *testing.T) {
	text := func(w http.ResponseWriter, s string) { io.WriteString(w, s) }
	hijacked := func(w http.ResponseWriter, s string) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, s)
	}
	for name, say := range map[string]http.HandlerFunc{
		"a body": func(w http.ResponseWriter, r *http.Request) { text(w, r.Header.Get("X-Token")) },
		"a body, byte by byte": func(w http.ResponseWriter, r *http.Request) {
			for _, c := range r.Header.Get("X-Token") {
				text(w, string(c))
				http.NewResponseController(w).Flush()
			}
		},
		"a field":        func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Echo", r.Header.Get("X-Token")) },
		"a field's name": func(w http.ResponseWriter, r *http.Request) { w.Header()[r.Header.Get("X-Token")] = []string{"x"} },
		"a cookie": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Set-Cookie", "a="+r.Header.Get("X-Token")+"; Path=/")
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://unbound.test/?t="+r.Header.Get("X-Token"), http.StatusFound)
		},
		"an escaped redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://unbound.test/?t="+url.QueryEscape(r.Header.Get("X-Token")), http.StatusTemporaryRedirect)
		},
		"authentication": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+r.Header.Get("X-Token")+`"`)
			w.WriteHeader(401)
		},
		"a trailer": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-T")
			text(w, "x")
			w.Header().Set("X-T", r.Header.Get("X-Token"))
		},
		"an unannounced trailer": func(w http.ResponseWriter, r *http.Request) {
			hijacked(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-T: "+r.Header.Get("X-Token")+"\r\n\r\n")
		},
		"a trailer's name": func(w http.ResponseWriter, r *http.Request) {
			hijacked(w, "HTTP/1.1 200 OK\r\nTrailer: "+r.Header.Get("X-Token")+"\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"+r.Header.Get("X-Token")+": x\r\n\r\n")
		},
		"the reason": func(w http.ResponseWriter, r *http.Request) {
			hijacked(w, "HTTP/1.1 200 "+r.Header.Get("X-Token")+"\r\nContent-Length: 0\r\n\r\n")
		},
		"hints": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", r.Header.Get("X-Token"))
			w.WriteHeader(103)
		},
		"the extension of a chunk": func(w http.ResponseWriter, r *http.Request) {
			hijacked(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"+r.Header.Get("X-Token")+"\r\nx\r\n0\r\n\r\n")
		},
		"the border of chunks": func(w http.ResponseWriter, r *http.Request) {
			s := r.Header.Get("X-Token")
			hijacked(w, fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", s[:5], len(s)-5, s[5:]))
		},
		"a folded field": func(w http.ResponseWriter, r *http.Request) {
			hijacked(w, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: a\r\n "+r.Header.Get("X-Token")+"\r\n\r\n")
		},
		"what follows the answer": func(w http.ResponseWriter, r *http.Request) {
			hijacked(w, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"+r.Header.Get("X-Token"))
		},
		"gzip": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "GZIP")
			z := gzip.NewWriter(w)
			io.WriteString(z, r.Header.Get("X-Token"))
			z.Close()
		},
		"two members of gzip": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			for _, part := range []string{r.Header.Get("X-Token")[:7], r.Header.Get("X-Token")[7:]} {
				z := gzip.NewWriter(w)
				io.WriteString(z, part)
				z.Close()
			}
		},
		"gzip in gzip": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Add("Content-Encoding", "gzip")
			outer := gzip.NewWriter(w)
			inner := gzip.NewWriter(outer)
			io.WriteString(inner, r.Header.Get("X-Token"))
			inner.Close()
			outer.Close()
		},
		"brotli": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			text(w, turned(r.Header.Get("X-Token")))
		},
		"base64": func(w http.ResponseWriter, r *http.Request) {
			text(w, base64.StdEncoding.EncodeToString([]byte(r.Header.Get("X-Token"))))
		},
		"base64 within": func(w http.ResponseWriter, r *http.Request) {
			text(w, base64.StdEncoding.EncodeToString([]byte("x"+r.Header.Get("X-Token"))))
		},
		"hex":         func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%x", r.Header.Get("X-Token")) },
		"JSON":        func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, `{"t":%q}`, r.Header.Get("X-Token")) },
		"no protocol": func(w http.ResponseWriter, r *http.Request) { hijacked(w, r.Header.Get("X-Token")+"\r\n\r\n") },
		"a broken field": func(w http.ResponseWriter, r *http.Request) {
			hijacked(w, "HTTP/1.1 200 OK\r\n"+r.Header.Get("X-Token")+"\r\n\r\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openSafe(t, say)
			for _, head := range []string{"GET / HTTP/1.1", "HEAD / HTTP/1.1", "POST / HTTP/1.1"} {
				if back := r.inside(t, head); egressLeaks(back) {
					t.Errorf("%s: %q", head, back)
				}
			}
			r.holds()
		})
	}
}
