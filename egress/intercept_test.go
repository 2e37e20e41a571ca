package egress_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/egress/secret"
)

const value = "the-very-secret-value-1234567890"

// A vault is a world with a secret TOKEN that is bound to example.com.
type vault struct {
	*world
	port    string
	standIn string
	client  *http.Client
}

// openVault returns a vault whose host answers with h, over TLS or not. others
// replace the roots trusted for the host.
func openVault(t *testing.T, plain bool, h http.HandlerFunc, others ...*x509.CertPool) *vault {
	t.Helper()
	var port string
	var roots *x509.CertPool
	if plain {
		port = serve(t, h)
	} else {
		port, roots = secure(t, h)
	}
	for _, other := range others {
		roots = other
	}
	a, err := egress.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	set, err := secret.NewSet(t.Context(), []secret.Binding{{Name: "TOKEN", Hosts: []string{"example.com:" + port}, From: secret.Source{Env: "TOKEN"}}},
		secret.Deps{LookupEnv: func(string) (string, bool) { return value, true }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	w := open(t, allow(port, "example.com:"+port, "other.test:"+port, "tcp://example.com:"+port), func(p *egress.Options, o *egress.SessionOptions) {
		o.Authority, p.Roots, o.Secrets = a, roots, set
	})
	w.names.addrs["example.com"] = []string{"127.0.0.1"}
	ours := x509.NewCertPool()
	ours.AddCert(a.Certificate())
	c := w.session.Caller("cmd-1")
	env := c.Env()
	proxy, err := url.Parse(env["HTTPS_PROXY"])
	if err != nil || env["TOKEN"] == "" || env["SSL_CERT_FILE"] == "" {
		t.Fatalf("%v %v", env, err)
	}
	client := w.client(proxy.User)
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: ours}
	client.Transport.(*http.Transport).DisableCompression = true
	return &vault{w, port, env["TOKEN"], client}
}

// get sends a request with the stand-in and returns the answer.
func (v *vault) get(method, target string) (*http.Response, string) {
	v.t.Helper()
	req, err := http.NewRequest(method, target, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+v.standIn)
	resp, err := v.client.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return resp, string(b)
}

// silent checks that no event contains the value.
func (v *vault) silent() {
	v.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if b, _ := json.Marshal(v.events); bytes.Contains(b, []byte(value)) {
		v.t.Errorf("the value is on record: %s", b)
	}
}

func TestSecret(t *testing.T) {
	seen := make(chan http.Header, 10)
	v := openVault(t, false, func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		w.Header().Set("Trailer", "X-T")
		fmt.Fprintf(w, "%s %s", r.Host, r.Header.Get("Authorization"))
		w.Header().Set("X-T", r.Header.Get("Authorization"))
	})
	resp, b := v.get("GET", "https://example.com:"+v.port+"/a?b")
	h := <-seen
	if h.Get("Authorization") != "Bearer "+value || h.Get("Accept-Encoding") != "identity" {
		t.Errorf("the host got %v", h)
	}
	all := fmt.Sprint(b, resp.Header, resp.Trailer)
	if strings.Contains(all, value) || b != "example.com:"+v.port+" Bearer "+v.standIn || resp.Trailer.Get("X-T") != "Bearer "+v.standIn {
		t.Errorf("the program got %s", all)
	}
	e := v.wait(1, ends)[0]
	if e.Protocol != egress.ProtocolIntercepted || e.Caller != "cmd-1" || e.Path != "/a" || fmt.Sprint(e.Secrets) != "[TOKEN]" || e.Status != 200 {
		t.Errorf("%+v", e)
	}
	if resp, _ := v.get("TRACE", "https://example.com:"+v.port+"/"); resp.StatusCode != 403 {
		t.Errorf("TRACE: %s", resp.Status)
	}
	v.silent()
}

// TestSecretStays checks that the value is sent to its host and nowhere else.
func TestSecretStays(t *testing.T) {
	v := openVault(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://other.test:"+r.URL.Query().Get("port")+"/"+r.Header.Get("Authorization"), http.StatusFound)
			return
		}
		io.WriteString(w, r.Header.Get("Authorization")+" "+fmt.Sprint(len(r.Header.Get("Authorization"))))
	})
	long := fmt.Sprint(len("Bearer " + value))
	if _, b := v.get("GET", "http://example.com:"+v.port); b != "Bearer "+v.standIn+" "+long {
		t.Errorf("plain HTTP with a port in the binding: %q", b)
	}
	if _, b := v.get("GET", "http://other.test:"+v.port); b != "Bearer "+v.standIn+" "+fmt.Sprint(len("Bearer "+v.standIn)) {
		t.Errorf("another host: %q", b)
	}
	resp, _ := v.get("GET", "http://example.com:"+v.port+"/away?port="+v.port)
	if at := resp.Header.Get("Location"); resp.StatusCode != 302 || strings.Contains(at, value) || !strings.Contains(at, v.standIn) {
		t.Errorf("%s %q", resp.Status, at)
	}
	conn, br := v.connect("example.com:" + v.port)
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: example.com:%s\r\nAuthorization: %s\r\n\r\n", v.port, v.standIn)
	if _, b := v.answer(br, "GET"); b != v.standIn+" "+fmt.Sprint(len(value)) {
		t.Errorf("plain HTTP in a tunnel: %q", b)
	}
	conn, br = v.connect("example.com:" + v.port)
	io.WriteString(conn, "SSH-2.0-a\r\n")
	if b, _ := io.ReadAll(br); len(b) != 0 {
		t.Errorf("raw bytes pass to the host of a secret: %q", b)
	}
	v.silent()
}

