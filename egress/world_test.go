package egress_test

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// patience bounds every wait of a test.
const patience = testenv.Patience

// names resolves the names of a test, and counts lookups.
type names struct {
	mu    sync.Mutex
	addrs map[string][]string // by name without the dot at its end; the answers in turn
	asked map[string]int
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := strings.TrimSuffix(host, ".")
	turn := n.asked[name]
	n.asked[name]++
	answers, ok := n.addrs[name]
	if !ok {
		if !strings.HasSuffix(name, ".test") {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		answers = []string{"127.0.0.1"}
	}
	return []netip.Addr{netip.MustParseAddr(answers[min(turn, len(answers)-1)])}, nil
}

func (n *names) count(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[name]
}

// A world is a proxy with one sandbox, and what it recorded.
type world struct {
	t       testing.TB
	plane   *egress.Plane
	session *egress.Session
	addr    string
	names   *names

	mu        sync.Mutex
	change    *sync.Cond
	events    []egress.Event
	permitted string // a host
}

func (w *world) permit(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.permitted = host
}

func (w *world) permits(host string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return host == w.permitted
}

// Connections of an unqueued sandbox are never queued, those of an impatient
// one only for a short time.
const unqueued, impatient = "unqueued", "impatient"

// open returns a world. Rules may name hosts below .test without or with the
// port of a server; the loopback address of that port has to be allowed too.
func open(t testing.TB, o network.Options, change ...func(*egress.Options, *egress.SessionOptions)) *world {
	t.Helper()
	return openWithin(t, 0, o, change...)
}

// openWithin is open with another time limit for heads; 0 is more than any of
// them takes.
func openWithin(t testing.TB, head time.Duration, o network.Options, change ...func(*egress.Options, *egress.SessionOptions)) *world {
	t.Helper()
	w := &world{t: t, names: &names{addrs: map[string][]string{}, asked: map[string]int{}}}
	w.change = sync.NewCond(&w.mu)
	p, err := network.New(o)
	if err != nil {
		t.Fatal(err)
	}
	po := egress.Options{Dialer: egress.NewDialer(egress.DialerOptions{Resolver: w.names}), Record: w.record}
	wo := egress.SessionOptions{Sandbox: "box", Policy: p}
	for _, c := range change {
		c(&po, &wo)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.plane = egress.New(po)
	w.plane.SetHeadTime(cmp.Or(head, patience))
	if wo.Sandbox == unqueued {
		w.plane.SetQueue(0, patience)
	} else if wo.Sandbox == impatient {
		w.plane.SetQueue(10, 20*time.Millisecond)
	}
	if w.session, err = w.plane.Open(l, wo); err != nil {
		t.Fatal(err)
	}
	w.addr = l.Addr().String()
	t.Cleanup(func() { w.plane.Close() })
	return w
}

func (w *world) record(e egress.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	w.change.Broadcast()
}

// wait returns the events once there are n of them that fit.
func (w *world) wait(n int, fits func(egress.Event) bool) []egress.Event {
	w.t.Helper()
	timer := time.AfterFunc(patience, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.change.Broadcast()
	})
	defer timer.Stop()
	until := time.Now().Add(patience)
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		var out []egress.Event
		for _, e := range w.events {
			if fits(e) {
				out = append(out, e)
			}
		}
		if len(out) >= n {
			return out
		}
		if time.Now().After(until) {
			w.t.Fatalf("%d events fit, want %d; all: %+v", len(out), n, w.events)
		}
		w.change.Wait()
	}
}

func ends(e egress.Event) bool      { return e.Phase == egress.PhaseEnd }
func decisions(e egress.Event) bool { return e.Phase == egress.PhaseDecision }
func refusals(e egress.Event) bool {
	return e.Phase == egress.PhaseDecision && e.Verdict == policy.Deny
}

// dial connects to the proxy as a program inside does.
func (w *world) dial() net.Conn {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patience))
	w.t.Cleanup(func() { conn.Close() })
	return conn
}

// client returns an HTTP client that uses the proxy with the given
// credentials.
func (w *world) client(user *url.Userinfo) *http.Client {
	proxy := &url.URL{Scheme: "http", Host: w.addr, User: user}
	tr := &http.Transport{Proxy: http.ProxyURL(proxy)}
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// raw sends bytes to the proxy and reads one answer with its body.
func (w *world) raw(text string) (*http.Response, string) {
	w.t.Helper()
	conn := w.dial()
	io.WriteString(conn, text)
	method, _, _ := strings.Cut(text, " ")
	return w.answer(bufio.NewReader(conn), method)
}

func (w *world) answer(br *bufio.Reader, method string) (*http.Response, string) {
	w.t.Helper()
	resp, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		w.t.Fatalf("no answer: %v", err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatalf("half an answer: %v", err)
	}
	return resp, string(b)
}

// serve starts a server of HTTP and returns its port.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return portOf(s.Listener.Addr())
}

func portOf(a net.Addr) string { return strconv.Itoa(a.(*net.TCPAddr).Port) }

// allow are settings that let the rules pass, and loopback at the port.
func allow(port string, rules ...string) network.Options {
	return network.Options{Allowed: append(rules, "127.0.0.1:"+port)}
}
