package manager_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestExplainAgreesWithTheProxy checks that explain reports the same verdict
// and rule for a URL as the proxy applies to a request for it. All names have
// the same public address, and the test dials no server.
func TestExplainAgreesWithTheProxy(t *testing.T) {
	t.Parallel()
	tests := []struct{ rules, ask string }{
		{`"allowedDomains":["a.example"]`, "https://a.example http://a.example http://a.example:8080/x https://A.Example.:443 https://b.example http://a.example:25/ " +
			"tcp://a.example:443 tcp://a.example:22 https://www.a.example https://a.example.evil.test"},
		{`"allowedDomains":["*.w.example","tcp://g.example:22","https://t.example"]`, "https://x.w.example https://w.example tcp://g.example:22 https://g.example:22 tcp://g.example:443 http://t.example:443/ https://t.example https://t.example:8443"},
		{`"allowedDomains":["GET http://p.example/pub"]`, "http://p.example/pub/a?b=c http://p.example/public http://p.example/ https://p.example http://p.example/pub/%2e%2e/a POST,http://p.example/pub/a"},
		{`"allowedDomains":["*.example"],"deniedDomains":["d.example","http://e.example/admin","*:8081"]`, "https://d.example https://e.example http://e.example/ADMIN http://e.example/x/../admin http://e.example/x http://f.example:8081/ tcp://f.example:443"},
		{`"allowPublic":true`, "https://any.test http://any.test/x tcp://any.test:443 https://any.test:25 https://8.8.8.8 https://10.1.2.3 http://169.254.169.254/latest http://0x7f.1/ http://[::1]/ http://[::ffff:10.0.0.1]/ http://2130706433/"},
		{`"ask":true`, "https://any.test http://any.test/ tcp://any.test:443 https://any.test:25 http://192.168.1.1/"},
		{`"allowedDomains":["127.0.0.1:8080","10.0.0.0/8"]`, "http://0x7f.1:8080/ http://127.0.0.1:8081/ https://[::ffff:10.1.2.3] http://10.1.2.3:22/ https://11.0.0.1"},
	}
	n := 0
	for _, tt := range tests {
		settings := `{"agents":{"defaults":{"sandbox":{"provider":"local","network":{` + tt.rules + `}}}}}`
		m, p := newMachine(t).manager(settings, ""), openProxy(t, settings)
		for text := range strings.FieldsSeq(tt.ask) {
			method, at, given := strings.Cut(text, ",")
			if !given {
				method, at = "", text
			}
			e, err := m.Explain(t.Context(), config.Who{Agent: "main", Session: "s"}, nil, manager.Questions{Host: at, Method: method})
			must(t, err)
			if len(e.Verdicts) != 1 {
				t.Fatalf("%s: %+v", text, e.Verdicts)
			}
			said := e.Verdicts[0]
			if got, want := p.ask(at, method), said.Verdict+" "+said.Rule; got != want {
				t.Errorf("%s, %s: the proxy says %q, explain %q: %s", tt.rules, text, got, want, said.Reason)
			}
			n++
		}
	}
	if n < 50 {
		t.Errorf("only %d questions", n)
	}
}

// A judgingProxy is a proxy of which only the decisions matter.
type judgingProxy struct {
	t      *testing.T
	addr   string
	events chan egress.Event
}

