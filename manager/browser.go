package manager

import (
	"context"
	"net/netip"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// A browsers finds the providers and folders of browsers' containers.
type browsers struct{ m *Manager }

// A BrowserRequest says whose browser is wanted.
type BrowserRequest struct {
	Who   config.Who
	Flags *config.SandboxSettings // settings of this call alone; may be nil
	Tool  string                  // tool of an agent that this request is; empty where a person makes it

	MustExist bool // fail with CodeNotFound rather than create
}

// OpenBrowser ensures the container in which the browser of a scope runs, as
// Run does with a sandbox; the browser in it is the caller's to start. It is
// leased until it is closed.
//
// Where settings have browser.enabled off it is [sandbox.CodeCapabilityBlocked],
// with a provider that has no containers [sandbox.CodeUnsupported].
func (m *Manager) OpenBrowser(ctx context.Context, req BrowserRequest) (*Browser, error) {
	settings, err := m.currentOf(req.Who, req.Flags)
	if err != nil {
		return nil, err
	}
	res, err := config.Resolve(settings, req.Who, req.Flags)
	if err != nil {
		return nil, err
	}
	if !res.Browser.Enabled {
		return nil, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "open browser", Field: "browser.enabled",
			Message: "the settings have no browser for agent " + res.Agent, Hint: "set browser.enabled to true"}
	}
	if req.Tool != "" {
		if _, err := m.gates.judge(ctx, settings, res, Request{Who: req.Who, Flags: req.Flags, Tool: req.Tool}, gate.Call{Tool: req.Tool}); err != nil {
			return nil, err
		}
	}
	p, why, err := m.browsers.browserProvider(res)
	if err != nil {
		return nil, err
	}
	begun, err := m.browsers.declareBrowser(ctx, settings, res, req)
	if err != nil {
		return nil, err
	}
	w, err := m.describer.resolve(ctx, nil, forBrowser(res), req.Flags, place{provider: p, why: why}, effects)
	if err != nil {
		return nil, begun.end(ctx, err)
	}
	w.settings = settings
	m.pruner.pruneIfDue(ctx, w)
	l, err := m.builder.ensure(ctx, w, req.MustExist)
	if err != nil {
		return nil, begun.end(ctx, err)
	}
	return &Browser{m: m, live: l, res: res, settings: browserSettings(res).Kept(l.spec.Env), begun: begun}, nil
}

// declareBrowser puts on record that a browser's container is opened, where the
// settings want that of calls without a grant.
func (bs *browsers) declareBrowser(ctx context.Context, settings *config.Settings, res config.Resolved, req BrowserRequest) (*auditEntry, error) {
	if !res.RecordsCommands() {
		return nil, nil
	}
	p := &pipeline{m: bs.m, settings: settings, res: res, req: Request{Who: req.Who, Tool: req.Tool}}
	b := p.beginning()
	b.Kind, b.Capability = evidence.Browser, "browser:container"
	var err error
	if b.Sandbox, err = config.Name(res.Browser.ContainerPrefix, bs.m.describer.owner(res)); err != nil {
		return nil, err
	}
	return p.begin(ctx, b)
}

// browserProvider returns what makes containers: a browser lives in one
// whatever sandboxes commands have, unless settings name another provider.
func (bs *browsers) browserProvider(res config.Resolved) (sandbox.Provider, string, error) {
	name := res.Provider
	if name == "auto" {
		name = "docker"
	}
	p, err := bs.m.providers.Get(name)
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
	res, err := config.Resolve(m.current(), who, flags)
	if err != nil {
		return "", nil, err
	}
	if p, _, err = m.browsers.browserProvider(res); err != nil {
		return "", nil, err
	}
	name, err = config.Name(res.Browser.ContainerPrefix, m.describer.owner(res))
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
	err = m.builder.remove(ctx, p, sandbox.KindBrowser, name)
	if force && sandbox.CodeOf(err) == sandbox.CodeBusy {
		err = m.browsers.removeUsed(ctx, p, name)
	}
	return name, removed && err == nil, err
}

// removeUsed removes a browser that is in use, in its turn.
func (bs *browsers) removeUsed(ctx context.Context, p sandbox.Provider, name string) error {
	turn, err := bs.m.locksOf(p.Name()).Ensure(ctx, name)
	if err != nil {
		return err
	}
	defer turn.Release()
	return bs.m.builder.removeNow(ctx, p, sandbox.KindBrowser, name)
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
