package egress

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// proxied serves each connection with serve, as a proxy on loopback, and
// returns its address.
func proxied(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			serve(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

// vetted is an address to which every byte has to go through the proxy.
const vetted = "198.51.100.7:443"

// dialWith connects to web.example, which has the address vetted, with the
// variable.
func dialWith(t testing.TB, ctx context.Context, variable string, change func(*DialerOptions)) (net.Conn, netip.AddrPort, error) {
	t.Helper()
	u, err := UpstreamFrom(proxyEnvironment(variable))
	if err != nil {
		t.Fatal(err)
	}
	o := DialerOptions{Upstream: u, Resolver: fixed{}, DialTimeout: time.Minute}
	if change != nil {
		change(&o)
	}
	h, err := network.Canonical("web.example")
	if err != nil {
		t.Fatal(err)
	}
	return NewDialer(o).Dial(ctx, h, 443, func(a netip.Addr, _ uint16) network.Decision {
		if a.String() == "198.51.100.7" {
			return network.Decision{Verdict: policy.Allow}
		}
		return network.Decision{Verdict: policy.Deny, Rule: "address", Message: "no"}
	})
}

// A fixed resolver resolves one host and one proxy.
type fixed struct{}

func (fixed) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	switch host {
	case "web.example.":
		return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("198.51.100.7")}, nil
	case "proxy.example":
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	return nil, errors.New("who is " + host)
}

// greeting is sent at once by the host behind the proxy.
const greeting = "220 host first\r\n"

// connects answers CONNECT and then acts as the host: greeting, then an echo.
func connects(t testing.TB, login string) func(net.Conn) {
	return func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			t.Error(err)
			return
		}
		if r.Method != "CONNECT" || r.RequestURI != vetted || r.Host != vetted || r.Header.Get("Proxy-Authorization") != login {
			t.Errorf("the proxy was asked %s %s %s %q", r.Method, r.RequestURI, r.Host, r.Header)
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 Connection established\r\nContent-Length: 5\r\nX: y\r\n\r\n"+greeting)
		_, _ = io.Copy(c, c)
	}
}

