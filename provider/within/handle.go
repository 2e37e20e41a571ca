package within

import (
	"context"
	"net"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// handle is an open sandbox of a [Provider].
type handle struct {
	p     *Provider
	spec  sandbox.Spec
	guest *client.Client
}

var (
	_ sandbox.Sandbox    = (*handle)(nil)
	_ sandbox.FileServer = (*handle)(nil)
	_ sandbox.Dialer     = (*handle)(nil)
	_ sandbox.Listener   = (*handle)(nil)
)

// Info implements [sandbox.Sandbox]. Of one that was removed it says what it was.
func (h *handle) Info() sandbox.Info {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	if b := h.p.boxes[h.spec.Name]; b != nil {
		return b.now()
	}
	return sandbox.Info{Name: h.spec.Name, Kind: h.spec.Kind, Provider: h.p.o.Name, Owner: h.spec.Owner, Status: sandbox.StatusMissing}
}

// Start implements [sandbox.Sandbox].
func (h *handle) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	return h.guest.Start(ctx, Command(c, h.spec))
}

// OpenShell implements [sandbox.Sandbox].
func (h *handle) OpenShell(ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
	o, limits := Shell(o, h.spec)
	return h.guest.OpenShell(ctx, o, limits)
}

// Usage implements [sandbox.Sandbox]: a guest does not measure the machine.
func (h *handle) Usage(context.Context) (sandbox.Usage, error) {
	return sandbox.Usage{}, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "usage", Resource: h.spec.Name, Message: "the provider " + h.p.o.Name + " does not measure sandboxes"}
}

// Files implements [sandbox.FileServer]. Paths are absolute ones inside, and each
// is kept to its mount of the Spec.
func (h *handle) Files(context.Context) (sandbox.Files, error) {
	table, err := fsbridge.NewMountTable(h.spec.Mounts, h.spec.Tmpfs)
	if err != nil {
		return nil, err
	}
	files, err := h.guest.Files(func(path string) (client.Spot, error) {
		at, err := table.Inside(path)
		return client.Spot{Root: at.Root.Target, Rel: at.Rel, ReadOnly: at.Root.ReadOnly}, err
	})
	if err != nil {
		return nil, err
	}
	return files, nil
}

// Dial implements [sandbox.Dialer].
func (h *handle) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return h.guest.Dial(ctx, network, addr)
}

// Listen implements [sandbox.Listener].
func (h *handle) Listen(ctx context.Context, network, addr string) (net.Listener, error) {
	return h.guest.Listen(ctx, network, addr)
}

// Ping reports whether the guest answers.
func (h *handle) Ping(ctx context.Context) error { return h.guest.Ping(ctx) }

// Cut ends the session at once.
func (h *handle) Cut() { h.guest.Cut() }

// Close implements [sandbox.Sandbox].
func (h *handle) Close() error { return h.guest.Close() }