func TestSecretEncoded(t *testing.T) {
	v := openVault(t, false, func(w http.ResponseWriter, r *http.Request) {
		text := "a " + r.Header.Get("Authorization") + " b"
		switch r.URL.Path {
		case "/archive", "/looks", "/short":
			w.Header().Set("Content-Type", "application/gzip")
		default:
			w.Header().Set("Content-Encoding", r.URL.Path[1:])
		}
		switch r.URL.Path {
		case "/archive":
			z := gzip.NewWriter(w)
			io.WriteString(z, text)
			z.Close()
		case "/looks":
			io.WriteString(w, "\x1f\x8b "+text)
		case "/short":
			io.WriteString(w, "\x1f")
		case "/gzip":
			z := gzip.NewWriter(w)
			io.WriteString(z, text)
			z.Close()
		case "/deflate":
			z := zlib.NewWriter(w)
			io.WriteString(z, text)
			z.Close()
		default:
			io.WriteString(w, base64.StdEncoding.EncodeToString([]byte(text)))
		}
	})
	for _, path := range []string{"/gzip", "/deflate"} {
		if resp, b := v.get("GET", "https://example.com:"+v.port+path); b != "a Bearer "+v.standIn+" b" || resp.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %s %q", path, resp.Status, b)
		}
	}
	for path, want := range map[string]string{"/archive": "a Bearer " + v.standIn + " b", "/looks": "\x1f\x8b a Bearer " + v.standIn + " b", "/short": "\x1f"} {
		resp, b := v.get("GET", "https://example.com:"+v.port+path)
		if path == "/archive" { // gzip that is the content, and no encoding of it
			z, err := gzip.NewReader(strings.NewReader(b))
			if err != nil {
				t.Errorf("%s is no gzip any more: %s, %v", path, resp.Status, err)
				continue
			}
			text, err := io.ReadAll(z)
			if b = string(text); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		if b != want || resp.Header.Get("Content-Type") != "application/gzip" {
			t.Errorf("%s: %s %q", path, resp.Status, b)
		}
	}
	if resp, _ := v.get("GET", "https://example.com:"+v.port+"/br"); resp.StatusCode != 502 {
		t.Errorf("an encoding that cannot be read: %s", resp.Status)
	}
	v.silent()
}

// TestSecretNames checks that a request inside the TLS goes to the tunnel's host.
func TestSecretNames(t *testing.T) {
	v := openVault(t, false, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) })
	conn, _ := v.connect("example.com:" + v.port)
	over := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // which sends no name
	if err := over.Handshake(); err == nil {
		t.Error("TLS without a name passes")
	}
	if e := v.wait(1, refusals)[0]; e.Rule != "sni" {
		t.Errorf("%+v", e)
	}
	conn, _ = v.connect("example.com:" + v.port)
	conf := v.client.Transport.(*http.Transport).TLSClientConfig.Clone()
	conf.ServerName, conf.NextProtos = "example.com", []string{"h2", "http/1.1"}
	over = tls.Client(conn, conf)
	if err := over.Handshake(); err != nil || over.ConnectionState().NegotiatedProtocol != "http/1.1" {
		t.Fatal(err, over.ConnectionState().NegotiatedProtocol)
	}
	br := bufio.NewReader(over)
	for _, tt := range []struct {
		head   string
		status int
	}{
		{"GET / HTTP/1.1\r\nHost: EXAMPLE.com.:" + v.port, 200},
		{"GET / HTTP/1.1\r\nHost: example.com:" + v.port + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nCookie: " + v.standIn, 403},
		{"GET / HTTP/1.1\r\nHost: other.test:" + v.port, 400},
	} {
		io.WriteString(over, tt.head+"\r\n\r\n")
		if resp, b := v.answer(br, "GET"); resp.StatusCode != tt.status || tt.status == 200 && b != "example.com:"+v.port {
			t.Errorf("%q: %s %q", tt.head, resp.Status, b)
		}
	}
}
