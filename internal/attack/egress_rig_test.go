package attack

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/egress/secret"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

const (
	// patience bounds every wait.
	patience = 2 * time.Minute
	// value is the secret of the rigs that have one.
	value = "the-very-secret-value-1234567890"
	// trapAddr is the address that must not be reached: no rule names it.
	trapAddr = "127.0.0.2"
)

// A rig is a proxy with one sandbox, the hosts that it may reach, a trap that
// it must not reach, and the recorded events.
type egressRig struct {
	t       testing.TB
	net     *testenv.Internet
	trap    *testenv.Trap
	plane   *egress.Plane
	session *egress.Session
	addr    string
	ours    *x509.CertPool // of the proxy's own authority, with a secret
	standIn string

	mu     sync.Mutex
	change *sync.Cond
	events []egress.Event
	dialed int64
}

// A setup changes the defaults of a rig.
type setup struct {
	rules   []string // more that are allowed
	denied  []string
	secret  []string // hosts that a secret is bound to, at the port of TLS unless they name another
	usual   bool     // which is 443 then
	framed  bool     // connections from inside are framed and not TCP
	options network.Options
	change  func(*egress.Options, *egress.SessionOptions)
}

// newRig opens a proxy. It allows the names of hosts of the test except
// internet.Other, and the loopback address of their ports alone.
func egressNewRig(t testing.TB, s setup) *egressRig {
	t.Helper()
	r := &egressRig{t: t, net: testenv.NewInternet(t), trap: testenv.NewTrap(t, trapAddr)}
	r.change = sync.NewCond(&r.mu)
	r.net.Names.Set("trap.test", addrs(trapAddr))
	o := s.options
	o.Allowed = append(r.net.Allowed(testenv.Files, testenv.Echo, testenv.Redirect, testenv.Upgrade, testenv.Slow, "trap.test", "*.files.test"), s.rules...)
	o.Denied = append(o.Denied, s.denied...)
	p, err := network.New(o)
	must(t, err)
	po := egress.Options{Dialer: egress.NewDialer(egress.DialerOptions{Resolver: r.net.Names}), Record: r.record, Roots: r.net.Authority.Pool}
	wo := egress.SessionOptions{Sandbox: "box", Policy: p}
	if len(s.secret) > 0 {
		r.bind(&wo, s)
	}
	if s.change != nil {
		s.change(&po, &wo)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	r.addr = l.Addr().String()
	if s.framed {
		l = framed{l}
	}
	r.plane = egress.New(po)
	t.Cleanup(func() { r.holds(); r.plane.Close() })
	r.session, err = r.plane.Open(l, wo)
	must(t, err)
	if wo.Secrets != nil {
		r.standIn = wo.Secrets.Env()["TOKEN"]
	}
	return r
}

// bind creates a secret TOKEN for hosts.
func (r *egressRig) bind(o *egress.SessionOptions, s setup) {
	r.t.Helper()
	hosts := slices.Clone(s.secret)
	for i, h := range hosts {
		if !strings.Contains(h, ":") && !s.usual {
			hosts[i] = r.net.At("https", h)
		}
	}
	a, err := egress.Open(r.t.TempDir())
	must(r.t, err)
	o.Secrets, err = secret.NewSet(r.t.Context(), []secret.Binding{{Name: "TOKEN", Hosts: hosts, From: secret.Source{Env: "TOKEN"}}},
		secret.Deps{LookupEnv: func(string) (string, bool) { return value, true }})
	must(r.t, err)
	r.t.Cleanup(func() { o.Secrets.Close() })
	o.Authority, r.ours = a, x509.NewCertPool()
	r.ours.AddCert(a.Certificate())
}

func (r *egressRig) record(e egress.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	r.change.Broadcast()
}

// refusals waits until n refusals came after the first skip, and returns them.
func (r *egressRig) refusals(skip, n int) []egress.Event {
	r.t.Helper()
	timer := time.AfterFunc(patience, r.change.Broadcast)
	defer timer.Stop()
	until := time.Now().Add(patience)
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if out := r.refused(); len(out) >= skip+n {
			return out[skip:]
		}
		if !time.Now().Before(until) {
			r.t.Fatalf("there are not %d refusals after %d; the last events: %+v", n, skip, r.events[max(0, len(r.events)-3):])
		}
		r.change.Wait()
	}
}

