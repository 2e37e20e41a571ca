package egress_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// secure starts a TLS server and returns its port and the roots of its
// certificate.
func secure(t testing.TB, h http.HandlerFunc) (port string, roots *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	roots = x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return portOf(s.Listener.Addr()), roots
}

// connect opens a tunnel by CONNECT.
func (w *world) connect(target string) (net.Conn, *bufio.Reader) {
	w.t.Helper()
	conn := w.dial()
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, &http.Request{Method: "CONNECT"})
	if err != nil || resp.StatusCode != 200 {
		w.t.Fatalf("%s: %v %v", target, resp, err)
	}
	return conn, br
}

// socks asks for a tunnel by SOCKS5 and returns the reply.
func (w *world) socks(host string, port string, user, password string) (net.Conn, byte) {
	w.t.Helper()
	conn := w.dial()
	n, _ := net.LookupPort("tcp", port)
	greeting := []byte{5, 1, 0}
	if user != "" {
		greeting = append([]byte{5, 1, 2, 1, byte(len(user))}, user...)
		greeting = append(append(greeting, byte(len(password))), password...)
	}
	conn.Write(append(append(append(greeting, 5, 1, 0, 3, byte(len(host))), host...), byte(n>>8), byte(n)))
	skip := 2
	if user != "" {
		skip = 4
	}
	reply := make([]byte, skip+10)
	if _, err := io.ReadFull(conn, reply); err != nil {
		w.t.Fatalf("no reply: %v", err)
	}
	return conn, reply[skip+1]
}

// answersTLS returns a server's answer within TLS in the tunnel.
func answersTLS(conn net.Conn, name string, roots *x509.CertPool) (string, error) {
	over := tls.Client(conn, &tls.Config{ServerName: name, RootCAs: roots})
	if err := over.Handshake(); err != nil {
		return "", err
	}
	io.WriteString(over, "GET / HTTP/1.0\r\n\r\n")
	b, err := io.ReadAll(over)
	return string(b[max(0, len(b)-2):]), err
}

