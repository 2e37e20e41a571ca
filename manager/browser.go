package manager

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress/outlet"
	"github.com/bulkhead-dev/sandbox/gate"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// A BrowserRequest says whose browser is wanted.
type BrowserRequest struct {
	Who   config.Who
	Flags *config.SandboxSettings // settings of this call alone; may be nil
	Tool  string                  // tool of an agent that this request is; empty where a person makes it

	MustExist bool // fail with CodeNotFound rather than create
}

// A Browser is the open container of a browser, under a lease. It implements
// [browser.Container].
type Browser struct {
	m        *Manager
	live     *live
	res      config.Resolved // of the scope, not of the container
	settings browser.Settings

	once sync.Once
	mu   sync.Mutex
	ends []func() // of the ways that are open
	over bool
}

var _ browser.Container = (*Browser)(nil)

// OpenBrowser brings the container up in which the browser of a scope runs, as
// Run does with a sandbox; the browser in it is the caller's to start. It is
// leased until it is closed.
//
// Where settings have browser.enabled off it is [sandbox.CodeCapabilityBlocked],
// with a provider that has no containers [sandbox.CodeUnsupported].
func (m *Manager) OpenBrowser(ctx context.Context, req BrowserRequest) (*Browser, error) {
	settings := m.settings.Load()
	res, err := config.Resolve(settings, req.Who, req.Flags)
	if err != nil {
		return nil, err
	}
	if !res.Browser.Enabled {
		return nil, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "open browser", Field: "browser.enabled",
			Message: "the settings have no browser for agent " + res.Agent, Hint: "set browser.enabled to true"}
	}
	if req.Tool != "" {
		if _, err := m.judge(ctx, settings, res, Request{Who: req.Who, Flags: req.Flags, Tool: req.Tool}, gate.Call{Tool: req.Tool}); err != nil {
			return nil, err
		}
	}
	p, why, err := m.browserProvider(res)
	if err != nil {
		return nil, err
	}
	w, err := m.resolve(ctx, forBrowser(res), req.Flags, place{provider: p, why: why}, effects)
	if err != nil {
		return nil, err
	}
	w.settings = settings
	m.pruneIfDue(ctx, w)
	l, err := m.ensure(ctx, w, req.MustExist)
	if err != nil {
		return nil, err
	}
	return &Browser{m: m, live: l, res: res, settings: browserSettings(res)}, nil
}

// browserProvider returns what makes containers: a browser lives in one
// whatever walls commands have, unless settings name another provider.
func (m *Manager) browserProvider(res config.Resolved) (sandbox.Provider, string, error) {
	name := res.Provider
	if name == "auto" {
		name = "docker"
	}
	p, err := m.providers.Get(name)
	if err != nil {
		return nil, "", err
	}
	if f := p.Features(); !f.Images || !f.Dial {
		return nil, "", &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "open browser", Field: "provider", Resource: name,
			Message: "a browser runs in a container, and the provider " + name + " has none", Hint: "use --provider docker for the browser"}
	}
	return p, "set by " + res.Origin("provider"), nil
}

// BrowserName is the name of the container of the scope's browser, and the
// provider that has it.
func (m *Manager) BrowserName(who config.Who, flags *config.SandboxSettings) (name string, p sandbox.Provider, err error) {
	res, err := config.Resolve(m.settings.Load(), who, flags)
	if err != nil {
		return "", nil, err
	}
	if p, _, err = m.browserProvider(res); err != nil {
		return "", nil, err
	}
	name, err = config.Name(res.Browser.ContainerPrefix, m.owner(res))
	return name, p, err
}

// RemoveBrowser takes the scope's browser down with everything in it, and
// tells whether there was one. While it is in use it is [sandbox.CodeBusy],
// unless force says that its users lose it.
func (m *Manager) RemoveBrowser(ctx context.Context, who config.Who, flags *config.SandboxSettings, force bool) (name string, removed bool, err error) {
	name, p, err := m.BrowserName(who, flags)
	if err != nil {
		return "", false, err
	}
	_, err = p.Inspect(ctx, name)
	if err != nil && !sandbox.IsNotFound(err) {
		return name, false, err
	}
	removed = err == nil
	// What is gone may have left something behind all the same.
	err = m.remove(ctx, p, sandbox.KindBrowser, name)
	if force && sandbox.CodeOf(err) == sandbox.CodeBusy {
		err = m.removeUsed(ctx, p, name)
	}
	return name, removed && err == nil, err
}

