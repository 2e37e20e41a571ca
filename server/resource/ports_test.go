package resource_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// A portsRig is a daemon with a program of HTTP that listens inside the sandbox
// of one session.
type portsRig struct {
	*served.Rig
	t     *testing.T
	ports *resource.Ports
	name  string
	base  string // of the sandbox
	port  string
	web   *http.Client
}

// newPortsRig serves at an address inside; it is one of the loopback interface.
func newPortsRig(t *testing.T, wall, at string) *portsRig {
	p := &portsRig{t: t}
	p.Rig = served.New(t, served.Options{Wall: wall, Resources: func(r *served.Rig) []resource.Resource {
		p.ports = resource.NewPorts(r.Manager, resource.PortOptions{File: filepath.Join(t.TempDir(), "ports.json"), Domain: "localhost", Tokens: r.Tokens, AtOnce: 4})
		return []resource.Resource{p.ports, resource.NewTokens(r.Tokens)}
	}, Daemon: func(o *server.Options) {
		o.Ports = p.ports
		o.Mounts = []server.Mount{{Pattern: resource.PortsPattern, Handler: p.ports.Handler()}}
	}})
	p.web = &http.Client{
		Transport: &http.Transport{DialContext: p.Dial, DisableCompression: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(p.web.CloseIdleConnections)
	p.name = p.Ready("acme", "s1")
	p.base = "/v1/sandboxes/" + p.name
	ready, over := make(chan string), make(chan error, 1)
	ctx, done := context.WithCancel(context.Background())
	go func() {
		who := config.Who{Tenant: "acme", Agent: config.DefaultAgent, Session: "s1"}
		over <- p.Manager.WithSandbox(ctx, manager.Request{Who: who}, func(sb sandbox.Sandbox, _ sandbox.Spec) error {
			l, err := sb.(sandbox.Listener).Listen(ctx, "tcp", net.JoinHostPort(at, "0"))
			if err != nil {
				return err
			}
			srv := &http.Server{Handler: http.HandlerFunc(inside)}
			srv.Protocols = &http.Protocols{}
			srv.Protocols.SetHTTP1(true)
			srv.Protocols.SetUnencryptedHTTP2(true)
			go func() { _ = srv.Serve(l) }()
			_, port, _ := net.SplitHostPort(l.Addr().String())
			ready <- port
			<-ctx.Done()
			return srv.Close()
		})
	}()
	select {
	case p.port = <-ready:
	case err := <-over:
		t.Fatal(err)
	}
	t.Cleanup(func() { done(); <-over })
	return p
}

// inside is the program in the sandbox: it reports what has got inside.
func inside(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/echo":
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			return
		}
		for {
			kind, data, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, data) != nil {
				return
			}
		}
	case "/from": // which connection it is, and how it is to go on
		if r.URL.Query().Has("close") {
			c, _, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			_ = c.Close()
			return
		}
		_, _ = io.WriteString(w, r.RemoteAddr)
	case "/events":
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; ; i++ {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			if i > 0 {
				<-r.Context().Done()
				return
			}
		}
	case "/cookie":
		w.Header().Add("Set-Cookie", "app=1; Domain=localhost; Path=/")
		w.Header().Add("Set-Cookie", "sandbox-share=evil")
	default:
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s\nhost %s\nbody %s\n", r.Method, r.RequestURI, r.Proto, r.Host, body)
		_ = r.Header.Write(w)
	}
}

// ask sends a request by path or, with a host, by host name.
func (p *portsRig) ask(method, host, path, body string, header ...string) (int, string, http.Header) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, "http://daemon", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	raw, query, _ := strings.Cut(path, "?")
	plain, _ := url.PathUnescape(raw)
	req.URL.Path, req.URL.RawPath, req.URL.RawQuery, req.Host = plain, raw, query, host
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := p.web.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(data), res.Header
}

// link makes a share and returns it.
func (p *portsRig) link(body string) api.NewShare {
	p.t.Helper()
	return served.JSON[api.NewShare](p.t, p.Want(201, "acme-s1", "POST", p.base+"/shares", fmt.Sprintf(body, p.port)))
}

