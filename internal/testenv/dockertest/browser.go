package dockertest

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// BrowserImage is the project's own image of a browser; the Makefile makes it
// before tests.
const BrowserImage = "sandbox-browser:bookworm-slim"

// BrowserOptions say what kind of browser a test wants.
type BrowserOptions struct {
	Change func(*browser.Settings) // of the settings; nil leaves the defaults
	Spec   func(*sandbox.Spec)     // of the container; nil leaves it
	Proxy  func(*Rig) proxy.Server // makes what leads to hosts, as far as rules let; nil reaches nothing
	Idle   bool                    // the browser is not started
}

// A Browser is a browser's container with everything around it. It implements
// [browser.Container] and goes with its test.
type Browser struct {
	sandbox.Sandbox
	Wall *Rig
	Spec sandbox.Spec
	Dir  string // the workspace

	t        testing.TB
	settings browser.Settings
	proxy    proxy.Server // nil where nothing can be reached
	mu       sync.Mutex
	ends     []func()
}

var _ browser.Container = (*Browser)(nil)

// browserDefaults returns the default settings of a browser.
func browserDefaults() browser.Settings {
	return browser.Settings{
		CDPPort: 9222, VNCPort: 5900, NoVNCPort: 6080, Headless: true, Schemes: []string{"http", "https"}, StartTimeout: time.Minute,
		Limits: browser.Limits{
			Navigation: 30 * time.Second, Navigations: 200, Redirects: 10, PageBytes: 128 << 20,
			ScreenshotPixels: 25_000_000, ScreenshotsPerMinute: 60, TransferBytes: 64 << 20,
		},
	}
}

// OpenBrowser skips or fails the test where no browser can be had.
func OpenBrowser(t testing.TB, o BrowserOptions) *Browser {
	t.Helper()
	testenv.Require(t, "browser")
	w := New(t)
	c := &Browser{Wall: w, t: t, settings: browserDefaults(), Dir: t.TempDir()}
	if o.Change != nil {
		o.Change(&c.settings)
	}
	if o.Proxy != nil {
		c.proxy = o.Proxy(w)
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
func (c *Browser) shape() {
	s := &c.Spec
	s.Kind, s.Image, s.ImageID, s.Workdir = sandbox.KindBrowser, BrowserImage, BrowserImage, sandbox.HomeDir
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

// Name implements [browser.Container].
func (c *Browser) Name() string { return c.Spec.Name }

// Settings implements [browser.Container].
func (c *Browser) Settings() browser.Settings { return c.settings }

// Dial implements [browser.Container].
func (c *Browser) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return c.Sandbox.(sandbox.Dialer).Dial(ctx, network, addr)
}

// OpenEgress implements [browser.Container].
func (c *Browser) OpenEgress(ctx context.Context, port int) (netip.AddrPort, func(), bool, error) {
	rules := c.settings.Rules
	if c.proxy == nil || !rules.AllowPublic && len(rules.AllowedDomains) == 0 {
		return netip.AddrPort{}, func() {}, false, nil
	}
	rules.HTTPProxyPort = port
	w, err := c.proxy.Open(ctx, c.Sandbox.(sandbox.Listener), proxy.Options{Sandbox: c.Name(), Owner: c.Spec.Owner, Rules: rules, Fixed: true})
	switch {
	case err != nil && strings.Contains(err.Error(), syscall.EADDRINUSE.Error()):
		return netip.AddrPort{}, nil, false, &sandbox.Error{Code: sandbox.CodeBusy, Op: "open the way out", Message: "the port is taken", Err: err}
	case err != nil:
		return netip.AddrPort{}, nil, false, err
	}
	caller := w.Command("test", proxy.Command{Program: "chromium"})
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
func (c *Browser) Workspace(context.Context) (browser.Workspace, error) {
	return browser.Workspace{Dir: c.Dir, UID: c.Spec.UID, GID: c.Spec.GID}, nil
}

// Close implements [browser.Container].
func (c *Browser) Close() error {
	c.mu.Lock()
	ends := c.ends
	c.ends = nil
	c.mu.Unlock()
	for _, end := range ends {
		end()
	}
	return c.Sandbox.Close()
}
