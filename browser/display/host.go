package display

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/config"
)

// A hostBrowser is a browser of the host, which runs without isolation. The
// settings have allowed that explicitly.
type hostBrowser struct {
	d        *Display
	r        Request
	addr     string // of its DevTools protocol
	settings browser.Settings
}

// openHost connects to the host's browser, which has to run already.
func (d *Display) openHost(ctx context.Context, r Request, res config.Resolved) (Opened, browser.Version, error) {
	none := browser.Version{}
	u, err := url.Parse(res.Browser.HostCDPURL)
	if err != nil {
		return nil, none, sandbox.Errorf(sandbox.CodeValidation, "open browser", "browser.hostCdpUrl is no address: %w", err)
	}
	settings, err := d.backend.Settings(r)
	if err != nil {
		return nil, none, err
	}
	settings.Direct = true // its network is the host's
	if port, err := strconv.Atoi(u.Port()); err == nil {
		settings.CDPPort = port // of requests and errors
	}
	h := &hostBrowser{d: d, r: r, addr: u.Host, settings: settings}
	v, err := browser.Probe(ctx, h)
	if err != nil {
		return nil, none, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "open browser", Field: "browser.hostCdpUrl", Resource: u.Host,
			Message: "no browser answers at the address of the host", Err: err, Hint: "start one with --remote-debugging-port, or take browser.hostCdpUrl out"}
	}
	d.log.Warnf("using the host's own browser at %s: nothing isolates its pages from the host", u.Host)
	return h, v, nil
}

// hostName is the name of a host's browser in logs.
const hostName = "host"

// Name implements [browser.Container].
func (h *hostBrowser) Name() string { return hostName }

// Created implements [Opened].
func (h *hostBrowser) Created() bool { return false }

// Network implements [Opened].
func (h *hostBrowser) Network() string { return "" }

// Settings implements [browser.Container].
func (h *hostBrowser) Settings() browser.Settings { return h.settings }

// Dial implements [browser.Container]. It ignores the address and connects to
// the DevTools protocol.
func (h *hostBrowser) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, h.addr)
}

// Start implements [browser.Container].
func (h *hostBrowser) Start(context.Context, sandbox.Command) (sandbox.Process, error) {
	return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "start", Field: "browser.hostCdpUrl", Message: "files do not move between the workspace and a browser of the host",
		Hint: "take browser.hostCdpUrl out, so that the browser runs in a container"}
}

// OpenEgress implements [browser.Container].
func (h *hostBrowser) OpenEgress(context.Context, int) (netip.AddrPort, func(), bool, error) {
	return netip.AddrPort{}, func() {}, false, nil
}

// Workspace implements [browser.Container].
func (h *hostBrowser) Workspace(ctx context.Context) (browser.Workspace, error) {
	return h.d.backend.Workspace(ctx, h.r)
}

// A hostUpstream is the host's browser for one client of a CDP proxy.
type hostUpstream struct{ *hostBrowser }

// Dial implements [browser.Upstream].
func (h hostUpstream) Dial(ctx context.Context) (net.Conn, error) {
	return h.hostBrowser.Dial(ctx, "tcp", "")
}

// Close implements [browser.Container].
func (h *hostBrowser) Close() error { return nil }