// TestPortsByPath holds that requests by path get inside as they are, without
// what belongs to the server, for the tenant alone.
func TestPortsByPath(t *testing.T) {
	t.Parallel()
	for _, wall := range []string{"local", "docker"} {
		t.Run(wall, func(t *testing.T) {
			for _, at := range []string{"127.0.0.1", "0.0.0.0", "::1"} {
				if wall == "docker" && at != "127.0.0.1" && !testenv.All() {
					continue // as in the local sandbox
				}
				p := newPortsRig(t, wall, at)
				auth := []string{"Authorization", "Bearer " + p.Secret("acme-s1")}
				status, body, head := p.ask("POST", "", p.base+"/ports/"+p.port+"/a%2Fb/c?x=1&y=%20", "hello", append(auth, "Cookie", "a=b; sandbox-share=s", "Sandbox-Session", "s1", "X-Mine", "1", "Connection", "X-Hop", "X-Hop", "1")...)
				if status != 200 || !strings.Contains(body, "POST /a%2Fb/c?x=1&y=%20 HTTP/1.1\nhost localhost:"+p.port+"\nbody hello\n") || !strings.Contains(body, "Cookie: a=b\r\n") || !strings.Contains(body, "X-Mine: 1") {
					t.Fatalf("%s: %d %s", at, status, body)
				}
				for _, secret := range []string{p.Secret("acme-s1"), "Authorization", "sandbox-share", "Sandbox-", "X-Hop"} {
					if strings.Contains(body, secret) {
						t.Errorf("%q got inside: %s", secret, body)
					}
				}
				if head.Get("Content-Security-Policy") != "sandbox" {
					t.Errorf("a page has the origin of the server: %v", head)
				}
				if _, _, head := p.ask("GET", "", p.base+"/ports/"+p.port+"/cookie", "", auth...); head.Get("Set-Cookie") != "" {
					t.Errorf("a program inside sets a cookie of the server: %v", head)
				}
				list := served.JSON[api.PortList](t, p.Want(200, "acme-s1", "GET", p.base+"/ports", ""))
				if slices.ContainsFunc(list.Items, func(l api.Port) bool { return strconv.Itoa(l.Port) == p.port }) {
					t.Errorf("the list has %s, at which no program inside listens but this server: %+v", p.port, list)
				}
			}
		})
	}
}

// TestPortsKept holds that requests of one caller by path without a body follow each
// other on one connection, and that no other request does: not of another token, by a
// link, with a body, or to another sandbox of the name.
func TestPortsKept(t *testing.T) {
	t.Parallel()
	p := newPortsRig(t, "docker", "127.0.0.1")
	made := p.link(`{"port":%s}`)
	auth := func(as string) []string { return []string{"Authorization", "Bearer " + p.Secret(as)} }
	from := func(method, as, query, body string) string {
		t.Helper()
		status, addr, _ := p.ask(method, "", p.base+"/ports/"+p.port+"/from"+query, body, auth(as)...)
		if status != 200 {
			t.Fatalf("%d %s", status, addr)
		}
		return addr
	}
	own := from("GET", "acme-s1", "", "")
	for range 3 {
		if again := from("GET", "acme-s1", "", ""); again != own {
			t.Fatalf("a request from %s follows one from %s", again, own)
		}
	}
	seen := map[string]string{"GET": own}
	once := func(what, addr string) {
		t.Helper()
		for of, other := range seen {
			if addr == other {
				t.Errorf("%s shares the connection of %s", what, of)
			}
		}
		seen[what] = addr
	}
	once("another token", from("GET", "acme", "", ""))
	once("a body", from("POST", "acme-s1", "", "x"))
	once("a method that changes something", from("DELETE", "acme-s1", "", ""))
	for _, what := range []string{"a link", "a link once more"} {
		status, addr, _ := p.ask("GET", made.Share.Host, "/from", "", api.HeaderShare, made.Secret)
		if status != 200 {
			t.Fatalf("%d %s", status, addr)
		}
		once(what, addr)
	}
	if from("GET", "acme-s1", "", "") != own || from("GET", "acme", "", "") != seen["another token"] {
		t.Error("the connections are not kept meanwhile")
	}
	// The program closes the connection, and does not say so before.
	for range 3 {
		if got := from("GET", "acme-s1", "?close", ""); got != "ok" {
			t.Fatal(got)
		}
		once("what follows an end", from("GET", "acme-s1", "", ""))
		delete(seen, "what follows an end")
	}
	if status, _, _ := p.ask("GET", "", p.base+"/ports/"+p.port+"/from", "", auth("evil")...); status != 404 {
		t.Errorf("%d", status)
	}
	p.remove()
	if p.Ready("acme", "s1") != p.name {
		t.Fatal("the new sandbox has another name")
	}
	if status, body, _ := p.ask("GET", "", p.base+"/ports/"+p.port+"/from", "", auth("acme-s1")...); status != 503 {
		t.Errorf("a connection to the sandbox that was removed is used: %d %s", status, body)
	}
}

