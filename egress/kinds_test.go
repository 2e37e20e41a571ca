package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A framed listener has connections that are not TCP, like those forwarded
// over frames.
type framed struct{ net.Listener }

type frames struct {
	net.Conn
}

func (f framed) Accept() (net.Conn, error) {
	conn, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &frames{conn}, nil
}

func (f *frames) CloseWrite() error { return f.Conn.(*net.TCPConn).CloseWrite() }

func TestFrames(t *testing.T) {
	port := serve(t, echo)
	raw := listen(t, func(conn net.Conn) { io.Copy(conn, conn) })
	w := open(t, network.Options{Allowed: []string{"web.test:" + port, "tcp://raw.test:" + raw, "127.0.0.1:" + port, "127.0.0.1:" + raw}})
	p, err := network.New(network.Options{Allowed: []string{"web.test:" + port, "tcp://raw.test:" + raw, "127.0.0.1:" + port, "127.0.0.1:" + raw}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.plane.Open(framed{l}, egress.SessionOptions{Policy: p}); err != nil {
		t.Fatal(err)
	}
	w.addr = l.Addr().String()
	for range 3 {
		if resp, b := w.raw("POST http://web.test:" + port + "/ HTTP/1.1\r\nHost: web.test:" + port + "\r\nContent-Length: 2\r\n\r\nab"); resp.StatusCode != 200 {
			t.Errorf("%s %q", resp.Status, b)
		}
	}
	conn, br := w.connect("raw.test:" + raw)
	io.WriteString(conn, "there and back")
	conn.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(br); string(b) != "there and back" || err != nil {
		t.Errorf("%q %v", b, err)
	}
}

// TestRefusedIsBounded checks that a command keeps its last 64 refusals.
func TestRefusedIsBounded(t *testing.T) {
	w := open(t, allow("1", "web.test:1"))
	c := w.session.Caller("cmd-1")
	proxy, _ := url.Parse(c.Env()["HTTP_PROXY"])
	client := w.client(proxy.User)
	for i := range 70 {
		resp, err := client.Get(fmt.Sprintf("http://h%d.test/", i))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	got := c.End()
	if len(got) != 64 || got[0].Host != "h6.test" || got[63].Host != "h69.test" {
		t.Errorf("%d, from %s on", len(got), got[0].Host)
	}
	resp, err := client.Get("http://later.test/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if e := w.wait(71, refusals)[70]; e.Caller != "" {
		t.Errorf("a command that has ended is named: %+v", e)
	}
}

// TestSecretWebsocket checks that a websocket passes if no secret was put in.
func TestSecretWebsocket(t *testing.T) {
	v := openVault(t, false, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		b := make([]byte, 5)
		io.ReadFull(rw, b)
		conn.Write(b)
	})
	conn, _ := v.connect("example.com:" + v.port)
	conf := v.client.Transport.(*http.Transport).TLSClientConfig.Clone()
	conf.ServerName = "example.com"
	over := tls.Client(conn, conf)
	fmt.Fprintf(over, "GET / HTTP/1.1\r\nHost: example.com:%s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello", v.port)
	br := bufio.NewReader(over)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(br, b); string(b) != "hello" {
		t.Errorf("%q %v", b, err)
	}
	over.Close()
	v.wait(1, ends)
}

// TestSecretUntrusted checks that a secret is not sent to a server without a
// valid certificate of the host.
func TestSecretUntrusted(t *testing.T) {
	reached := make(chan struct{}, 1)
	v := openVault(t, false, func(http.ResponseWriter, *http.Request) { reached <- struct{}{} }, x509.NewCertPool())
	if resp, b := v.get("GET", "https://example.com:"+v.port+"/"); resp.StatusCode != 502 || resp.Header.Get("X-Sandbox-Rule") != "tls" || len(reached) != 0 {
		t.Errorf("%s %q", resp.Status, b)
	}
}

// TestUpstream checks that with an upstream proxy addresses are still judged,
// and that the proxy never gets a name.
func TestUpstream(t *testing.T) {
	port := serve(t, echo)
	asked := make(chan string, 10)
	proxy := listen(t, func(conn net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		asked <- req.Method + " " + req.RequestURI
		out, err := net.Dial("tcp", "127.0.0.1:"+port) // whatever the address
		if err != nil {
			return
		}
		defer out.Close()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		go io.Copy(out, conn)
		io.Copy(conn, out)
	})
	up, err := egress.UpstreamFrom(func(name string) string { return map[string]string{"HTTPS_PROXY": "http://127.0.0.1:" + proxy}[name] })
	if err != nil {
		t.Fatal(err)
	}
	resolver := &names{addrs: map[string][]string{"web.test": {"192.0.2.7"}, "inner.example": {"10.0.0.1"}}, asked: map[string]int{}}
	dial := func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		if !to.Addr().IsLoopback() {
			return nil, fmt.Errorf("%s is outside this machine", to)
		}
		return new(net.Dialer).DialContext(ctx, "tcp", to.String())
	}
	w := open(t, allow(port, "web.test:"+port, "192.0.2.7:"+port, "inner.example"), func(o *egress.Options, _ *egress.SessionOptions) {
		o.Dialer = egress.NewDialer(egress.DialerOptions{Resolver: resolver, Upstream: up, Dial: dial})
	})
	if resp, b := w.raw("GET http://web.test:" + port + "/ HTTP/1.1\r\nHost: web.test:" + port + "\r\n\r\n"); resp.StatusCode != 200 {
		t.Fatalf("%s %q", resp.Status, b)
	}
	if got := <-asked; got != "CONNECT 192.0.2.7:"+port {
		t.Errorf("the upstream proxy was asked %q", got)
	}
	if e := w.wait(1, ends)[0]; e.Addr.String() != "192.0.2.7:"+port {
		t.Errorf("%+v", e)
	}
	if resp, _ := w.raw("CONNECT inner.example:443 HTTP/1.1\r\n\r\n"); resp.StatusCode != 403 || len(asked) != 0 {
		t.Errorf("a private address: %s", resp.Status)
	}
}