// echoes checks that the host at the other end is reached, byte for byte.
func echoes(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.WriteString(c, "ping"); err != nil {
		t.Fatal(err)
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != greeting+"ping" {
		t.Errorf("%q, %v", got, err)
	}
	_ = c.Close()
}

func TestThroughHTTP(t *testing.T) {
	for name, tt := range map[string]struct{ url, login string }{
		"open":        {"", ""},
		"credentials": {"us%3aer:p%40ss@", "Basic dXM6ZXI6cEBzcw=="},
		"no password": {"user@", "Basic dXNlcjo="},
	} {
		t.Run(name, func(t *testing.T) {
			c, at, err := dialWith(t, t.Context(), "HTTPS_PROXY=http://"+tt.url+proxied(t, connects(t, tt.login)), nil)
			if err != nil || at.String() != vetted {
				t.Fatalf("%v, %v", at, err)
			}
			if _, ok := c.(*net.TCPConn); !ok {
				t.Errorf("the connection is a %T", c)
			}
			echoes(t, c)
		})
	}
}

// TestThroughTLS checks that a proxy needs a certificate of its name.
func TestThroughTLS(t *testing.T) {
	cert, roots := certificate(t, "proxy.example")
	addr := proxied(t, func(c net.Conn) {
		s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
		if s.Handshake() != nil {
			return
		}
		connects(t, "Basic dTpw")(s)
		_ = s.CloseWrite()
	})
	_, port, _ := net.SplitHostPort(addr)
	variable := "ALL_PROXY=https://u:p@proxy.example:" + port
	c, at, err := dialWith(t, t.Context(), variable, func(o *DialerOptions) { o.Upstream.other.roots = roots })
	if err != nil || at.String() != vetted {
		t.Fatalf("%v, %v", at, err)
	}
	echoes(t, c)
	for name, url := range map[string]string{"unknown authority": variable, "another name": "ALL_PROXY=https://u:p@" + addr} {
		_, _, err := dialWith(t, t.Context(), url, func(o *DialerOptions) {
			if name == "another name" {
				o.Upstream.other.roots = roots
			}
		})
		if err == nil || !strings.HasSuffix(err.Error(), "the upstream proxy could not prove who it is") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// certificate returns a self-signed certificate for a name.
func certificate(t testing.TB, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &c, &c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// says returns a proxy that reads a request and answers with a text.
func says(answer string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = io.WriteString(c, answer)
	}
}

// TestProxyRefuses checks that every other answer is an error that describes
// the cause, and can be shown.
func TestProxyRefuses(t *testing.T) {
	tests := map[string]struct {
		serve func(net.Conn)
		want  string
	}{
		"407":                {says("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n"), "wants other credentials (407)"},
		"403":                {says("HTTP/1.1 403 Forbidden\r\n\r\n"), `refused with 403 "Forbidden"`},
		"502, coloured":      {says("HTTP/1.0 502 \x1b[31mred\u202e\r\n\r\n"), `refused with 502 "\x1b[31mred\u202e"`},
		"long reason":        {says("HTTP/1.1 500 " + strings.Repeat("x", 1000) + "\r\n\r\n"), `xxx"...`},
		"100":                {says("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"), `refused with 100 "Continue"`},
		"no reason":          {says("HTTP/1.1 503\r\n\r\n"), `refused with 503 ""`},
		"odd status":         {says("HTTP/1.1 +200 OK\r\n\r\n"), "does not speak HTTP"},
		"short status":       {says("HTTP/1.1 20 OK\r\n\r\n"), "does not speak HTTP"},
		"long status":        {says("HTTP/1.1 2000 OK\r\n\r\n"), "does not speak HTTP"},
		"another version":    {says("HTTP/1.9 200 OK\r\n\r\n"), "does not speak HTTP"},
		"SSH":                {says("SSH-2.0-x\r\n"), "does not speak HTTP"},
		"SOCKS":              {says("\x05\xff"), "does not speak HTTP"},
		"nothing":            {func(net.Conn) {}, "ended the connection instead of answering"},
		"half a head":        {says("HTTP/1.1 200 OK\r\nX: y\r\n"), "ended the connection instead of answering"},
		"a head without end": {says("HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 4000)), "answers without an end"},
		"one endless line":   {says("HTTP/1.1 200 " + strings.Repeat("x", 20_000)), "answers without an end"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, at, err := dialWith(t, t.Context(), "HTTPS_PROXY=http://u:s3cret@"+proxied(t, tt.serve), nil)
			var unreachable *dialUnreachable
			if !errors.As(err, &unreachable) || !strings.HasSuffix(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "web.example:443 cannot be reached: the upstream proxy ") {
				t.Fatalf("%v", err)
			}
			if at.String() != vetted || unreachable.Timeout || sandbox.CodeOf(err) != sandbox.CodeUnavailable || len(err.Error()) > 250 || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v, %v", at, err)
			}
		})
	}
}

// silent starts a proxy that never answers; asked and ended are closed when it
// gets a request and when the connection ends.
func silent(t *testing.T) (addr string, asked, ended <-chan struct{}) {
	t.Helper()
	ask, end := make(chan struct{}, 1), make(chan struct{}, 1)
	return proxied(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		ask <- struct{}{}
		_, _ = io.Copy(io.Discard, c)
		end <- struct{}{}
	}), ask, end
}

// TestProxyIsSlow checks that the wait for a proxy has the limit of a host,
// ends when the call is cancelled, and that its connection ends then.
func TestProxyIsSlow(t *testing.T) {
	for name, scheme := range map[string]string{"HTTP": "http", "TLS": "https", "SOCKS": "socks5"} {
		t.Run(name, func(t *testing.T) {
			for connected := false; !connected; { // it may not have come to that in time
				addr, asked, ended := silent(t)
				_, _, err := dialWith(t, t.Context(), "HTTPS_PROXY="+scheme+"://"+addr, func(o *DialerOptions) {
					o.DialTimeout = time.Second
					o.Dial = func(ctx context.Context, at netip.AddrPort) (net.Conn, error) {
						c, err := new(net.Dialer).DialContext(ctx, "tcp", at.String())
						connected = connected || err == nil
						return c, err
					}
				})
				var unreachable *dialUnreachable
				if !errors.As(err, &unreachable) || !unreachable.Timeout || sandbox.CodeOf(err) != sandbox.CodeTimeout {
					t.Fatal(err)
				}
				if connected {
					<-asked
					<-ended
				}
			}
			addr, asked, ended := silent(t)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-asked
				cancel()
			}()
			_, _, err := dialWith(t, ctx, "HTTPS_PROXY="+scheme+"://"+addr, nil)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			<-ended
		})
	}
}

// TestProxyIsNotThere checks the error for a proxy that cannot be reached.
func TestProxyIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	for variable, want := range map[string]string{
		"HTTPS_PROXY=" + addr:                    "the upstream proxy cannot be reached",
		"HTTPS_PROXY=http://nobody.example:3128": "the upstream proxy cannot be looked up",
	} {
		if _, _, err := dialWith(t, t.Context(), variable, nil); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", variable, err)
		}
	}
}

// TestProxyNeedsVetting checks that a proxy gets no request for a host without
// an allowed address.
func TestProxyNeedsVetting(t *testing.T) {
	u, err := UpstreamFrom(proxyEnvironment("ALL_PROXY=http://proxy.example:1"))
	if err != nil {
		t.Fatal(err)
	}
	h, _ := network.Canonical("web.example")
	r := NewDialer(DialerOptions{Upstream: u, Resolver: fixed{}, Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
		t.Error("something was dialled")
		return nil, net.ErrClosed
	}})
	_, _, err = r.Dial(t.Context(), h, 443, func(netip.Addr, uint16) network.Decision {
		return network.Decision{Verdict: policy.Deny, Message: "no"}
	})
	var refused *dialRefused
	if !errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
}