// TestPortsRefused holds that a request for what is no port of the caller's own
// sandbox is refused.
func TestPortsRefused(t *testing.T) {
	t.Parallel()
	p := newPortsRig(t, "local", "127.0.0.1")
	as := func(who string) []string { return []string{"Authorization", "Bearer " + p.Secret(who)} }
	good := p.base + "/ports/" + p.port + "/"
	for _, tt := range []struct {
		as, path string
		status   int
	}{
		{"acme-s1", good, 200}, {"evil", good, 404}, {"acme-s2", good, 404},
		{"acme-s1", p.base + "/ports/0/", 422}, {"acme-s1", p.base + "/ports/65536/", 422}, {"acme-s1", p.base + "/ports/-1/", 422},
		{"acme-s1", p.base + "/ports/0" + p.port + "/", 422}, {"acme-s1", p.base + "/ports/+80/", 422}, {"acme-s1", p.base + "/ports/%38/", 422},
		{"acme-s1", good + "../x", 404}, {"acme-s1", good + "%2e%2e/x", 404}, {"acme-s1", good + "a/..", 404},
		{"acme-s1", p.base + "/ports/1/", 503},
	} {
		if status, body, _ := p.ask("GET", "", tt.path, "", as(tt.as)...); status != tt.status {
			t.Errorf("%s %s: %d %s, want %d", tt.as, tt.path, status, body, tt.status)
		}
	}
	p.Want(404, "evil", "GET", p.base+"/ports", "")
	p.Want(404, "evil", "POST", p.base+"/shares", `{"port":80}`)
	p.Want(404, "evil", "GET", p.base+"/shares", "")
	for _, body := range []string{`{}`, `{"port":0}`, `{"port":65536}`, `{"port":-1}`, `{"port":80,"ttlSeconds":-1}`, `{"port":80,"ttlSeconds":2592001}`, `{"port":"080"}`} {
		p.Want(422, "acme-s1", "POST", p.base+"/shares", body)
	}
}