// removeUsed removes a browser that somebody uses, in its turn.
func (m *Manager) removeUsed(ctx context.Context, p sandbox.Provider, name string) error {
	turn, err := m.leases.Ensure(ctx, name)
	if err != nil {
		return err
	}
	defer turn.Release()
	return m.removeNow(ctx, p, sandbox.KindBrowser, name)
}

// BrowserExists tells whether the scope has a browser's container, without
// making anything.
func (m *Manager) BrowserExists(ctx context.Context, who config.Who, flags *config.SandboxSettings) (bool, error) {
	name, p, err := m.BrowserName(who, flags)
	if err != nil {
		return false, err
	}
	if _, err = p.Inspect(ctx, name); sandbox.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// forBrowser turns the settings of a scope into those of its browser's
// container. How the browser is started is part of them, so that a change of
// it makes the container anew.
func forBrowser(res config.Resolved) config.Resolved {
	env := browserSettings(res).Environment()
	delete(env, "SANDBOX_BROWSER_START_TIMEOUT") // of the caller, not of the browser
	return res.ForBrowser(env)
}

// of returns the settings for what kind is.
func of(kind sandbox.Kind, res config.Resolved) config.Resolved {
	if kind == sandbox.KindBrowser {
		return forBrowser(res)
	}
	return res
}

func browserSettings(res config.Resolved) browser.Settings {
	b, l := res.Browser, res.Browser.Limits
	s := browser.Settings{
		CDPPort: int(b.CDPPort), VNCPort: int(b.VNCPort), NoVNCPort: int(b.NoVNCPort),
		Headless: b.Headless, VNC: b.EnableNoVNC, NoSandbox: b.DangerouslyNoSandbox, Direct: res.BrowserNetwork() != "none",
		Schemes: []string{"http", "https"}, Downloads: b.AllowDownloads, StartTimeout: time.Duration(b.AutoStartTimeout),
		Rules: forRules(res),
		Limits: browser.Limits{
			Navigation: time.Duration(l.Navigation), Navigations: int(l.Navigations), Redirects: int(l.Redirects), PageBytes: int64(l.PageBytes),
			ScreenshotPixels: l.ScreenshotPixels, ScreenshotsPerMinute: int(l.ScreenshotsPerMinute), TransferBytes: int64(l.TransferBytes),
		},
	}
	if b.AllowDataURLs {
		s.Schemes = append(s.Schemes, "data")
	}
	s.Sources, _ = netip.ParsePrefix(b.CDPSourceRange) // checked with the settings; empty is none
	return s
}

func forRules(res config.Resolved) sandbox.EgressRules {
	n := res.Network
	return sandbox.EgressRules{AllowedDomains: n.AllowedDomains, DeniedDomains: n.DeniedDomains, AllowPrivate: n.AllowPrivate, AllowPublic: n.AllowPublic}
}

// Name implements [browser.Container].
func (b *Browser) Name() string { return b.live.name() }

// Created reports whether the container was made for this opening.
func (b *Browser) Created() bool { return b.live.created }

// Owner says whose the browser is.
func (b *Browser) Owner() sandbox.Owner { return b.live.spec.Owner }

// AutoStart reports whether the browser may be started because it is used.
func (b *Browser) AutoStart() bool { return b.res.Browser.AutoStart }

// Settings implements [browser.Container].
func (b *Browser) Settings() browser.Settings { return b.settings }

// Dial implements [browser.Container].
func (b *Browser) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d, ok := b.live.Sandbox.(sandbox.Dialer)
	if !ok {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "dial", Resource: b.Name(), Message: "nothing inside can be reached", Hint: "the guest is needed for it; see sandbox doctor"}
	}
	return d.Dial(ctx, network, addr)
}

