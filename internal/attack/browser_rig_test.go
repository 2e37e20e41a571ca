package attack_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/provider"
)

// patience bounds every wait.
const patience = time.Minute

// The hosts of the tests: the attacker's pages, and an allowed host for the
// controls.
const (
	evil    = "evil.test"
	allowed = "allowed.test"
)

// A rig is a Desk on the real engine, whose browsers reach hosts of the test
// through the real egress proxy, and a trap on the host's loopback that must
// not be reached.
type rig struct {
	*display.Display
	t    testing.TB
	m    *manager.Manager
	net  *testenv.Internet
	trap *testenv.Trap

	mu     sync.Mutex
	events []egress.Event
	dialed []netip.AddrPort
}

// on returns a rig with the settings of a browser and others of a sandbox, as
// JSON without braces; either may be empty. Only these and requests allow
// hosts.
func on(t testing.TB, browser, rest string) *rig {
	t.Helper()
	testenv.Require(t, "browser")
	r := &rig{t: t, net: testenv.NewInternet(t), trap: testenv.NewTrap(t, "127.0.0.1")}
	r.m = r.newManager(dockertest.New(t), settings(browser, rest))
	log := logrus.New()
	log.SetOutput(io.Discard)
	r.Display = display.New(manager.BrowserBackend(r.m), log)
	t.Cleanup(func() { r.Display.Close() })
	return r
}

func settings(browser, rest string) string {
	if browser != "" {
		browser = "," + browser
	}
	if rest != "" {
		rest = "," + rest
	}
	return `{"agents":{"defaults":{"sandbox":{"browser":{"enabled":true,"autoStartTimeout":"60s"` + browser + `}` + rest + `}}}}`
}

func (r *rig) newManager(w *dockertest.Rig, text string) *manager.Manager {
	t := r.t
	t.Helper()
	parsed, err := config.Parse("test", []byte(text))
	must(t, err)
	set, err := provider.New(w.P)
	must(t, err)
	log := logrus.New()
	log.SetOutput(io.Discard)
	ev, err := evidence.Open(w.State.Evidence(), evidence.Options{})
	must(t, err)
	vi, err := violation.Open(w.State.Violations(), violation.Options{})
	must(t, err)
	rec, err := egress.NewRecorder(egress.RecorderOptions{Evidence: ev, Violations: vi, Log: log})
	must(t, err)
	plane := egress.New(egress.Options{
		Dialer: egress.NewDialer(egress.DialerOptions{Resolver: r.net.Names, Dial: r.dial}),
		Record: func(e egress.Event) { r.note(e); rec.Record(e) }, Decide: rec.Decide, Roots: r.net.Authority.Pool,
	})
	api, err := container.Dial()
	must(t, err)
	m, err := manager.New(manager.Options{
		Settings: parsed, State: w.State, Providers: set, Violations: vi,
		Images: images.Source{Store: images.New(api, images.Config{LockDir: filepath.Join(w.State.Locks(), "images")})},
		Host: manager.Host{CPUs: runtime.NumCPU(), Memory: 8 << 30, Sensitive: []string{w.State.Path(), "/run/docker.sock"},
			Guest: sync.OnceValues(func() (sandbox.GuestRef, error) { return w.State.InstallGuest(testenv.Guest(t)) })},
		Log: log,
		Out: func() (proxy.Server, error) {
			return &egress.Server{Plane: plane, Recorder: rec, LookupEnv: os.LookupEnv, Authority: func() (*egress.Authority, error) { return egress.Open(w.State.Egress()) }}, nil
		},
	})
	must(t, err)
	t.Cleanup(func() {
		m.Close()
		plane.Close()
		rec.Close()
		ev.Close()
		vi.Close()
		api.Close()
	})
	return m
}

// note records the proxy's decisions. Every allowed host has to be one of the
// test, at every moment of every test.
func (r *rig) note(e egress.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	port := int(e.Port)
	if e.Phase == egress.PhaseDecision && e.Verdict == policy.Allow && port != r.net.Port("http") && port != r.net.Port("https") {
		r.t.Errorf("the proxy lets %s:%d through: %+v", e.Host, port, e)
	}
}

// dial connects for the proxy. All public addresses belong to the internet of
// the test.
func (r *rig) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	r.mu.Lock()
	r.dialed = append(r.dialed, to)
	r.mu.Unlock()
	at := to
	if to.Addr() == somewhere {
		at = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), to.Port())
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	return meant{c, net.TCPAddrFromAddrPort(to)}, nil
}

// A meant connection reports the intended address.
type meant struct {
	net.Conn
	to net.Addr
}

// RemoteAddr implements [net.Conn].
func (m meant) RemoteAddr() net.Addr { return m.to }

// reached returns the addresses that the proxy has dialled.
func (r *rig) reached() []netip.AddrPort {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.dialed)
}

// refusals returns the proxy's refusals.
func (r *rig) refusals() (out []egress.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Phase == egress.PhaseDecision && e.Verdict == policy.Deny {
			out = append(out, e)
		}
	}
	return out
}

// refused returns the "host:port" that the proxy has refused so far.
func (r *rig) refused() map[string]int {
	out := map[string]int{}
	for _, e := range r.refusals() {
		out[e.Host+":"+strconv.Itoa(int(e.Port))]++
	}
	return out
}

// of returns a request of a scope that may reach the hosts of the names.
func (r *rig) of(scope string, names ...string) display.Request {
	req := display.Request{Who: config.Who{Agent: "main", Session: scope}}
	if len(names) > 0 {
		req.Flags = &config.SandboxSettings{Network: &config.NetworkSettings{AllowedDomains: r.net.Allowed(names...)}}
	}
	return req
}

// session opens a session, which ends with the test.
func (r *rig) session(t testing.TB, req display.Request, write bool) browser.Session {
	t.Helper()
	s, err := r.Session(patient(t), req, browser.Rights{Write: write})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// inside opens the container of a browser that runs.
func (r *rig) inside(t testing.TB, req display.Request) *manager.Browser {
	t.Helper()
	b, err := r.m.OpenBrowser(patient(t), manager.BrowserRequest{Who: req.Who, Flags: req.Flags, MustExist: true})
	must(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// workspace is the folder of the host that is the workspace of a scope.
func (r *rig) workspace(t testing.TB, req display.Request) string {
	t.Helper()
	w, err := r.m.BrowserWorkspace(patient(t), req.Who, req.Flags)
	must(t, err)
	return w.Dir
}

// sh runs a line of the shell in the container of a browser.
func sh(t testing.TB, c browser.Container, line string) string {
	t.Helper()
	var out strings.Builder
	p, err := c.Start(patient(t), sandbox.Command{Args: []string{"sh", "-c", line}, Dir: "/", Stdout: &out, Stderr: &out})
	must(t, err)
	if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		t.Fatalf("%s: status %d, %v: %s", line, exit.Code, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

func patient(t testing.TB) context.Context {
	ctx, done := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(done)
	return ctx
}

// await polls until so returns true.
func await(t testing.TB, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !so(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("it does not happen that %s", what)
		}
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