// TestSharedPort holds that the link of a share reaches its port of its sandbox
// with each protocol, and nothing without its secret.
func TestSharedPort(t *testing.T) {
	t.Parallel()
	p := newPortsRig(t, "local", "127.0.0.1")
	made := p.link(`{"port":%s}`)
	host := made.Share.Host + ":8421"
	with := []string{api.HeaderShare, made.Secret}
	status, body, _ := p.ask("GET", host, "/x/../y//z?token=1&sandbox-share="+made.Secret+"&q=2", "", "Authorization", "Bearer its-own", "Referer", "http://"+host+"/?sandbox-share="+made.Secret)
	if status != 200 || !strings.Contains(body, "?token=1&q=2 ") || !strings.Contains(body, "host "+host+"\n") || !strings.Contains(body, "Authorization: Bearer its-own") || strings.Contains(body, made.Secret) {
		t.Errorf("%d %s", status, body)
	}
	for _, tt := range []struct {
		name, host string
		header     []string
		status     int
	}{
		{"by header", host, with, 200},
		{"by cookie", host, []string{"Cookie", "sandbox-share=" + made.Secret}, 200},
		{"by cookie, from another origin", host, []string{"Cookie", "sandbox-share=" + made.Secret, "Origin", "http://evil.example"}, 403},
		{"by cookie, from a page of another site", host, []string{"Cookie", "sandbox-share=" + made.Secret, "Sec-Fetch-Site", "cross-site"}, 403},
		{"by cookie, from its own page", host, []string{"Cookie", "sandbox-share=" + made.Secret, "Origin", "http://" + host}, 200},
		{"without a secret", host, nil, 401},
		{"with another secret", host, []string{api.HeaderShare, made.Share.ID + ".x"}, 401},
		{"with the token of its owner in our place", host, []string{"Authorization", "Bearer " + p.Secret("acme-s1")}, 401},
		{"another port", strings.Replace(host, p.port, "1", 1), with, 401},
		{"a port with a zero", "0" + host, with, 401},
		{"another sandbox", p.port + "-aaaaaaaaaaaaaaaaaaaaaaaaaa.localhost", with, 401},
		{"another domain", made.Share.Host + ".example.com", with, 404},
		{"another tenant's name", host, append([]string{"Sandbox-Tenant", "evil"}, with...), 200},
	} {
		if status, body, _ := p.ask("GET", tt.host, "/", "", tt.header...); status != tt.status || strings.Contains(body, made.Secret) {
			t.Errorf("%s: %d %s, want %d", tt.name, status, body, tt.status)
		}
	}
	status, _, head := p.ask("GET", host, "//evil.example/?sandbox-share="+made.Secret, "", "Accept", "text/html")
	if status != 303 || head.Get("Location") != "/evil.example/" || !strings.Contains(head.Get("Set-Cookie"), "HttpOnly; SameSite=Lax") {
		t.Errorf("a browser: %d %v", status, head)
	}
	if _, _, head := p.ask("GET", host, "/cookie", "", with...); len(head.Values("Set-Cookie")) != 1 || head.Get("Set-Cookie") != "app=1; Path=/" {
		t.Errorf("cookies of the program: %v", head.Values("Set-Cookie"))
	}
	public := p.link(`{"port":%s,"public":true}`)
	if status, _, _ := p.ask("GET", public.Share.Host, "/", "", "Origin", "http://elsewhere.example"); status != 200 || public.Secret != "" {
		t.Errorf("a public share: %d %+v", status, public)
	}
}

// TestShareOver holds that connections of every kind are cut within a second when
// their share is revoked or expires, or the token that made it is revoked.
func TestShareOver(t *testing.T) {
	for name, end := range map[string]func(p *portsRig, s api.Share){
		"revoked": func(p *portsRig, s api.Share) { p.Want(204, "acme-s1", "DELETE", p.base+"/shares/"+s.ID, "") },
		"expired": func(*portsRig, api.Share) {},
		"token":   func(p *portsRig, _ api.Share) { p.Want(200, "root", "DELETE", "/v1/tokens/"+p.IDs["acme-s1"], "") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPortsRig(t, "local", "127.0.0.1")
			body := `{"port":%s}`
			if name == "expired" {
				body = `{"port":%s,"ttlSeconds":3}`
			}
			made := p.link(body)
			ctx, done := context.WithTimeout(t.Context(), time.Minute)
			defer done()
			ws, _, err := websocket.Dial(ctx, "http://"+made.Share.Host+"/echo", &websocket.DialOptions{HTTPClient: p.web, HTTPHeader: http.Header{api.HeaderShare: {made.Secret}}})
			if err != nil {
				t.Fatal(err)
			}
			defer ws.CloseNow()
			if err := ws.Write(ctx, websocket.MessageText, []byte("hi")); err != nil {
				t.Fatal(err)
			}
			if _, data, err := ws.Read(ctx); string(data) != "hi" || err != nil {
				t.Fatalf("%q, %v", data, err)
			}
			events := p.open(ctx, "GET", made, "/events")
			if line, err := events.ReadString('\n'); line != "data: 0\n" || err != nil {
				t.Fatalf("%q, %v", line, err)
			}
			raw := p.tunnel(made)
			defer raw.Close()
			began := time.Now()
			end(p, made.Share)
			if name == "expired" {
				began = made.Share.Expires
			}
			if _, _, err := ws.Read(ctx); err == nil || ctx.Err() != nil {
				t.Errorf("the WebSocket goes on: %v", err)
			}
			if _, err := io.Copy(io.Discard, events); err == nil || ctx.Err() != nil {
				t.Errorf("the stream of events goes on: %v", err)
			}
			if _, err := raw.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the tunnel goes on: %v", err)
			}
			if took := time.Since(began); took > 1500*time.Millisecond {
				t.Errorf("they were cut after %v", took)
			}
			if status, _, _ := p.ask("GET", made.Share.Host, "/", "", api.HeaderShare, made.Secret); status != 401 {
				t.Errorf("the link is good still: %d", status)
			}
		})
	}
}