func TestSOCKS(t *testing.T) {
	port, roots := secure(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	w := open(t, allow(port, "example.com:"+port, "gone.test:1", "127.0.0.1:1"))
	w.names.addrs["example.com"] = []string{"127.0.0.1"}
	c := w.session.Caller("cmd-7")
	env := c.Env()["ALL_PROXY"]
	_, token, _ := strings.Cut(strings.TrimPrefix(env, "http://"), ":")
	token, _, _ = strings.Cut(token, "@")
	conn, reply := w.socks("Example.COM.", port, "cmd-7", token)
	if reply != 0 {
		t.Fatalf("reply %d", reply)
	}
	if got, err := answersTLS(conn, "example.com", roots); got != "ok" {
		t.Errorf("%q %v", got, err)
	}
	conn.Close()
	if e := w.wait(1, ends)[0]; e.Protocol != egress.ProtocolSOCKS5 || e.Caller != "cmd-7" || e.Host != "example.com" || e.BytesOut == 0 {
		t.Errorf("%+v", e)
	}
	for host, want := range map[string]byte{"other.test": 2, "127.0.0.1": 2, "169.254.169.254": 2, "a\x00b": 2} {
		if _, reply := w.socks(host, "443", "", ""); reply != want {
			t.Errorf("%q: reply %d, want %d", host, reply, want)
		}
	}
	if _, reply := w.socks("gone.test", "1", "", ""); reply != 4 {
		t.Errorf("a closed port: reply %d", reply)
	}
	if _, reply := w.socks("other.test", "443", "cmd-7", "guess"); reply != 2 {
		t.Errorf("another host: reply %d", reply)
	}
	if got := c.Refused(); len(got) != 0 {
		t.Errorf("who guessed a token was taken for the command: %+v", got)
	}
}

// TestProtocols checks what passes a tunnel, by the program's first bytes.
func TestProtocols(t *testing.T) {
	port := listen(t, func(conn net.Conn) {
		io.WriteString(conn, "server first\n")
		io.Copy(io.Discard, conn)
	})
	w := open(t, allow(port, "web.test:"+port, "tcp://raw.test:"+port))
	t.Run("raw by rule", func(t *testing.T) {
		_, br := w.connect("raw.test:" + port)
		if line, err := br.ReadString('\n'); line != "server first\n" {
			t.Errorf("%q %v", line, err)
		}
	})
	for i, first := range []string{"SSH-2.0-OpenSSH_9.2 x\r\n", "EHLO a\r\n", "\x00\x01", "get / HTTP/1.1\r\n", "GET me\r\n", "\x80\x2e\x01"} {
		t.Run(fmt.Sprintf("raw %q", first), func(t *testing.T) {
			conn, br := w.connect("web.test:" + port)
			io.WriteString(conn, first)
			if b, _ := io.ReadAll(br); len(b) != 0 {
				t.Errorf("the server was heard: %q", b)
			}
			if e := w.wait(i+1, refusals)[i]; e.Rule != "protocol" || e.Host != "web.test" {
				t.Errorf("%+v", e)
			}
		})
	}
	t.Run("silence", func(t *testing.T) {
		w := openWithin(t, time.Second, allow(port, "web.test:"+port))
		var br *bufio.Reader
		testenv.Success(t, func() error { // the tunnel opens within the time for its first bytes
			conn := w.dial()
			fmt.Fprintf(conn, "CONNECT web.test:%[1]s HTTP/1.1\r\nHost: web.test:%[1]s\r\n\r\n", port)
			br = bufio.NewReader(conn)
			_, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
			return err
		})
		if b, _ := io.ReadAll(br); len(b) != 0 {
			t.Errorf("the server was heard: %q", b)
		}
		if e := w.wait(1, refusals)[0]; e.Rule != "protocol" || e.Host != "web.test" {
			t.Errorf("%+v", e)
		}
	})
	for _, first := range []string{"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00", "\x16\x02\x01\x00\x05"} {
		t.Run(fmt.Sprintf("malformed TLS %q", first), func(t *testing.T) {
			conn, br := w.connect("web.test:" + port)
			io.WriteString(conn, first)
			if b, _ := io.ReadAll(br); len(b) != 7 || b[0] != 21 {
				t.Errorf("%q is no alert", b)
			}
		})
	}
}

func TestServerName(t *testing.T) {
	port, _ := secure(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	w := open(t, allow(port, "example.com:"+port))
	w.names.addrs["example.com"] = []string{"127.0.0.1"}
	tests := []struct {
		target, name string
		passes       bool
	}{
		{"example.com", "example.com", true}, {"EXAMPLE.com.", "example.com", true}, {"example.com", "EXAMPLE.COM", true}, {"example.com", "www.example.com", false}, {"example.com", "", false},
		{"127.0.0.1", "", true}, {"127.0.0.1", "example.com", false}, {"0x7f.1", "", true},
	}
	for _, tt := range tests {
		conn, _ := w.connect(tt.target + ":" + port)
		over := tls.Client(conn, &tls.Config{ServerName: tt.name, InsecureSkipVerify: true})
		if err := over.Handshake(); (err == nil) != tt.passes {
			t.Errorf("%s, %q: %v", tt.target, tt.name, err)
		}
		conn.Close()
	}
	for _, e := range w.wait(3, refusals) {
		if e.Rule != "sni" {
			t.Errorf("%+v", e)
		}
	}
}

// TestPlainInTunnel checks that plain HTTP in a tunnel is read.
func TestPlainInTunnel(t *testing.T) {
	port := serve(t, echo)
	w := open(t, network.Options{Allowed: []string{"GET http://web.test:" + port + "/pub", "https://web.test:" + port, "127.0.0.1:" + port}})
	conn, br := w.connect("web.test:" + port)
	for _, tt := range []struct {
		head   string
		status int
	}{
		{"GET /pub/x HTTP/1.1\r\nHost: web.test:" + port, 200}, {"GET /secret HTTP/1.1\r\nHost: web.test:" + port, 403}, {"POST /pub HTTP/1.1\r\nContent-Length: 0\r\nHost: web.test:" + port, 403},
		{"GET /pub/../secret HTTP/1.1\r\nHost: web.test:" + port, 403}, {"GET /pub HTTP/1.1\r\nHost: web.test", 400},
	} {
		io.WriteString(conn, tt.head+"\r\n\r\n")
		if resp, b := w.answer(br, "GET"); resp.StatusCode != tt.status {
			t.Fatalf("%s: %s %q", tt.head, resp.Status, b)
		}
	}
	if resp, _ := w.raw("GET http://web.test:" + port + "/pub/%2e%2e/secret HTTP/1.1\r\nHost: web.test:" + port + "\r\n\r\n"); resp.StatusCode != 403 {
		t.Errorf("an encoded way up: %s", resp.Status)
	}
}

// TestRebinding checks that an address is judged each time, and a name looked
// up once for it.
func TestRebinding(t *testing.T) {
	port := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	w := open(t, allow(port, "web.test:"+port))
	w.names.addrs["web.test"] = []string{"127.0.0.1", "127.0.0.2"}
	get := "GET http://web.test:" + port + "/ HTTP/1.1\r\nHost: web.test:" + port + "\r\n\r\n"
	if resp, _ := w.raw(get); resp.StatusCode != 200 || w.names.count("web.test") != 1 {
		t.Errorf("%s after %d lookups", resp.Status, w.names.count("web.test"))
	}
	if resp, _ := w.raw(get); resp.StatusCode != 403 || resp.Header.Get("X-Sandbox-Rule") != "address" {
		t.Errorf("the second answer of the resolver: %s", resp.Status)
	}
	if e := w.wait(1, refusals)[0]; e.Addr.Addr().String() != "127.0.0.2" || e.Verdict != policy.Deny {
		t.Errorf("%+v", e)
	}
}

// TestHangUp checks that a tunnel ends if its program sends nothing and
// disconnects.
func TestHangUp(t *testing.T) {
	port := listen(t, func(conn net.Conn) { io.Copy(io.Discard, conn) })
	w := open(t, allow(port, "web.test:"+port))
	conn, _ := w.connect("web.test:" + port)
	conn.Close()
	if e := w.wait(1, ends)[0]; e.Error == "" || e.Host != "web.test" {
		t.Errorf("%+v", e)
	}
}