// Start implements [browser.Container].
func (b *Browser) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	c.Env = maps.Clone(c.Env)
	return b.live.Start(ctx, c)
}

// Way implements [browser.Container].
func (b *Browser) Way(ctx context.Context, port int) (netip.AddrPort, func(), bool, error) {
	none := netip.AddrPort{}
	rules := b.live.egress
	rules.Ask, rules.HTTPProxyPort = false, port
	if !opens(rules) || b.settings.Direct {
		return none, func() {}, false, nil
	}
	w, err := b.live.ways.own(func() (*way, error) { return b.m.openWay(ctx, b.live, rules) })
	if errors.Is(err, syscall.EADDRINUSE) {
		return none, nil, false, &sandbox.Error{Code: sandbox.CodeBusy, Op: "open the way out", Resource: b.Name(), Retryable: true,
			Message: "another program already serves the browser's way out", Err: err}
	}
	if err != nil {
		return none, nil, false, err
	}
	addr, err := addressOf(w)
	end := sync.OnceFunc(func() { b.live.ways.disown(w) })
	if err == nil && !b.owns(end) {
		err = errClosedBrowser(b.Name())
	}
	if err != nil {
		end()
		return none, nil, false, err
	}
	return addr, end, true, nil
}

// owns has end called when b is closed; false where it is closed already.
func (b *Browser) owns(end func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return false
	}
	b.ends = append(b.ends, end)
	return true
}

func errClosedBrowser(name string) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "use browser", Resource: name, Message: "the browser was let go of meanwhile", Retryable: true}
}

// addressOf is where the proxy of w listens inside. A browser shows its proxy
// no name and password, so its part of the record is the sandbox's.
func addressOf(w *way) (netip.AddrPort, error) {
	c := w.Command(newID(), outlet.Command{Program: "chromium"})
	defer c.End()
	u, err := url.Parse(c.Env()["HTTP_PROXY"])
	if err != nil {
		return netip.AddrPort{}, sandbox.Errorf(sandbox.CodeInternal, "open the way out", "the proxy has no address: %w", err)
	}
	addr, err := netip.ParseAddrPort(u.Host)
	if err != nil {
		return addr, sandbox.Errorf(sandbox.CodeInternal, "open the way out", "the proxy has no address: %w", err)
	}
	return addr, nil
}

// Workspace implements [browser.Container]: it is that of the scope's sandbox,
// whose container need not be there.
func (b *Browser) Workspace(ctx context.Context) (browser.Workspace, error) {
	none := browser.Workspace{}
	provider, _, err := b.m.browserProvider(b.res)
	if err != nil {
		return none, err
	}
	f, agentDir, err := b.m.facts(ctx, b.res, provider, observe)
	if err != nil {
		return none, err
	}
	w := &want{res: b.res, provider: provider, agentDir: agentDir, quota: int64(b.res.WorkspaceQuota)}
	if f, _, err = b.m.owned(b.res, f); err != nil {
		return none, err
	}
	if w.spec, err = config.BuildSpec(b.res, f); err != nil {
		return none, err
	}
	if err := b.m.prepare(ctx, w, w.spec); err != nil {
		return none, err
	}
	return browser.Workspace{Dir: workspaceOf(w.spec), UID: w.spec.UID, GID: w.spec.GID}, nil
}

// owned claims the user of a scope, so that its workspace can be made.
func (m *Manager) owned(res config.Resolved, f config.Facts) (config.Facts, workspace.Owner, error) {
	owner := m.owner(res)
	name, err := config.Name(res.Docker.ContainerPrefix, owner)
	if err != nil {
		return f, workspace.Owner{}, err
	}
	_, err = m.folders(res, name, owner, effects, &f)
	return f, workspace.Owner{UID: f.UID, GID: f.GID}, err
}

// Close implements [browser.Container].
func (b *Browser) Close() error {
	b.once.Do(func() {
		b.mu.Lock()
		ends := b.ends
		b.ends, b.over = nil, true
		b.mu.Unlock()
		for _, end := range ends {
			end()
		}
		b.m.record(b.live)
		b.live.close()
	})
	return nil
}