// open begins a request and returns its answer as far as it has come.
func (p *portsRig) open(ctx context.Context, method string, s api.NewShare, path string) *bufio.Reader {
	p.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.Share.Host+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set(api.HeaderShare, s.Secret)
	res, err := p.web.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { res.Body.Close() })
	return bufio.NewReader(res.Body)
}

// tunnel connects by CONNECT.
func (p *portsRig) tunnel(s api.NewShare) net.Conn {
	p.t.Helper()
	c, head := p.connect(s)
	if c == nil {
		p.t.Fatalf("%q", head)
	}
	return c
}

// connect is tunnel where it may be refused: with the beginning of the answer.
func (p *portsRig) connect(s api.NewShare) (net.Conn, string) {
	p.t.Helper()
	c, err := p.Dial(p.t.Context(), "", "")
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	to := s.Share.Host + ":" + p.port
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Bearer %s\r\n\r\n", to, to, s.Secret)
	head := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
	if _, err := io.ReadFull(c, head); err != nil {
		p.t.Fatalf("%q, %v", head, err)
	}
	if !strings.HasPrefix(string(head), "HTTP/1.1 200") {
		return nil, string(head)
	}
	return c, string(head)
}

// TestPortTunnel holds that CONNECT passes any protocol on, such as HTTP/2
// without TLS, and connects to shared ports alone.
func TestPortTunnel(t *testing.T) {
	t.Parallel()
	p := newPortsRig(t, "local", "127.0.0.1")
	made := p.link(`{"port":%s}`)
	h2 := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return p.tunnel(made), nil }, Protocols: &http.Protocols{}}
	h2.Protocols.SetUnencryptedHTTP2(true)
	defer h2.CloseIdleConnections()
	res, err := (&http.Client{Transport: h2}).Get("http://inside/two")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if data, _ := io.ReadAll(res.Body); !strings.Contains(string(data), "GET /two HTTP/2.0") {
		t.Errorf("%s", data)
	}
	for _, to := range []string{"example.com:80", "127.0.0.1:" + p.port, "1-" + strings.SplitN(made.Share.Host, "-", 2)[1] + ":1"} {
		c, err := p.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Bearer %s\r\n\r\n", to, to, made.Secret)
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 4") {
			t.Errorf("CONNECT %s: %q, %v", to, line, err)
		}
		c.Close()
	}
}

// answers is a program that answers HTTP with the address at which it listens; its
// arguments are those.
const answers = `use IO::Select; my $s = IO::Select->new; my %at;
for my $a (@ARGV) { my ($h, $p) = $a =~ /^(.*):(\d+)$/; my $l = IO::Socket::IP->new(LocalHost => $h, LocalPort => $p, Listen => 9, ReuseAddr => 1, V6Only => 1) or die "$a: $@"; $s->add($l); $at{$l} = $a }
$| = 1; print "ready\n"; while (1) { for my $l ($s->can_read) { my $c = $l->accept or next; while (<$c>) { last if /^\r?$/ } print $c "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " . length($at{$l}) . "\r\n\r\n$at{$l}"; close $c } }`

// program runs answers in the sandbox until the returned function is called, which
// waits for its end.
func (p *portsRig) program(addresses ...string) (end func()) {
	p.t.Helper()
	ctx, done := context.WithCancel(context.Background())
	out, in := io.Pipe()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, err := p.Manager.Run(ctx, manager.Request{
			Who:     config.Who{Tenant: "acme", Agent: config.DefaultAgent, Session: "s1"},
			Command: sandbox.Command{Args: append([]string{"perl", "-MIO::Socket::IP", "-e", answers}, addresses...), Stdout: in, Stderr: in},
		})
		_ = in.CloseWithError(err)
	}()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		p.t.Fatal(line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	end = sync.OnceFunc(func() { done(); <-over })
	p.t.Cleanup(end)
	return end
}

