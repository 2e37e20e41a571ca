package attack

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/egress"
)

// TestParts requests parts of a few bytes from a host that returns the secret.
func TestParts(t *testing.T) {
	r := openSafe(t, func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "x.txt", time.Time{}, bytes.NewReader([]byte(r.Header.Get("X-Token"))))
	})
	var got strings.Builder
	for i := 0; i < len(value); i += 5 {
		back := r.inside(t, fmt.Sprintf("GET / HTTP/1.1\r\nIf-Range: x\r\nRange: bytes=%d-%d", i, i+4))
		_, part, _ := strings.Cut(back, "\r\n\r\n")
		got.WriteString(part)
		if strings.Contains(back, " 206 ") {
			t.Fatalf("the host was asked for a part: %q", back)
		}
	}
	if egressLeaks(got.String()) {
		t.Errorf("the parts add up to %q", got.String())
	}
}

// TestWithheld checks where the value is never sent, for any kind of request.
func TestWithheld(t *testing.T) {
	seen := make(chan string, 100)
	tell := func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		seen <- fmt.Sprint(r.Method, r.URL, r.Host, r.Header, string(b), r.Trailer)
	}
	r := openSafe(t, tell)
	r.net.Handle("unbound.test", http.HandlerFunc(tell))
	s := r.standIn
	direct := func(scheme, host string) string { return "http://" + r.net.At(scheme, host) }
	for name, tt := range map[string]struct {
		open func() *talk
		head string
		host string
	}{
		"another host":             {func() *talk { return newTalk(r.dial()) }, "GET " + direct("http", "unbound.test") + "/ HTTP/1.1\r\nAuthorization: Bearer " + s, r.net.At("http", "unbound.test")},
		"plain HTTP":               {func() *talk { return newTalk(r.dial()) }, "GET " + direct("http", "bound.test") + "/ HTTP/1.1\r\nAuthorization: Bearer " + s, r.net.At("http", "bound.test")},
		"plain HTTP in a tunnel":   {func() *talk { return r.connect(r.net.At("http", "bound.test")) }, "GET / HTTP/1.1\r\nAuthorization: Bearer " + s, r.net.At("http", "bound.test")},
		"the path":                 {func() *talk { return r.intercepted("bound.test") }, "GET /" + s + " HTTP/1.1", r.net.At("https", "bound.test")},
		"the query":                {func() *talk { return r.intercepted("bound.test") }, "GET /?" + s + " HTTP/1.1", r.net.At("https", "bound.test")},
		"the name of a field":      {func() *talk { return r.intercepted("bound.test") }, "GET / HTTP/1.1\r\n" + s + ": x", r.net.At("https", "bound.test")},
		"the method":               {func() *talk { return r.intercepted("bound.test") }, "GETX / HTTP/1.1\r\nProxy-Token: " + s, r.net.At("https", "bound.test")},
		"a body":                   {func() *talk { return r.intercepted("bound.test") }, "POST / HTTP/1.1\r\nContent-Length: " + itoa(len(s)) + "{body}", r.net.At("https", "bound.test")},
		"a field for proxies":      {func() *talk { return r.intercepted("bound.test") }, "GET / HTTP/1.1\r\nProxy-Authorization: " + s, r.net.At("https", "bound.test")},
		"a field that is left out": {func() *talk { return r.intercepted("bound.test") }, "GET / HTTP/1.1\r\nConnection: X-Token\r\nX-Token: " + s, r.net.At("https", "bound.test")},
	} {
		k := tt.open()
		head, body, has := strings.Cut(tt.head, "{body}")
		if has {
			body = s
		}
		fmt.Fprintf(k, "%s\r\nHost: %s\r\n\r\n%s", head, tt.host, body)
		if status, _, _ := k.answer("GET"); status != 200 {
			t.Errorf("%s: %d", name, status)
			continue
		}
		if got := <-seen; egressLeaks(got) {
			t.Errorf("%s: the host got %q", name, got)
		}
	}
}