// openProxy opens a proxy with the rules of settings, as for a sandbox. Who
// is asked says yes.
func openProxy(t *testing.T, settings string) *judgingProxy {
	t.Helper()
	parsed, err := config.Parse("test", []byte(settings))
	must(t, err)
	res, err := config.Resolve(parsed, config.Who{Agent: "main", Session: "s"}, nil)
	must(t, err)
	dir, p := t.TempDir(), &judgingProxy{t: t, events: make(chan egress.Event, 16)}
	kept, err := evidence.Open(filepath.Join(dir, "evidence"), evidence.Options{})
	must(t, err)
	stopped, err := violation.Open(filepath.Join(dir, "violations"), violation.Options{})
	must(t, err)
	log := logrus.New()
	log.SetOutput(io.Discard)
	recorder, err := egress.NewRecorder(egress.RecorderOptions{Evidence: kept, Violations: stopped, Log: log})
	must(t, err)
	plane := egress.New(egress.Options{
		Dialer: egress.NewDialer(egress.DialerOptions{Resolver: oneAddress{}, Dial: dialNobody}),
		Record: func(e egress.Event) {
			if e.Phase == egress.PhaseDecision {
				p.events <- e
			}
		},
	})
	n := res.Network
	out := &egress.Server{Plane: plane, Recorder: recorder}
	yes := func(context.Context, proxy.Question) proxy.Answer {
		return proxy.Answer{Allowed: true, Rule: "network.ask"}
	}
	session, err := out.Open(t.Context(), p, proxy.Options{Sandbox: "box", Ask: yes, Rules: sandbox.EgressRules{
		AllowedDomains: n.AllowedDomains, DeniedDomains: n.DeniedDomains, AllowPublic: n.AllowPublic, AllowPrivate: n.AllowPrivate, Ask: n.Ask,
	}})
	must(t, err)
	t.Cleanup(func() {
		session.Close()
		plane.Close()
		recorder.Close()
		kept.Close()
		stopped.Close()
	})
	return p
}

// Listen implements sandbox.Listener. The proxy listens at a port that is free;
// what listens at a port that a rule names leads to one host and judges nothing.
func (p *judgingProxy) Listen(ctx context.Context, kind, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, kind, "127.0.0.1:0")
	if err == nil && strings.HasSuffix(addr, ":0") {
		p.addr = l.Addr().String()
	}
	return l, err
}

// ask tries to reach what the URL names, and returns verdict and rule.
func (p *judgingProxy) ask(text, method string) string {
	p.t.Helper()
	u, err := url.Parse(text)
	must(p.t, err)
	c, err := net.Dial("tcp", p.addr)
	must(p.t, err)
	defer c.Close()
	must(p.t, c.SetDeadline(time.Now().Add(30*time.Second)))
	host := u.Host
	if u.Port() == "" {
		host += map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	}
	// A request in a path that Go would tidy is sent as it is written.
	_, path, _ := strings.Cut(strings.TrimPrefix(text, u.Scheme+"://"), "/")
	switch {
	case u.Scheme == "http":
		if method == "" {
			method = "GET"
		}
		fmt.Fprintf(c, "%s http://%s/%s HTTP/1.1\r\nHost: %s\r\n\r\n", method, host, path, host)
	default:
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", host, host)
		go func() {
			b := make([]byte, 1024)
			if n, _ := c.Read(b); !strings.HasPrefix(string(b[:n]), "HTTP/1.1 200 ") {
				return
			}
			if u.Scheme == "tcp" {
				fmt.Fprint(c, "SSH-2.0-test\r\n")
				return
			}
			name := strings.TrimSuffix(u.Hostname(), ".")
			_ = tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake() // no server answers it
		}()
	}
	select {
	case e := <-p.events:
		if e.Rule == "network.ask" {
			e.Verdict = "ask" // and the answer was yes
		}
		return string(e.Verdict) + " " + e.Rule
	case <-time.After(30 * time.Second):
		p.t.Fatalf("nothing was decided of %s", text)
		return ""
	}
}

// oneAddress is a resolver that knows every name.
type oneAddress struct{}

func (oneAddress) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("8.8.4.4")}, nil
}

// dialNobody connects to a server that never sends a byte.
func dialNobody(_ context.Context, to netip.AddrPort) (net.Conn, error) {
	c, _ := net.Pipe()
	return silentConn{c, to}, nil
}

type silentConn struct {
	net.Conn
	to netip.AddrPort
}

func (c silentConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.to) }