// TestPortsOfPrograms holds which programs are listed, with their numbers and
// commands, at which addresses they are reached, and for whom.
func TestPortsOfPrograms(t *testing.T) {
	t.Parallel()
	for _, wall := range []string{"local", "docker"} {
		t.Run(wall, func(t *testing.T) {
			if wall == "docker" {
				testenv.Exhaustive(t, "the same guest in another provider")
			}
			p := newPortsRig(t, wall, "127.0.0.1")
			end := p.program("127.0.0.1:8101", "127.0.0.2:8102", "::1:8103", "0.0.0.0:8104", ":::8105")
			list := served.JSON[api.PortList](t, p.Want(200, "acme-s1", "GET", p.base+"/ports", ""))
			want := []string{"127.0.0.1", "127.0.0.2", "::1", "0.0.0.0", "::"}
			if len(list.Items) != len(want) {
				t.Fatalf("%+v", list)
			}
			for i, l := range list.Items {
				if l.Port != 8101+i || l.Address != want[i] || l.PID < 2 || l.PID != list.Items[0].PID || !strings.HasPrefix(l.Command, "perl -MIO::Socket::IP -e use IO::Select") {
					t.Errorf("%+v", l)
				}
			}
			auth := []string{"Authorization", "Bearer " + p.Secret("acme-s1")}
			for port, text := range map[string]string{"8101": "127.0.0.1:8101", "8103": "::1:8103", "8104": "0.0.0.0:8104", "8105": ":::8105"} {
				if status, body, _ := p.ask("GET", "", p.base+"/ports/"+port+"/", "", auth...); status != 200 || body != text {
					t.Errorf("%s: %d %s", port, status, body)
				}
			}
			if status, body, _ := p.ask("GET", "", p.base+"/ports/8102/", "", auth...); status != 503 || !strings.Contains(body, "listens at 127.0.0.1, ::1 or all addresses") {
				t.Errorf("another address: %d %s", status, body)
			}
			for _, other := range []string{"acme-s2", "evil"} {
				for _, path := range []string{"", "/8101/", "/8101"} {
					p.Want(404, other, "GET", p.base+"/ports"+path, "")
				}
				p.Want(404, other, "POST", p.base+"/shares", `{"port":8101}`)
				p.Want(404, other, "GET", p.base+"/shares", "")
			}
			end()
			if list := served.JSON[api.PortList](t, p.Want(200, "acme-s1", "GET", p.base+"/ports", "")); len(list.Items) != 0 {
				t.Errorf("a program that has ended is listed: %+v", list)
			}
			if status, _, _ := p.ask("GET", "", p.base+"/ports/8101/", "", auth...); status != 503 {
				t.Errorf("a program that has ended is reached: %d", status)
			}
		})
	}
}

