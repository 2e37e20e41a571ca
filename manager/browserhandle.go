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

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
)

// A Browser is the open container of a browser, under a lease. It implements
// [browser.Container].
type Browser struct {
	m        *Manager
	live     *acquired
	res      config.Resolved // of the scope, not of the container
	settings browser.Settings
	begun    *auditEntry // on record; or nil

	once sync.Once
	mu   sync.Mutex
	ends []func() // of the open egress sessions
	over bool
}

var _ browser.Container = (*Browser)(nil)

// Name implements [browser.Container].
func (b *Browser) Name() string { return b.live.name() }

// Created reports whether the container was made for this opening.
func (b *Browser) Created() bool { return b.live.created }

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

// Network is the one that the container has, whatever settings say by now:
// none, own, or the name of a network of the engine.
func (b *Browser) Network() string { return b.live.spec.Network }

// Start implements [browser.Container]. What the container was made with, how
// the browser in it is started among it, holds for every command: who would
// start it with other settings would do so for everybody.
func (b *Browser) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	c.Env = maps.Clone(c.Env)
	for name := range c.Env {
		if made, ok := b.live.spec.Env[name]; ok {
			c.Env[name] = made
		}
	}
	return b.live.Start(ctx, c)
}

// OpenEgress implements [browser.Container].
func (b *Browser) OpenEgress(ctx context.Context, port int) (netip.AddrPort, func(), bool, error) {
	none := netip.AddrPort{}
	rules := b.live.egress
	rules.Ask, rules.HTTPProxyPort = false, port
	if !opens(rules) || b.settings.Direct {
		return none, func() {}, false, nil
	}
	w, err := b.live.egressSessions.own(func() (*egressSession, error) { return b.m.executor.openEgress(ctx, b.live, rules) })
	if errors.Is(err, syscall.EADDRINUSE) {
		return none, nil, false, &sandbox.Error{Code: sandbox.CodeBusy, Op: "open the way out", Resource: b.Name(), Retryable: true,
			Message: "another program already serves the browser's way out", Err: err}
	}
	if err != nil {
		return none, nil, false, err
	}
	addr, err := addressOf(w)
	end := sync.OnceFunc(func() { b.live.egressSessions.disown(w) })
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
func addressOf(w *egressSession) (netip.AddrPort, error) {
	c := w.Command(newID(), proxy.Command{Program: "chromium"})
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

// Workspace implements [browser.Container].
func (b *Browser) Workspace(ctx context.Context) (browser.Workspace, error) {
	return b.m.browsers.scratchpad(ctx, b.res)
}

// Close implements [browser.Container].
func (b *Browser) Close() error {
	var err error
	b.once.Do(func() {
		b.mu.Lock()
		ends := b.ends
		b.ends, b.over = nil, true
		b.mu.Unlock()
		for _, end := range ends {
			end()
		}
		b.m.builder.record(b.live)
		b.live.close()
		err = b.begun.end(context.Background(), nil)
	})
	return err
}
