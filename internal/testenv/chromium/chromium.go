// Package chromium brings up browsers in containers of their own for tests.
package chromium

import (
	"context"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/egress/outlet"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// Image is the project's own image of a browser; the Makefile makes it before
// tests.
const Image = "sandbox-browser:bookworm-slim"

// Options say what kind of browser a test wants.
type Options struct {
	Change func(*browser.Settings) // of the settings; nil leaves the defaults
	Spec   func(*sandbox.Spec)     // of the container; nil leaves it
	Net    *testenv.Internet       // what can be reached, as far as rules let; nil is nothing
	Idle   bool                    // the browser is not started
}

// A Container is a browser's container with everything around it. It
// implements [browser.Container] and goes with its test.
type Container struct {
	sandbox.Sandbox
	Wall *dockertest.Rig
	Spec sandbox.Spec
	Dir  string // the workspace

	t        testing.TB
	settings browser.Settings
	outlet   *egress.Server // nil where nothing can be reached
	mu       sync.Mutex
	ends     []func()
}

var _ browser.Container = (*Container)(nil)

// Defaults returns the default settings of a browser.
func Defaults() browser.Settings {
	return browser.Settings{
		CDPPort: 9222, VNCPort: 5900, NoVNCPort: 6080, Headless: true, Schemes: []string{"http", "https"}, StartTimeout: time.Minute,
		Limits: browser.Limits{
			Navigation: 30 * time.Second, Navigations: 200, Redirects: 10, PageBytes: 128 << 20,
			ScreenshotPixels: 25_000_000, ScreenshotsPerMinute: 60, TransferBytes: 64 << 20,
		},
	}
}

// Open skips or fails the test where no browser can be had.
func Open(t testing.TB, o Options) *Container {
	t.Helper()
	testenv.Require(t, "browser")
	w := dockertest.New(t)
	c := &Container{Wall: w, t: t, settings: Defaults(), Dir: t.TempDir()}
	if o.Change != nil {
		o.Change(&c.settings)
	}
	if o.Net != nil {
		c.outlet = newProxy(t, w, o.Net)
	}
	c.Spec = w.Spec("browser")
	c.shape()
	if o.Spec != nil {
		o.Spec(&c.Spec)
	}
	must(t, os.Chown(c.Dir, c.Spec.UID, c.Spec.GID))
	c.Sandbox = w.Create(c.Spec)
	t.Cleanup(func() { c.Close() })
	if !o.Idle {
		ctx, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		_, _, err := browser.Launch(ctx, c)
		must(t, err)
	}
	return c
}

// shape makes the Spec of a sandbox that of a browser.
func (c *Container) shape() {
	s := &c.Spec
	s.Kind, s.Image, s.ImageID, s.Workdir = sandbox.KindBrowser, Image, Image, sandbox.HomeDir
	var mounts []sandbox.Mount
	for _, m := range s.Mounts {
		if m.Role != sandbox.RoleWorkspace {
			mounts = append(mounts, m)
		}
	}
	s.Mounts = mounts
	s.Tmpfs = []sandbox.Tmpfs{
		{Target: "/tmp", Size: 400 << 20, Mode: 0o1777},
		{Target: sandbox.HomeDir, Size: 200 << 20, Mode: 0o700, Owned: true},
		{Target: "/var/tmp", Size: 100 << 20, Mode: 0o1777},
		{Target: "/run", Size: 50 << 20, Mode: 0o755, Owned: true},
	}
	s.Security.Seccomp = seccomp.Browser()
	s.Resources.Memory, s.Resources.MemorySwap, s.Resources.NanoCPUs = 2<<30, 2<<30, 2e9
	s.Resources.PIDs, s.Resources.ShmSize = 512, 256<<20
	for k, v := range c.settings.Environment() {
		s.Env[k] = v
	}
}

func newProxy(t testing.TB, w *dockertest.Rig, n *testenv.Internet) *egress.Server {
	t.Helper()
	ev, err := evidence.Open(w.State.Evidence(), evidence.Options{})
	must(t, err)
	vi, err := violation.Open(w.State.Violations(), violation.Options{})
	must(t, err)
	log := logrus.New()
	log.SetOutput(io.Discard)
	rec, err := egress.NewRecorder(egress.RecorderOptions{Evidence: ev, Violations: vi, Log: log})
	must(t, err)
	plane := egress.New(egress.Options{Reach: egress.NewDialer(egress.DialerOptions{Resolver: n.Names}), Record: rec.Record, Decide: rec.Decide, Roots: n.Authority.Pool})
	t.Cleanup(func() {
		plane.Close()
		rec.Close()
		ev.Close()
		vi.Close()
	})
	return &egress.Server{
		Plane: plane, Recorder: rec, LookupEnv: func(string) (string, bool) { return "", false },
		Authority: func() (*egress.Authority, error) { return egress.Open(w.State.Egress()) },
	}
}

// Name implements [browser.Container].
func (c *Container) Name() string { return c.Spec.Name }

// Settings implements [browser.Container].
func (c *Container) Settings() browser.Settings { return c.settings }

// Dial implements [browser.Container].
func (c *Container) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return c.Sandbox.(sandbox.Dialer).Dial(ctx, network, addr)
}

// Way implements [browser.Container].
func (c *Container) Way(ctx context.Context, port int) (netip.AddrPort, func(), bool, error) {
	rules := c.settings.Rules
	if c.outlet == nil || !rules.AllowPublic && len(rules.AllowedDomains) == 0 {
		return netip.AddrPort{}, func() {}, false, nil
	}
	rules.HTTPProxyPort = port
	w, err := c.outlet.Open(ctx, c.Sandbox.(sandbox.Listener), outlet.Options{Sandbox: c.Name(), Owner: c.Spec.Owner, Rules: rules, Fixed: true})
	switch {
	case err != nil && strings.Contains(err.Error(), syscall.EADDRINUSE.Error()):
		return netip.AddrPort{}, nil, false, &sandbox.Error{Code: sandbox.CodeBusy, Op: "open the way out", Message: "the port is taken", Err: err}
	case err != nil:
		return netip.AddrPort{}, nil, false, err
	}
	caller := w.Command("test", outlet.Command{Program: "chromium"})
	defer caller.End()
	u, err := url.Parse(caller.Env()["HTTP_PROXY"])
	if err != nil {
		return netip.AddrPort{}, nil, false, err
	}
	end := sync.OnceFunc(func() { w.Close() })
	c.mu.Lock()
	c.ends = append(c.ends, end)
	c.mu.Unlock()
	return netip.MustParseAddrPort(u.Host), end, true, nil
}

// Workspace implements [browser.Container].
func (c *Container) Workspace(context.Context) (browser.Workspace, error) {
	return browser.Workspace{Dir: c.Dir, UID: c.Spec.UID, GID: c.Spec.GID}, nil
}

// Close implements [browser.Container].
func (c *Container) Close() error {
	c.mu.Lock()
	ends := c.ends
	c.ends = nil
	c.mu.Unlock()
	for _, end := range ends {
		end()
	}
	return c.Sandbox.Close()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