// TestWithheldInPlain has a secret that is bound to a host without a port:
// plain HTTP to port 443 never carries it.
func TestWithheldInPlain(t *testing.T) {
	seen := make(chan string, 8)
	port := scripted(t, func(c net.Conn, head string) {
		seen <- head
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	r := egressNewRig(t, setup{rules: []string{"bound.test", "127.0.0.1:443"}, secret: []string{"bound.test"}, usual: true, change: func(p *egress.Options, _ *egress.SessionOptions) {
		p.Dialer = egress.NewDialer(egress.DialerOptions{Resolver: home{}, Dial: elsewhere(port)})
	}})
	tunnel := r.connect("bound.test:443")
	for _, k := range []*talk{newTalk(r.dial()), tunnel} {
		url := "http://bound.test:443"
		if k == tunnel {
			url = ""
		}
		fmt.Fprintf(k, "GET %s/ HTTP/1.1\r\nHost: bound.test:443\r\nAuthorization: Bearer %s\r\n\r\n", url, r.standIn)
		if status, body, _ := k.answer("GET"); status != 200 {
			t.Errorf("%d %s", status, body)
		} else if got := <-seen; egressLeaks(got) || !strings.Contains(got, r.standIn) {
			t.Errorf("the host got %q", got)
		}
	}
}

// TestWithheldFromOthers has another server than the bound host take the
// connection: it has no certificate of the name.
func TestWithheldFromOthers(t *testing.T) {
	heard := make(chan string, 4)
	cert := selfSigned(t, "bound.test")
	port := raw(t, func(c net.Conn) {
		over := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
		b, _ := io.ReadAll(over)
		heard <- string(b)
	})
	at := "bound.test:" + itoa(port)
	r := egressNewRig(t, setup{rules: []string{at, "127.0.0.1:" + itoa(port)}, secret: []string{at}})
	for _, upgrade := range []string{"", "Connection: Upgrade\r\nUpgrade: websocket\r\n"} {
		k := r.connect(at)
		over := tls.Client(k.Conn, &tls.Config{ServerName: "bound.test", RootCAs: r.ours})
		must(t, over.Handshake())
		k = newTalk(over)
		token := "Authorization: Bearer " + r.standIn + "\r\n"
		if upgrade != "" {
			token = "" // which would refuse it
		}
		fmt.Fprintf(k, "GET / HTTP/1.1\r\nHost: %s\r\n%s%s\r\n", at, token, upgrade)
		if status, body, _ := k.answer("GET"); status != 502 {
			t.Errorf("%d %s", status, body)
		}
		if b := <-heard; b != "" {
			t.Errorf("the server heard %q", b)
		}
	}
}

// TestInterceptedTLS checks which TLS the proxy itself accepts.
func TestInterceptedTLS(t *testing.T) {
	r := openSafe(t, func(http.ResponseWriter, *http.Request) {})
	for name, c := range map[string]*tls.Config{
		"another name": {ServerName: "unbound.test"}, "no name": {InsecureSkipVerify: true}, "TLS 1.1": {ServerName: "bound.test", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
		"HTTP/2 alone": {ServerName: "bound.test", NextProtos: []string{"h2"}},
	} {
		k := r.connect(r.net.At("https", "bound.test"))
		c.RootCAs = r.ours
		if err := tls.Client(k.Conn, c).Handshake(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	k := r.intercepted("bound.test")
	io.WriteString(k, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	if status, _, closes := k.answer("GET"); status != 505 || !closes {
		t.Errorf("the preface of HTTP/2: %d", status)
	}
	k = r.connect(r.net.At("https", "bound.test"))
	k.Write(append(whole(sni("bound.test")), "GET / HTTP/1.1\r\n\r\n"...))
	if b, _ := io.ReadAll(k.br); bytes.Contains(b, []byte("HTTP/1.1")) {
		t.Errorf("plain HTTP after a hello: %q", b)
	}
}

// TestBomb checks that the decompressed size of a response counts against the
// limit of bytes.
func TestBomb(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range 64 {
		z.Write(zeros)
	}
	z.Close()
	limit := func(_ *egress.Options, o *egress.SessionOptions) { o.Limits = egress.Limits{BytesIn: 1 << 20} }
	r := egressNewRig(t, setup{rules: []string{"bound.test"}, secret: []string{"bound.test"}, change: limit})
	r.net.Handle("bound.test", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(b.Bytes())
	}))
	k := r.intercepted("bound.test")
	fmt.Fprintf(k, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", r.net.At("https", "bound.test"))
	n, err := io.Copy(io.Discard, bufio.NewReader(k.br))
	if n > 1<<20 || n == 0 {
		t.Errorf("%d bytes came, %v", n, err)
	}
}