// TestPortsBounded holds how many connections to one sandbox are open at a time, in
// all ways together, and that each of them leaves room for another when it ends.
func TestPortsBounded(t *testing.T) {
	t.Parallel()
	p := newPortsRig(t, "local", "127.0.0.1") // with room for 4
	made, ctx := p.link(`{"port":%s}`), t.Context()
	first, second := p.tunnel(made), p.tunnel(made)
	defer second.Close()
	events, cancel := context.WithCancel(ctx)
	defer cancel()
	if line, err := p.open(events, "GET", made, "/events").ReadString('\n'); line != "data: 0\n" {
		t.Fatal(line, err)
	}
	ws, _, err := websocket.Dial(ctx, "http://daemon"+p.base+"/ports/"+p.port, &websocket.DialOptions{HTTPClient: p.web, HTTPHeader: http.Header{"Authorization": {"Bearer " + p.Secret("acme-s1")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	auth := []string{"Authorization", "Bearer " + p.Secret("acme-s1")}
	byPath := func() int {
		status, body, _ := p.ask("GET", "", p.base+"/ports/"+p.port+"/", "", auth...)
		if status != 200 && (status != 429 || !strings.Contains(body, "QUOTA.BUDGET_EXCEEDED") || !strings.Contains(body, "close one of them")) {
			t.Errorf("%d %s", status, body)
		}
		return status
	}
	if status, _, _ := p.ask("GET", made.Share.Host, "/", "", api.HeaderShare, made.Secret); status != 429 || byPath() != 429 {
		t.Errorf("a fifth connection by link: %d", status)
	}
	p.Want(429, "acme-s1", "GET", p.base+"/ports/"+p.port, "", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
	if list := served.JSON[api.PortList](t, p.Want(200, "acme-s1", "GET", p.base+"/ports", "")); list.Items == nil {
		t.Error("the list needs room")
	}
	first.Close()
	testenv.Until(t, "there is room for a fifth connection after the first has ended", func() bool { return byPath() == 200 })
	var again net.Conn
	testenv.Until(t, "there is room again after that request", func() bool { // which is answered before its room is free
		again, _ = p.connect(made)
		return again != nil
	})
	defer again.Close()
	if byPath() != 429 {
		t.Error("the room of an ended connection is given twice")
	}
	cancel()
	testenv.Until(t, "there is room after a request has ended", func() bool { return byPath() == 200 })
}

// TestPortsOfEndedSandbox holds that a sandbox is in use while connections are open,
// that they end with it, however that ends, and that a link does not reach another one of its name.
func TestPortsOfEndedSandbox(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wall string
		end  func(p *portsRig)
	}{
		"removed":        {"docker", (*portsRig).remove},
		"killed":         {"docker", (*portsRig).kill},
		"removed, local": {"local", (*portsRig).remove},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "removed" {
				testenv.Exhaustive(t, "as in the local sandbox")
			}
			p := newPortsRig(t, c.wall, "127.0.0.1")
			made := p.link(`{"port":%s}`)
			ctx, done := context.WithTimeout(t.Context(), time.Minute)
			defer done()
			raw := p.tunnel(made)
			defer raw.Close()
			events := p.open(ctx, "GET", made, "/events")
			if line, err := events.ReadString('\n'); line != "data: 0\n" {
				t.Fatal(line, err)
			}
			if out := p.Manager.Recreate(ctx, p.rows()); len(out.Removed) > 0 || out.Failed[0].Code != sandbox.CodeBusy {
				t.Errorf("a sandbox with connections is made anew: %+v", out)
			}
			if status, _, _ := p.ask("GET", made.Share.Host, "/", "", api.HeaderShare, made.Secret); status != 200 {
				t.Errorf("%d", status)
			}
			c.end(p)
			_ = raw.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := io.Copy(io.Discard, raw); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the tunnel goes on")
			}
			if _, err := io.Copy(io.Discard, events); ctx.Err() != nil {
				t.Errorf("the stream of events goes on: %v", err)
			}
			status, body, _ := p.ask("GET", made.Share.Host, "/", "", api.HeaderShare, made.Secret)
			if status != 401 && status != 404 && status != 503 {
				t.Errorf("%d %s", status, body)
			}
			if name == "killed" {
				return // it is the same sandbox, and starts with its next use
			}
			if p.Ready("acme", "s1") != p.name {
				t.Fatal("the new sandbox has another name")
			}
			if status, body, _ := p.ask("GET", made.Share.Host, "/", "", api.HeaderShare, made.Secret); status != 401 && status != 404 {
				t.Errorf("the link reaches another sandbox of the name: %d %s", status, body)
			}
		})
	}
}

// kill ends the container as the kernel does when memory is short.
func (p *portsRig) kill() {
	if out, err := exec.Command("docker", "kill", p.name).CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
}

// rows are the sandbox.
func (p *portsRig) rows() []manager.Row {
	rows, err := p.Manager.Select(p.t.Context(), "acme", manager.Selector{Session: "s1"}, false)
	if err != nil || len(rows) != 1 {
		p.t.Fatal(rows, err)
	}
	return rows
}

func (p *portsRig) remove() {
	if err := p.Manager.Remove(p.t.Context(), p.rows()[0], manager.RemoveOptions{Force: true}); err != nil {
		p.t.Fatal(err)
	}
}