// refused returns all refusals. The lock is held.
func (r *egressRig) refused() []egress.Event {
	var out []egress.Event
	for _, e := range r.events {
		if e.Phase == egress.PhaseDecision && e.Verdict == policy.Deny {
			out = append(out, e)
		}
	}
	return out
}

// count returns how many refusals there are.
func (r *egressRig) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.refused())
}

// holds checks the invariants: no forbidden host was reached or name looked
// up, nothing unprintable or secret was recorded, and nothing panicked.
func (r *egressRig) holds() {
	r.t.Helper()
	if n := r.trap.Hits(); n != 0 {
		r.t.Errorf("%d connections reached the trap", n)
	}
	if n := r.net.Hits(testenv.Other); n != 0 {
		r.t.Errorf("%d requests reached a host that no rule names", n)
	}
	for _, name := range r.net.Names.Asked() {
		if !strings.HasSuffix(name, ".test") || name == testenv.Other || strings.HasSuffix(name, "."+testenv.Other) {
			r.t.Errorf("%q was looked up", name)
		}
	}
	if n := r.plane.Counters().Panics; n != 0 {
		r.t.Errorf("%d faults", n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		text := fmt.Sprintf("%+v", e)
		if b, _ := json.Marshal(e); strings.Contains(string(b)+text, value) {
			r.t.Errorf("the secret is on record: %s", b)
		}
		for _, s := range []string{e.Caller, e.Host, e.Path, e.Method, e.Rule, e.Message, e.Hint, e.Error} {
			if at := strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c > '~' }); at >= 0 {
				r.t.Errorf("an event has more than printable ASCII: %q", s)
			}
		}
	}
}

// dial connects to the proxy as a program inside does.
func (r *egressRig) dial() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	must(r.t, err)
	r.mu.Lock()
	r.dialed++
	r.mu.Unlock()
	conn.SetDeadline(time.Now().Add(patience))
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

// A talk is a connection on which requests are sent.
type talk struct {
	net.Conn
	br *bufio.Reader
}

func newTalk(c net.Conn) *talk { return &talk{c, bufio.NewReader(c)} }

// answer reads one answer. Status is 0 when there was none.
func (k *talk) answer(method string) (status int, body string, closes bool) {
	resp, err := http.ReadResponse(k.br, &http.Request{Method: method})
	if err != nil {
		return 0, err.Error(), true
	}
	if method == http.MethodConnect && resp.StatusCode == 200 {
		return 200, "", false
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error(), true
	}
	return resp.StatusCode, string(b), resp.Close
}

// connect opens a tunnel by CONNECT.
func (r *egressRig) connect(target string) *talk {
	r.t.Helper()
	k := newTalk(r.dial())
	fmt.Fprintf(k, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	if status, body, _ := k.answer("CONNECT"); status != 200 {
		r.t.Fatalf("CONNECT %s: %d %s", target, status, body)
	}
	return k
}

// socks opens a tunnel by SOCKS5 and returns the reply.
func (r *egressRig) socks(host string, port int) (*talk, byte) {
	r.t.Helper()
	k := newTalk(r.dial())
	k.Write(append(append([]byte{5, 1, 0, 5, 1, 0, 3, byte(len(host))}, host...), byte(port>>8), byte(port)))
	var reply [12]byte
	if _, err := io.ReadFull(k.br, reply[:]); err != nil {
		r.t.Fatalf("SOCKS to %q: %v", host, err)
	}
	return k, reply[3]
}

// intercepted opens a tunnel to a host with a secret, and TLS in it.
func (r *egressRig) intercepted(host string) *talk {
	r.t.Helper()
	k := r.connect(r.net.At("https", host))
	over := tls.Client(k.Conn, &tls.Config{ServerName: host, RootCAs: r.ours})
	must(r.t, over.Handshake())
	return newTalk(over)
}

// raw starts a server of the test that calls serve for each connection, and
// returns its port, which has to be named by a rule.
func raw(t testing.TB, serve func(net.Conn)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(patience))
			t.Cleanup(func() { c.Close() })
			all.Go(func() { defer c.Close(); serve(c) })
		}
	})
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

func itoa(n int) string { return strconv.Itoa(n) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
